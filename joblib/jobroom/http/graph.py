"""The endpoint of a task's graph: a page of its nodes, and the edges that lead to them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobroom.domain.lifecycle import TaskStatus
from jobroom.http import paging, render, tasks
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
    after = found.next_after
    page = render.page(
        [_node(view) for view in found.nodes],
        total=found.total,
        limit=asked.limit,
        offset=asked.offset,
        next_cursor=None if after is None else paging.cursor_after("graph", after),
        total_capped=found.is_capped,
    )
    edges = [_edge(each) for each in found.edges]
    return reply({**page, "edges": edges, "hidden": found.hidden, "progress": _progress(found)})


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
