"""The graph of a task: what is joined to it by dependencies, page by page, and how far it is."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from jobroom.domain.lifecycle import TERMINAL
from jobroom.service import access
from jobroom.service.use_case import reads
from jobroom.store import graphs, tasks
from jobroom.store.transaction import Transaction

if TYPE_CHECKING:
    from jobroom.domain.records import Caller, TaskView
    from jobroom.store.graphs import Edge, Place

MOST_NODES = 10_000
"""So many tasks, the nearest, are looked at; what a larger graph has beyond them is not shown."""
MOST_EDGES = 10_000
"""A page ends before its edges are more, but it has one node at least, with all of its edges."""


class GraphPage(NamedTuple):
    """A part of a graph: some of its tasks in order, and the edges that lead to them.

    ``counts`` are the tasks of the whole graph by status, ``hidden`` those at its border that the
    caller may not see; ``is_capped``: there are more than ``MOST_NODES``. ``next_after`` is where
    the next part begins, None on the last.
    """

    nodes: list[TaskView]
    edges: list[Edge]
    counts: dict[str, int]
    total: int
    hidden: int
    is_capped: bool
    next_after: int | None

    @property
    def done_share(self) -> float:
        """Which share of the tasks has ended."""
        ended = sum(self.counts.get(status, 0) for status in TERMINAL)
        return ended / self.total if self.total else 0.0


@reads
def get_graph(
    tx: Transaction, *, caller: Caller, task_id: str, after: int, limit: int, offset: int
) -> GraphPage:
    """A part of the graph that a task belongs to, edges followed both ways.

    ``after``: only tasks behind that ``seq``. What the caller may not see is left out with its
    edges, and not walked through. Raises TaskNotFound.
    """
    found = tasks.get(tx, task_id)
    if found is None or not access.sees_task(caller, found[0].task, found[2]):
        raise access.task_not_found(task_id)
    reached = graphs.walk(tx, found[0].task.id, caller=caller, limit=MOST_NODES + 1)
    places = [place for place in reached[:MOST_NODES] if place.is_seen]
    wanted = [seq for seq in sorted(place.seq for place in places) if seq > after][offset:]
    edges, shown = _edges_of(tx, wanted[:limit], caller)
    return GraphPage(
        nodes=graphs.list_nodes(tx, shown),
        edges=edges,
        counts=_count(places),
        total=len(places),
        hidden=min(len(reached), MOST_NODES) - len(places),
        is_capped=len(reached) > MOST_NODES,
        next_after=shown[-1] if shown and len(wanted) > len(shown) else None,
    )


def _count(places: list[Place]) -> dict[str, int]:
    return dict(Counter(place.status for place in places))


def _edges_of(tx: Transaction, seqs: list[int], caller: Caller) -> tuple[list[Edge], list[int]]:
    """The edges to these tasks, and as many of the tasks as have room for all of theirs."""
    edges = graphs.list_edges(tx, seqs, caller=caller, limit=MOST_EDGES + 1)
    if len(edges) <= MOST_EDGES:
        return edges, seqs
    cut = edges[-1].dependent_seq
    shown = [seq for seq in seqs if seq < cut]
    if shown:
        return [each for each in edges if each.dependent_seq < cut], shown
    # One task that depends on more than that: it has a page of its own.
    return graphs.list_edges(tx, seqs[:1], caller=caller, limit=graphs.NO_LIMIT), seqs[:1]
