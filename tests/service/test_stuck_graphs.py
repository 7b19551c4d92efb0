"""The sweep's step (5): blocked tasks that wait for nothing, as nothing of ours leaves them."""

from __future__ import annotations

import pytest
from growing import grow
from plots import Plot, tangles

from jobroom.domain.records import SweepReport
from jobroom.service import sweeping


@pytest.fixture
def plot(desk, alice, bob, rotate):
    """A graph of bob's, in a job that alice's worker serves; in the end it is whole."""
    drawn = Plot(desk, bob, rotate)
    yield drawn
    assert tangles(desk) == []


def set_task(plot, name, **values):
    """Write to a task what no rule would."""
    said = ", ".join(f"{column} = {value!r}" for column, value in values.items())
    plot.desk.write(f"UPDATE task SET {said} WHERE id = '{plot.ids[name]}'")  # noqa: S608 - ours


def end_unsettled(plot, name, status="completed"):
    """As if somebody had ended it who knows nothing of edges."""
    set_task(plot, name, status=status, completed_at=1)


def lose(plot, name):
    plot.desk.write(f"DELETE FROM task WHERE id = '{plot.ids[name]}'")  # noqa: S608 - our own id


@pytest.mark.parametrize(
    ("status", "how", "then"),
    [
        ("completed", "afterok", "pending"),
        ("completed", "afternotok", "failed"),
        ("failed", "afterok", "failed"),
        ("cancelled", "afternotok", "pending"),
        ("cancelled", "afterany", "pending"),
    ],
)
def test_an_end_that_was_not_settled_is_settled(plot, desk, status, how, then) -> None:
    """Contract, *The sweep*, (5): a waiting edge leads from a task that has ended."""
    plot.draw(a="", b=f"a:{how}", c="b")
    end_unsettled(plot, "a", status)
    assert desk.sweep().stuck_tasks == 1
    below = {"pending": "blocked", "failed": "failed"}[then]
    assert plot.statuses() == {"a": status, "b": then, "c": below}
    assert desk.sweep() == SweepReport()


def test_what_waits_for_two_such_ends_is_freed_by_one_sweep(plot, desk) -> None:
    plot.draw(a="", b="", c="a b")
    end_unsettled(plot, "a")
    end_unsettled(plot, "b")
    assert desk.sweep().stuck_tasks == 2
    assert plot.statuses()["c"] == "pending"


def test_what_waits_for_a_task_that_is_gone_fails_and_says_so(plot, desk) -> None:
    plot.draw(a="", b="a", c="b", d="c:afternotok")
    lose(plot, "a")
    assert desk.sweep().stuck_tasks == 1
    rows = plot.rows()
    assert rows["b"][0] == "failed"
    assert rows["b"][2:] == ("a", "dependency a is gone")
    assert rows["c"][2:] == ("b", "dependency b failed")
    assert rows["d"][0] == "pending"
    assert plot.task("b").due_at is not None


def test_what_waits_for_nothing_is_pending(plot, desk, alice) -> None:
    plot.draw(a="", b="a")
    desk.write("DELETE FROM edge")
    assert desk.sweep().stuck_tasks == 1
    assert plot.statuses()["b"] == "pending"
    assert plot.start("b", alice).status == "running"


def test_what_waits_for_nothing_waits_for_its_time(plot, desk, alice) -> None:
    plot.draw({"b": {"run_at": desk.soon(60)}}, a="", b="a")
    desk.write("DELETE FROM edge")
    desk.sweep()
    assert (plot.task("b").status, plot.task("b").ready) == ("pending", 0)


def test_what_waits_in_vain_fails(plot, desk, alice) -> None:
    plot.draw(a="", b="a", c="b")
    plot.fail("a", alice)
    desk.write("UPDATE edge SET state = 'waiting' WHERE state = 'broken'")
    for name in ("b", "c"):
        plot.desk.write(
            "UPDATE task SET status = 'blocked', completed_at = NULL, failed_by = NULL,"  # noqa: S608 - our own id
            f" error = NULL WHERE id = '{plot.ids[name]}'"
        )
    desk.write("UPDATE edge SET state = 'broken'")
    assert desk.sweep().stuck_tasks >= 1
    assert plot.statuses() == {"a": "failed", "b": "failed", "c": "failed"}
    assert plot.rows()["b"][2:] == ("a", "dependency a failed")


def test_those_who_wait_are_told(plot, desk) -> None:
    plot.draw(a="", b="a", x="", y="x", z="")
    end_unsettled(plot, "a")
    lose(plot, "x")
    told = []
    desk.queue.listeners.append(
        type("L", (), {"known": {}, "logs": {}, "tell": staticmethod(told.extend)})()
    )
    desk.sweep()
    rows = plot.rows()
    assert {plot.named(each.id): each.version for each in told} == {
        name: rows[name][1] for name in ("b", "y")
    }


def test_a_whole_graph_is_left_as_it_is(plot, desk, alice) -> None:
    plot.draw(a="", b="a", c="a:afterany b", d="c:afternotok")
    plot.start("a", alice)
    before = plot.rows()
    assert desk.sweep().stuck_tasks == 0
    assert plot.rows() == before


def test_what_the_embedded_queue_waits_for_may_come_later(desk, alice, bob, rotate) -> None:
    """Contract, *add_job*: a dependency may be unknown; room @local is left alone."""
    plot = Plot(desk, bob, rotate)
    plot.draw({name: {"room_id": "@local"} for name in "ab"}, a="", b="a", c="")
    lose(plot, "a")
    assert desk.sweep().stuck_tasks == 0
    assert desk.read(f"SELECT status FROM task WHERE id = '{plot.ids['b']}'") == [("blocked",)]  # noqa: S608 - our own id


# --- bounds -----------------------------------------------------------------------------------


def test_each_sweep_looks_at_the_next_of_them(plot, desk, monkeypatch) -> None:
    """Its cost does not grow with what waits; the place is kept in the store."""
    monkeypatch.setattr(sweeping, "LOOKED_AT", 3)
    plot.draw(a="", **{f"b{n}": "a" for n in range(7)}, x="", y="x")
    end_unsettled(plot, "x")
    assert [desk.sweep().stuck_tasks for _ in range(3)] == [0, 0, 1]
    assert plot.statuses()["y"] == "pending"
    plot.draw(u="", v="u")
    end_unsettled(plot, "u")
    assert [desk.sweep().stuck_tasks for _ in range(3)] == [0, 0, 1]


def test_a_full_step_is_followed_by_another(plot, desk, monkeypatch) -> None:
    monkeypatch.setattr(desk.queue.database, "batch", 2)
    plot.draw(**{f"a{n}": "" for n in range(5)}, **{f"b{n}": f"a{n}" for n in range(5)})
    for n in range(5):
        end_unsettled(plot, f"a{n}")
    assert desk.queue.run(sweeping.settle_stuck).stuck_tasks == 2
    assert desk.sweep().stuck_tasks == 3
    assert {plot.statuses()[f"b{n}"] for n in range(5)} == {"pending"}


def test_one_end_is_settled_once_for_all_that_wait_for_it(plot, desk) -> None:
    plot.draw(a="")
    grow(desk, plot.ids["a"], 500, "fan")
    end_unsettled(plot, "a")
    assert desk.sweep().stuck_tasks <= desk.queue.database.batch
    assert desk.read("SELECT count(*) FROM task WHERE status = 'pending'") == [(500,)]


def test_what_no_step_can_mend_does_not_hold_the_sweep_up(plot, desk, monkeypatch) -> None:
    """A step that changes nothing of it looks at it once, and goes on."""
    plot.draw(a="", b="a")
    end_unsettled(plot, "a")
    seen = []
    monkeypatch.setattr(sweeping.edges, "settle", lambda _tx, task_id: seen.append(task_id))
    assert desk.sweep().stuck_tasks == 1
    assert seen == [plot.ids["a"]]
    monkeypatch.undo()
    assert desk.sweep().stuck_tasks == 1
