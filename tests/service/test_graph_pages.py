"""The graph around a task: what a caller sees of it, page by page."""

from __future__ import annotations

import time

import pytest
from growing import grow
from plots import Plot

from jobroom.domain.records import Caller
from jobroom.errors import TaskNotFound
from jobroom.service import graphs

FENCED = Caller("carol", rooms=frozenset({"r1"}))


@pytest.fixture
def plot(desk, alice, bob, rotate):
    """A graph of bob's, in a job that alice's worker serves."""
    return Plot(desk, bob, rotate)


def page(plot, name, caller=None, *, after=0, limit=500, offset=0):
    return plot.desk.queue.run(
        graphs.get_graph,
        caller=caller or plot.caller,
        task_id=plot.ids[name],
        after=after,
        limit=limit,
        offset=offset,
    )


def nodes(plot, found):
    return [plot.named(view.task.id) for view in found.nodes]


def edges(plot, found):
    return [
        (plot.named(each.dependency_id), plot.named(each.dependent_id), each.condition, each.state)
        for each in found.edges
    ]


def pages(plot, name, limit, caller=None):
    """All pages of a graph, by their cursors."""
    found = [page(plot, name, caller, limit=limit)]
    while found[-1].next_after is not None:
        found.append(page(plot, name, caller, after=found[-1].next_after, limit=limit))
    return found


@pytest.mark.parametrize("name", ["a", "b", "c", "d"])
def test_edges_are_followed_both_ways(plot, alice, name) -> None:
    """Contract, *GET /tasks/{id}/graph*: nodes and edges of the connected graph."""
    plot.draw(a="", b="", c="a b:afterany", d="a:afternotok", far="")
    plot.complete("a", alice)
    found = page(plot, name)
    assert nodes(plot, found) == ["a", "b", "c", "d"]
    assert edges(plot, found) == sorted(
        [
            ("a", "c", "afterok", "met"),
            ("b", "c", "afterany", "waiting"),
            ("a", "d", "afternotok", "broken"),
        ],
        key=lambda edge: (edge[1], plot.ids[edge[0]]),
    )
    assert (found.total, found.hidden, found.is_capped, found.next_after) == (4, 0, False, None)


def test_a_task_without_edges_is_alone(plot) -> None:
    plot.draw(a="", far="")
    found = page(plot, "a")
    assert (nodes(plot, found), found.edges, found.total) == (["a"], [], 1)


def test_the_progress_is_that_of_the_whole_graph(plot, alice) -> None:
    plot.draw(a="", b="a", c="a", d="a:afternotok", e="b c")
    plot.complete("a", alice)
    plot.complete("b", alice)
    found = page(plot, "e", limit=1)
    assert found.counts == {"completed": 2, "failed": 1, "pending": 1, "blocked": 1}
    assert (found.total, found.done_share) == (5, 0.6)


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 8])
def test_each_node_and_each_edge_is_on_one_page(plot, alice, limit) -> None:
    plot.draw(a="", b="a", c="a", d="b c", e="d a", f="d", g="f e a")
    plot.complete("a", alice)
    found = pages(plot, "d", limit)
    assert [name for each in found for name in nodes(plot, each)] == list("abcdefg")
    whole = page(plot, "d")
    assert [edge for each in found for edge in each.edges] == whole.edges
    assert len(whole.edges) == 10
    assert all(len(each.nodes) <= limit and each.total == 7 for each in found)
    for each in found:
        assert {edge.dependent_id for edge in each.edges} <= {v.task.id for v in each.nodes}


def test_a_page_may_be_asked_for_by_offset(plot) -> None:
    plot.draw(a="", b="a", c="b", d="c")
    found = page(plot, "a", limit=2, offset=1)
    assert nodes(plot, found) == ["b", "c"]
    assert found.next_after is not None
    assert nodes(plot, page(plot, "a", limit=2, offset=2)) == ["c", "d"]
    assert nodes(plot, page(plot, "a", limit=2, offset=9)) == []


def test_a_page_of_nothing_has_the_progress(plot) -> None:
    plot.draw(a="", b="a")
    found = page(plot, "a", limit=0)
    assert (found.nodes, found.edges, found.total, found.next_after) == ([], [], 2, None)


def test_a_dependency_that_is_gone_is_shown_as_an_edge(plot, desk, alice) -> None:
    """Removed by retention: the edge is there, the node is not."""
    plot.draw(a="", b="a", c="b")
    plot.complete("a", alice)
    desk.write(f"DELETE FROM task WHERE id = '{plot.ids['a']}'")  # noqa: S608 - our own id
    found = page(plot, "c")
    assert nodes(plot, found) == ["b", "c"]
    assert edges(plot, found) == [("a", "b", "afterok", "met"), ("b", "c", "afterok", "waiting")]
    assert (found.total, found.hidden) == (2, 0)


# --- what may be seen -------------------------------------------------------------------------


@pytest.fixture
def crossing(plot):
    """a -> b -> c -> d, and b -> e; b is in a room that carol does not see."""
    plot.draw({"b": {"room_id": "r2"}}, a="", b="a", c="b", d="c", e="b a")
    return plot


def test_what_may_not_be_seen_is_left_out_and_not_walked_through(crossing) -> None:
    """Rules, *Who sees what*: b is hidden, and what only b leads to is not found."""
    found = page(crossing, "a", FENCED)
    assert nodes(crossing, found) == ["a", "e"]
    assert edges(crossing, found) == [("a", "e", "afterok", "waiting")]
    assert (found.total, found.hidden) == (2, 1)
    found = page(crossing, "d", FENCED)
    assert nodes(crossing, found) == ["c", "d"]
    assert (found.hidden, sum(found.counts.values())) == (1, 2)


def test_who_made_it_sees_it_in_any_room(crossing) -> None:
    fenced = Caller(crossing.caller.identity, rooms=frozenset({"r1"}))
    assert page(crossing, "a", fenced).total == 5
    nothing = Caller(crossing.caller.identity, rooms=frozenset())
    assert page(crossing, "a", nothing).total == 5


def test_who_holds_it_sees_it_in_any_room(crossing, alice) -> None:
    crossing.complete("a", alice)
    crossing.start("b", alice)
    fenced = Caller(alice.identity, rooms=frozenset({"r1"}))
    assert page(crossing, "a", fenced).total == 5


def test_rooms_may_be_many(crossing) -> None:
    caller = Caller("carol", rooms=frozenset(f"r{n}" for n in range(100)))
    assert page(crossing, "a", caller).total == 5


def test_a_task_that_may_not_be_seen_is_not_found(crossing) -> None:
    """As GET /tasks/{id}."""
    with pytest.raises(TaskNotFound):
        page(crossing, "b", FENCED)
    crossing.ids["none"] = "01890a5d-ac96-774b-bcce-b302099a8057"
    with pytest.raises(TaskNotFound):
        page(crossing, "none")


def test_what_the_embedded_queue_made_is_for_admins(plot, admin) -> None:
    plot.draw({"a": {"room_id": "@local"}}, a="", b="a")
    found = page(plot, "b", Caller("carol"))
    assert (nodes(plot, found), found.edges, found.hidden) == (["b"], [], 1)
    # Whoever made it there is a process; its name is no identity.
    assert page(plot, "b").hidden == 1
    assert page(plot, "b", admin).total == 2
    assert page(plot, "b", Caller("ann", is_admin=True, rooms=frozenset({"r1"}))).hidden == 1


# --- bounds -----------------------------------------------------------------------------------


def test_a_large_graph_is_shown_to_a_limit(plot, monkeypatch) -> None:
    monkeypatch.setattr(graphs, "MOST_NODES", 4)
    plot.draw(**{f"n{i}": f"n{i - 1}" if i else "" for i in range(7)})
    found = pages(plot, "n3", 3)
    shown = [name for each in found for name in nodes(plot, each)]
    # The nearest, in order: either end of the chain may be looked at first.
    assert shown in (["n1", "n2", "n3", "n4"], ["n2", "n3", "n4", "n5"])
    assert all(each.is_capped and each.total == 4 for each in found)
    monkeypatch.setattr(graphs, "MOST_NODES", 7)
    whole = page(plot, "n3")
    assert (whole.total, whole.is_capped) == (7, False)


def test_a_page_ends_before_it_has_too_many_edges(plot, monkeypatch) -> None:
    monkeypatch.setattr(graphs, "MOST_EDGES", 4)
    plot.draw(a="", b="a", c="a b", d="a b c", e="a b c d", f="a b c d e", g="f")
    found = pages(plot, "a", 100)
    assert [nodes(plot, each) for each in found] == [["a", "b", "c"], ["d"], ["e"], ["f"], ["g"]]
    assert [len(each.edges) for each in found] == [3, 3, 4, 5, 1]
    monkeypatch.setattr(graphs, "MOST_EDGES", 100)
    assert [edge for each in found for edge in each.edges] == page(plot, "a").edges


def test_ten_thousand_nodes_are_paged_through(plot, desk, tally) -> None:
    """Each node and each edge once, at a limit of 500; more than that is capped."""
    plot.draw(root="")
    root = plot.ids["root"]
    grow(desk, root, graphs.MOST_NODES - 1)
    began = time.perf_counter()
    found = pages(plot, "root", 500)
    tally(pages=len(found), seconds=f"{time.perf_counter() - began:.2f}")
    seen = [view.task.id for each in found for view in each.nodes]
    assert len(seen) == len(set(seen)) == found[0].total == graphs.MOST_NODES
    ends = [(each.dependency_id, each.dependent_id) for one in found for each in one.edges]
    assert len(ends) == len(set(ends)) == graphs.MOST_NODES - 1
    assert not any(each.is_capped for each in found)
    plot.draw(one_more="root")
    assert page(plot, "root", limit=1).is_capped
