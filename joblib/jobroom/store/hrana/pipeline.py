"""Requests and answers of Hrana's pipeline over HTTP: how they are written and read.

The server runs every request of a pipeline, also after one that failed. Therefore a transaction
is one ``batch`` whose steps name their conditions: each runs only if the one before it did.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from jobroom.store.hrana.errors import OperationalError, of_statement
from jobroom.store.hrana.transport import Result
from jobroom.store.hrana.values import decode

BEGIN_WRITE = '{"sql":"BEGIN IMMEDIATE","want_rows":false}'
BEGIN_READ = '{"sql":"BEGIN DEFERRED","want_rows":false}'
_COMMIT = '{"sql":"COMMIT","want_rows":false}'
_ROLLBACK = '{"sql":"ROLLBACK","want_rows":false}'

_GUARDS = 2
_UNDONE = ("TRANSACTION_", "SQLITE_BUSY", "SQLITE_UNKNOWN")

CLOSE = '{"type":"close"}'
ROLLBACK = f'{{"type":"execute","stmt":{_ROLLBACK}}}'
"""Sent where nothing may be left open; that nothing was is an error, and no matter."""


class Call(NamedTuple):
    """One POST. ``lost`` is what ``applied`` will be if its answer is lost.

    ``is_shared``: several transactions travel in it, and some may be done when one is refused.
    ``is_repeatable``: it may be sent again over a new connection if an old one had died.
    """

    base: str
    requests: Sequence[str]
    baton: str | None = None
    lost: bool | None = False
    is_shared: bool = False
    is_repeatable: bool = False


class Chain(NamedTuple):
    """A batch, and what its steps are: some before the statements, then they, then the end."""

    request: str
    before: int
    statements: int
    ends: bool
    is_guarded: bool


class Answer(NamedTuple):
    """What came back: the key to the stream's next request and where that goes, and results."""

    baton: str | None
    base_url: str | None
    entries: list[Any]


def bare(statement: str) -> str:
    """One statement, which commits by itself outside a transaction."""
    return f'{{"type":"execute","stmt":{statement}}}'


def chain(
    statements: Sequence[str], *, begin: str | None = None, is_open: bool = False, end: bool = False
) -> Chain:
    """Statements that run as long as none fails, after ``begin``, and before a COMMIT if ``end``.

    ``is_open``: a transaction should be open, and the server may have ended it. BEGIN fails
    inside one, so what follows runs only if BEGIN has failed; twice, as the first thing after a
    transaction's time was up fails whatever it is.
    """
    steps: list[str] = []
    before = [BEGIN_READ] * _GUARDS if is_open else [begin] if begin is not None else []
    for sql in (*before, *statements, *([_COMMIT] if end else ())):
        condition = _condition(len(steps), is_open=is_open)
        steps.append(f'{{{condition}"stmt":{sql}}}')
    if end:
        last = f'{{"type":"ok","step":{len(steps) - 1}}}'
        steps.append(f'{{"condition":{{"type":"not","cond":{last}}},"stmt":{_ROLLBACK}}}')
    request = f'{{"type":"batch","batch":{{"steps":[{",".join(steps)}]}}}}'
    return Chain(request, len(before), len(statements), end, is_open)


def _condition(step: int, *, is_open: bool) -> str:
    if not step:
        return ""
    if is_open and step <= _GUARDS:
        # All of them: the server takes a step that it left out for one that failed.
        errors = ",".join(f'{{"type":"error","step":{before}}}' for before in range(step))
        return f'"condition":{{"type":"and","conds":[{errors}]}},'
    return f'"condition":{{"type":"ok","step":{step - 1}}},'


def body(requests: Sequence[str], baton: str | None = None) -> bytes:
    """The body of a POST."""
    return f'{{"baton":{json.dumps(baton)},"requests":[{",".join(requests)}]}}'.encode()


def read(content: bytes, expected: int, *, lost: bool | None) -> Answer:
    """The answer to so many requests; raises PROTOCOL, ``applied=lost``, for what is none."""
    try:
        found = json.loads(content)
        answer = Answer(found["baton"], found.get("base_url"), found["results"])
        count = len(answer.entries)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise nonsense(lost) from error
    if count != expected:
        raise nonsense(lost)
    return answer


def read_bare(entry: dict[str, Any], *, lost: bool | None) -> list[Result]:
    """The result of one statement, or its error."""
    try:
        _raise_if_error(entry, lost=lost)
        found = entry["response"]["result"]
        return [_result(found, found.get("replication_index"))]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise nonsense(lost) from error


def read_chain(entry: dict[str, Any], made: Chain, *, lost: bool | None) -> list[Result]:
    """The results of the statements of a chain; raises what stopped it.

    ``lost``: what ``applied`` is to be where the answer does not tell.
    """
    try:
        _raise_if_error(entry, lost=lost)
        found = entry["response"]["result"]
        results, faults = found["step_results"], found["step_errors"]
        _raise_first(made, results, faults, lost=lost)
        index = found.get("replication_index")
        wanted = results[made.before : made.before + made.statements]
        return [_result(one, one.get("replication_index") or index) for one in wanted]
    except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        raise nonsense(lost) from error


def has_begun(entry: dict[str, Any]) -> bool:
    """Whether the first step of a chain was run, or may have been."""
    try:
        if entry["type"] == "error":
            # A statement that cannot be read stops all of them; an answer too large, none.
            return not str(entry["error"].get("code")).startswith(("SQL_", "ARGS_"))
        return entry["response"]["result"]["step_results"][0] is not None
    except (KeyError, TypeError, AttributeError, IndexError):
        return True


def nonsense(lost: bool | None) -> OperationalError:  # noqa: FBT001 - it is the whole question
    """The error for an answer that no Hrana server gives."""
    message = "The answer is not a libSQL server's; check the database's URL and what is between."
    return OperationalError(message, code="PROTOCOL", applied=lost)


def _raise_if_error(entry: dict[str, Any], *, lost: bool | None) -> None:
    if entry["type"] == "error":
        fault = entry["error"]
        code = fault.get("code")
        # Measured: an UPDATE whose RETURNING is too large for an answer has been committed.
        applied = lost if code == "RESPONSE_TOO_LARGE" else False
        raise of_statement(code, str(fault["message"]), applied=applied)


def _raise_first(made: Chain, results: list[Any], faults: list[Any], *, lost: bool | None) -> None:
    """Raise the first error of a chain, if there is one."""
    if made.is_guarded and results[:_GUARDS] != [None] * _GUARDS:
        message = "The server has ended the transaction; begin it again."
        raise OperationalError(message, code="TRANSACTION_LOST", applied=False)
    commit = made.before + made.statements
    for place, fault in enumerate(faults):
        if fault is not None and not (made.is_guarded and place < _GUARDS):
            code = fault.get("code")
            # A COMMIT that failed was undone, if the ROLLBACK after it went well, or had nothing
            # to undo because the server had done it.
            is_known = place != commit or results[-1] is not None or str(code).startswith(_UNDONE)
            applied = False if is_known else lost
            raise of_statement(code, str(fault["message"]), applied=applied)
    if made.ends and results[commit] is None:
        raise TypeError("no COMMIT and no reason")


def _result(found: dict[str, Any], index: str | None) -> Result:
    rowid = found["last_insert_rowid"]
    return Result(
        columns=tuple(column.get("name") or "" for column in found["cols"]),
        rows=[tuple(map(decode, row)) for row in found["rows"]],
        count=int(found["affected_row_count"]),
        rowid=None if rowid is None else int(rowid),
        rows_read=int(found.get("rows_read") or 0),
        rows_written=int(found.get("rows_written") or 0),
        replication_index=index,
    )
