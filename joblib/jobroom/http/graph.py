"""The endpoint of a task's graph: a page of its nodes, and the edges that lead to them."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from jobroom.domain.lifecycle import TaskStatus
from jobroom.http import fitting, paging, render, tasks
from jobroom.http.exchange import reply
from jobroom.service import graphs

if TYPE_CHECKING:
    from jobroom.domain.records import TaskView
    from jobroom.http.exchange import Call, Reply
    from jobroom.store.graphs import Edge

_SHOWN = (
    "id",
    "key",
    "job_name",
    "room_id",
    "status",
    "progress",
    "error",
    "failed_by",
    "created_at",
    "started_at",
    "completed_at",
)
"""What a node has of a task in a list."""
EDGE_BYTES = 192
"""What an edge takes in JSON at most."""


async def get_graph(call: Call) -> Reply:
    """A part of the graph that a task belongs to."""
    asked = paging.page(call, "graph")
    found: graphs.GraphPage = await call.run(
        graphs.get_graph,
        caller=call.caller,
        task_id=tasks.task_id_of(call),
        after=asked.after or 0,
        limit=asked.limit,
        offset=asked.offset,
    )
    nodes = _nodes_that_fit(call, found)
    after = found.next_after if len(nodes) == len(found.nodes) else nodes[-1].task.seq
    shown = {view.task.seq for view in nodes}
    page = render.page(
        [_node(view) for view in nodes],
        total=found.total,
        limit=asked.limit,
        offset=asked.offset,
        next_cursor=None if after is None else paging.cursor_after(asked, after),
        total_capped=found.is_capped,
    )
    edges = [_edge(each) for each in found.edges if each.dependent_seq in shown]
    page |= {"edges": edges, "hidden": found.hidden, "progress": _progress(found)}
    return reply(_without_edges_too_many(page, call.most_answer_bytes))


def _without_edges_too_many(page: render.Document, most_bytes: int | None) -> render.Document:
    """Leave out edges where those to one node alone are too long for a page, and say how many."""
    edges = page["edges"]
    nodes_bytes = sum(len(render.dump(node)) for node in page["items"][:1])
    most = max(0, fitting.room(most_bytes) - nodes_bytes) // EDGE_BYTES
    if len(page["items"]) > 1 or len(edges) <= most:
        return page
    return {**page, "edges": edges[:most], "edges_left_out": len(edges) - most}


def _nodes_that_fit(call: Call, found: graphs.GraphPage) -> list[TaskView]:
    """The nodes for which, with the edges to them, a page has room; one at least."""
    edges = Counter(each.dependent_seq for each in found.edges)
    sizes = (
        len(render.dump(_node(view))) + EDGE_BYTES * edges[view.task.seq] for view in found.nodes
    )
    return found.nodes[: fitting.how_many(sizes, call.most_answer_bytes)]


def _node(view: TaskView) -> render.Document:
    document = render.task_document(view, in_list=True)
    return {name: document[name] for name in _SHOWN}


def _edge(edge: Edge) -> render.Document:
    return {
        "from": edge.dependency_id,
        "to": edge.dependent_id,
        "condition": edge.condition,
        "state": edge.state,
    }


def _progress(found: graphs.GraphPage) -> render.Document:
    by_status = {status.value: found.counts.get(status, 0) for status in TaskStatus}
    return {"total": found.total, **by_status, "done_share": found.done_share}
