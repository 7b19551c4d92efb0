"""What attempts have written while they ran: pieces of text, appended to their logs.

A piece is appended by one guarded statement: that of a report, with the report's own guard, in one
transaction with it. Two that say the same at once are told apart by where a piece must begin: it
never begins before the log ends.
"""

from __future__ import annotations

from functools import cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import (
    BigInteger,
    Integer,
    Text,
    and_,
    bindparam,
    exists,
    func,
    not_,
    or_,
    select,
    update,
)
from sqlalchemy.dialects.sqlite import insert as upsert

from jobroom.domain.records import Logged, TaskView
from jobroom.store import chunks, edges, reports, workers
from jobroom.store.functions import byte_length
from jobroom.store.schema import task, task_log, worker
from jobroom.store.statement import Statement, literal
from jobroom.store.views import HELD, HOLDER_HEARD, NULL, TIME, VIEW, noted, view

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from sqlalchemy import ColumnElement, Select
    from sqlalchemy.sql.dml import ReturningInsert, ReturningUpdate
    from sqlalchemy.sql.expression import ClauseElement

    from jobroom.store.transaction import Row, Transaction

SMALL_BYTES = 4096
"""A piece grows to this size before the next one begins: rows are read, and removed, one by one."""
_KEY = bindparam("key", type_=Text)

LOCK = Statement(select(task.c.seq).where(task.c.id == _KEY).with_for_update(key_share=True))
"""Where others write beside us: what comes next sees the row, and its log, as they stay."""


class Piece(NamedTuple):
    """A text to append; ``start`` None is wherever the log ends, if that leaves room for it."""

    start: int | None
    text: str
    size: int
    most: int
    """How many bytes a log may have."""


def end_of(attempt: ColumnElement[int]) -> ColumnElement[int]:
    """How many bytes the log of an attempt of the task has."""
    last = task_log.alias("last")
    found = (
        select(last.c.upto)
        .where(last.c.task_seq == task.c.seq, last.c.attempt == attempt)
        .order_by(last.c.upto.desc())
        .limit(literal(1))
        .correlate(task)
        .scalar_subquery()
    )
    return func.coalesce(found, literal(0))


_START = bindparam("log_start", type_=BigInteger)
_SIZE = bindparam("log_size", type_=BigInteger)


def _append(*guards: ColumnElement[bool]) -> ReturningInsert[Any]:
    end = end_of(task.c.attempt)
    start = func.coalesce(_START, end)
    piece = select(
        task.c.seq,
        task.c.attempt,
        (start + _SIZE).label("upto"),
        bindparam("log_text", type_=Text).label("text"),
    ).where(
        *guards,
        literal(0) < _SIZE,
        end <= start,
        or_(_START.is_not(None), end + _SIZE <= bindparam("log_most", type_=BigInteger)),
    )
    return (
        upsert(task_log)
        .from_select(["task_seq", "attempt", "upto", "text"], piece)
        .on_conflict_do_nothing()
        .returning(task_log.c.upto)
    )


def _extend(guard: ColumnElement[bool]) -> ReturningUpdate[Any]:
    later = task_log.alias("later")
    is_last = not_(
        exists(
            select(literal(1)).where(
                later.c.task_seq == task_log.c.task_seq,
                later.c.attempt == task_log.c.attempt,
                later.c.upto > _START,
            )
        )
    )
    return (
        update(task_log)
        .where(
            # One by one: for a pair of them SQLite may look at all pieces of the task.
            task_log.c.task_seq == select(task.c.seq).where(guard).scalar_subquery(),
            task_log.c.attempt == select(task.c.attempt).where(guard).scalar_subquery(),
            task_log.c.upto == _START,
            byte_length(task_log.c.text) + _SIZE <= literal(SMALL_BYTES),
            literal(0) < _SIZE,
            is_last,
        )
        .values(
            upto=task_log.c.upto + _SIZE,
            text=task_log.c.text.concat(bindparam("log_text", type_=Text)),
        )
        .returning(task_log.c.upto)
    )


def _look(heard: ColumnElement[Any]) -> Select[Any]:
    return select(*VIEW, heard, TIME).where(*reports.BY_HOLDER, HELD)


LOOK = Statement(
    lambda: _look(HOLDER_HEARD), libsql=lambda: _look(NULL), postgresql=lambda: _look(HOLDER_HEARD)
)
"""As ``reports.NOTE_PROGRESS``, where there is nothing to note: the row is left as it is."""


def _beside(report: Statement, write: Callable[[Any], ClauseElement]) -> Statement:
    """Writes where that report will be taken, by its own guard."""

    def made(name: str) -> ClauseElement:
        guarded: Any = report.element(name)
        return write(guarded.whereclause)

    return Statement(
        partial(made, ""), libsql=partial(made, "libsql"), postgresql=partial(made, "postgresql")
    )


_REPORTS = (
    LOOK,
    reports.NOTE_PROGRESS,
    reports.START,
    reports.HAND_BACK,
    *reports.SETTLED_BY.keys(),
    *reports.SETTLED_BY.values(),
)
_EXTEND_BESIDE = {each: _beside(each, _extend) for each in _REPORTS}
"""Each line a second is a piece of its own only until they are worth one together."""
_APPEND_BESIDE = {each: _beside(each, _append) for each in _REPORTS}

Said = tuple[TaskView, int | None]


def report(
    tx: Transaction, statement: Statement, piece: Piece, **params: Any
) -> tuple[Said, int | None] | None:
    """As ``reports.report``, for any but a cancellation, and append a piece with it.

    Beside the task, and when its worker was heard of last, comes where the log ends now; None if
    the piece was not appended, because it begins before the log ends or is too long. None instead
    of all if the guard did not hold.
    """
    params = {**params, **_of(piece)}
    whole = reports.SETTLED_BY.get(statement)
    if whole is None or tx.commits_alone:
        done = _both(tx, statement, params)
        if done is not None or whole is None:
            return done
        return _both(tx, whole, params, settles=True)
    edges.lock(tx)
    done = _both(tx, whole, params)
    if done is not None and done[0][0].task.has_dependents:
        edges.settle(tx, done[0][0].task.id)
    return done


def _of(piece: Piece) -> dict[str, Any]:
    return {
        "log_start": piece.start,
        "log_size": piece.size,
        "log_text": piece.text,
        "log_most": piece.most,
    }


def _both(
    tx: Transaction, statement: Statement, params: dict[str, Any], *, settles: bool = False
) -> tuple[Said, int | None] | None:
    settling = edges.SETTLING if settles else ()
    extended, appended, ended, *settled = tx.together(
        _EXTEND_BESIDE[statement],
        # It finds the log longer by then, and does nothing.
        _APPEND_BESIDE[statement],
        statement,
        *settling,
        # The graph's before the row's, as everybody does.
        locks=(*((edges.LOCK,) if settles else ()), LOCK),
        sparing=(workers.TOUCH_HOLDER,),
        fresh=workers.fresh_for(tx),
        **params,
    )
    if not ended:
        return None
    if statement is LOOK:
        tx.learn(ended[0][-1])
        done: Said = view(ended[0][:-2]), ended[0][-2]
    else:
        done = noted(tx, ended[0])
    if settles:
        edges.note_settled(tx, settled)
    return done, _tell(tx, done[0], extended or appended)


def _tell(tx: Transaction, found: TaskView, appended: Sequence[Row]) -> int | None:
    """Tell those who follow the log how far it reaches now."""
    if not appended:
        return None
    upto = int(appended[0][0])
    tx.changed.append(Logged(found.task.id, found.task.version, found.task.attempt, upto))
    return upto


_is_the_holders = exists(
    select(literal(1)).where(
        worker.c.id == task.c.worker_id, worker.c.identity == bindparam("identity", type_=Text)
    )
)
_APPEND = Statement(
    lambda: _append(
        task.c.id == _KEY,
        task.c.attempt == bindparam("at_attempt", type_=Integer),
        or_(
            bindparam("may", type_=Integer) == literal(1),
            and_(task.c.room_id != literal("@local"), _is_the_holders),
        ),
    )
)


def append(
    tx: Transaction, found: TaskView, piece: Piece, *, identity: str, may: bool
) -> int | None:
    """Append a piece to the log of the attempt of a task as it was read.

    ``may``: whoever asks has been found to be allowed to; else it must be the one whose worker has
    that attempt. Where the log ends now, or None if the piece was not appended.
    """
    rows = tx.alone(
        _APPEND,
        locks=(LOCK,),
        key=found.task.id,
        at_attempt=found.task.attempt,
        identity=identity,
        may=int(may),
        **_of(piece),
    )
    return _tell(tx, found, rows)


WANTED = func.coalesce(bindparam("wanted", type_=Integer), task.c.attempt)
_REACH = Statement(select(end_of(WANTED)).where(task.c.id == _KEY))


@cache
def _ends(count: int) -> Statement:
    end = end_of(task.c.attempt)
    found = select(task.c.id, task.c.version, task.c.attempt, end).where(chunks.named(count))
    return Statement(found)


def ends(tx: Transaction, ids: Iterable[str]) -> Iterator[Logged]:
    """How far the newest attempt's log reaches, of each of these tasks that exists."""
    for count, named in chunks.of_ids(ids):
        yield from map(Logged._make, tx.rows(_ends(count), **named))


def reach(tx: Transaction, task_id: str, *, attempt: int) -> int:
    """How many bytes an attempt's log has."""
    row = tx.glance(_REACH, key=task_id, wanted=attempt)
    return 0 if row is None else int(row[0])
