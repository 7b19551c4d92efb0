"""A task's log: what its worker sends while it runs, and readers follow (contract, *Tasks*).

The sender says how many bytes of this attempt's log it knows to be stored. What is stored beyond
that is not stored again, so a report may be repeated with its log; where less is stored, the text
is put where the sender says, and a reader sees a mark in the place of what is missing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from jobroom.domain import jsontext, logtext
from jobroom.domain.lifecycle import HELD, TaskStatus
from jobroom.errors import NotFound
from jobroom.service import access
from jobroom.service.use_case import reads
from jobroom.store import log_pages, task_logs
from jobroom.store.statement import Statement
from jobroom.store.transaction import Transaction

if TYPE_CHECKING:
    from typing import Any

    from jobroom.domain.records import Caller, TaskView

TRIES = 5
LOG_ALONE = task_logs.LOOK
"""What is asked where a report brings text for the log and says nothing else."""
_WAITS_FOR_A_CLAIM = (TaskStatus.BLOCKED, TaskStatus.PENDING)


@dataclass(slots=True)
class Entry:
    """A text for the log, on its way with a report.

    ``is_taken``: the report was, as the holder's or an admin's. ``reach`` is how far the log
    reaches with the text in it; None as long as that is not stored.
    """

    text: str
    offset: int | None
    most: int
    is_taken: bool = False
    reach: int | None = None

    def piece(self) -> task_logs.Piece:
        """The whole, for a log that ends where the sender believes, or before."""
        if self.offset is None:
            return task_logs.Piece(None, self.text, len(self.text.encode()), self.most)
        return _piece(self.text, start=self.offset, most=self.most)

    def piece_behind(self, end: int) -> task_logs.Piece | None:
        """What is new to a log that ends there; None if nothing is, or the log is full."""
        start, text = end if self.offset is None else self.offset, self.text
        if start < end:
            start, text = logtext.rest(text, start=start, end=end)
        return _piece(text, start=start, most=self.most) if text and end <= self.most else None


def _piece(text: str, *, start: int, most: int) -> task_logs.Piece:
    start, text = logtext.place(text, start=start, most=most)
    return task_logs.Piece(start, text, len(text.encode()), most)


def entry(tx: Transaction, text: str, offset: int | None) -> Entry:
    """What a report brings for the log; a NUL becomes U+2400 (rules, *Text*)."""
    return Entry(jsontext.escape_nul(text), offset, tx.settings.max_log_bytes)


def take(
    tx: Transaction, statement: Statement, *, said: Entry, **params: Any
) -> tuple[TaskView, int | None] | None:
    """Run a report and append its log, all or nothing; as ``store.reports.report``."""
    found = task_logs.report(tx, statement, said.piece(), **params)
    if found is None:
        return None
    done, said.reach = found
    said.is_taken = True
    return done


def finish(
    tx: Transaction,
    caller: Caller,
    view: TaskView,
    said: Entry,
    *,
    is_new: bool,
    is_cancelled: bool,
) -> int:
    """Append what an accepted report has brought and is not stored yet; how far the log reaches.

    ``is_new``: it has changed the task. Of a repeat or a cancellation only who has the attempt, or
    an admin, has something to say.
    """
    if said.reach is not None:
        return said.reach
    is_holders = said.is_taken or (is_new and not is_cancelled)
    may = is_holders or access.is_admin_in(caller, view.task.room_id)
    before = None
    for _ in range(TRIES):
        end = task_logs.reach(tx, view.task.id, attempt=view.task.attempt)
        piece = said.piece_behind(end)
        # Without a place nobody can tell a repeat from more of the same. And what was not taken
        # though nothing came in between is not the caller's to append.
        if (
            piece is None
            or end == before
            or (said.offset is None and not (is_new or said.is_taken))
        ):
            break
        added = task_logs.append(tx, view, piece, identity=caller.identity, may=may)
        if added is not None:
            return added
        before = end
    return end


def reach_of(
    tx: Transaction, task_id: str, said: Entry | None, *, attempt: int | None
) -> int | None:
    """How far the log of an earlier attempt reaches, of which a report with a log comes again."""
    if said is None or attempt is None:
        return None
    return task_logs.reach(tx, task_id, attempt=attempt)


class LogPart(NamedTuple):
    """A part of an attempt's log.

    ``has_ended``: the attempt is over, and this is the end of its log. ``reach`` and ``version``
    are what tells whether there is something new.
    """

    attempt: int
    page: logtext.Page
    has_ended: bool
    reach: int
    version: int


@reads
def read_log(
    tx: Transaction, *, caller: Caller, task_id: str, attempt: int | None, offset: int, most: int
) -> LogPart:
    """What lies behind ``offset`` in the log of an attempt, the newest where none is named.

    Raises TaskNotFound; NotFound for an attempt that has not been made.
    """
    kept = log_pages.read(tx, task_id, attempt=attempt, offset=offset, most=most)
    if kept is None or not access.sees_task(caller, kept.task, kept.task.holder):
        raise access.task_not_found(task_id)
    if kept.attempt > kept.newest:
        message = f"Task {task_id} has had {kept.newest} attempts; there is no {kept.attempt} yet."
        raise NotFound(message)
    page = logtext.page(kept.pieces, offset=offset, most=most)
    is_whole = page.next_offset >= kept.reach
    return LogPart(kept.attempt, page, is_whole and _is_over(kept), kept.reach, kept.version)


def _is_over(kept: log_pages.Kept) -> bool:
    if kept.attempt < kept.newest:
        return True
    if kept.newest == 0 and kept.task.status in _WAITS_FOR_A_CLAIM:
        return False
    return kept.task.status not in HELD
