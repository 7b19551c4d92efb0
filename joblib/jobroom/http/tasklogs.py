"""A task's log: reading a part of it, and following it by long-poll."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from jobroom.domain import logtext, names
from jobroom.http import fitting, longpoll, paging, render
from jobroom.http.exchange import Call, Reply, reply
from jobroom.http.routespec import Query
from jobroom.service import access, logging_tasks

if TYPE_CHECKING:
    from jobroom.http.fitting import Left
    from jobroom.http.render import Document
    from jobroom.service.logging_tasks import LogPart
    from jobroom.service.reporting import Reported

LONGEST_ESCAPE = 6
"""How many bytes of JSON one byte of text may take: a control character is spelled ``\\u001b``."""
FRAME_BYTES = 1024
LAST_ATTEMPT = 2**31 - 1

PARAMETERS = (
    Query(
        "offset",
        "Where to begin, in bytes of UTF-8; inside a character it is moved back to its beginning.",
        {"type": "integer", "minimum": 0, "maximum": logtext.LARGEST_OFFSET, "default": 0},
    ),
    Query(
        "attempt",
        "Whose log; without it the newest attempt's.",
        {"type": "integer", "minimum": 0, "maximum": LAST_ATTEMPT},
    ),
)


async def get_log(call: Call) -> Reply:
    """What lies behind an offset; with ``Prefer: wait=N`` once there is something, or the end."""
    asked = _asked(call)
    task_id = names.parse_task_id(call.path("task_id"))
    if task_id is None:
        raise access.task_not_found(call.path("task_id"))
    seconds = longpoll.granted_wait(call)
    if not seconds:
        return _shown(await _read(call, task_id, asked))
    with longpoll.place_to_wait(call), call.door.watching(task_id) as waiting:
        part = await _read(call, task_id, asked)
        if _is_news(part):
            return _shown(part)
        with longpoll.Patience(call, seconds) as patience:
            while not _is_news(part):
                # The attempt that is followed stays the same; before the first it is any.
                asked["attempt"] = part.attempt or asked["attempt"]
                waiting.saw(part.version, log=(part.attempt, part.reach))
                if not await patience.wait(waiting.changed):
                    break
                part = await _read(call, task_id, asked)
    return _shown(part, (b"preference-applied", b"wait=%d" % seconds))


def _asked(call: Call) -> dict[str, Any]:
    offset = paging.number(call, "offset", default=0, largest=logtext.LARGEST_OFFSET)
    attempt = None
    if paging.one(call, "attempt") is not None:
        attempt = paging.number(call, "attempt", default=0, largest=LAST_ATTEMPT)
    most = logtext.PAGE_BYTES
    if call.most_answer_bytes is not None:
        most = min(most, (call.most_answer_bytes - FRAME_BYTES) // LONGEST_ESCAPE)
    return {"offset": offset, "attempt": attempt, "most": most}


async def _read(call: Call, task_id: str, asked: dict[str, Any]) -> LogPart:
    part: LogPart = await call.run(
        logging_tasks.read_log, caller=call.caller, task_id=task_id, **asked
    )
    return part


def _is_news(part: LogPart) -> bool:
    return part.has_ended or bool(part.page.text)


def _shown(part: LogPart, *headers: tuple[bytes, bytes]) -> Reply:
    document = {
        "attempt": part.attempt,
        "offset": part.page.offset,
        "text": part.page.text,
        "next_offset": part.page.next_offset,
        "ended": part.has_ended,
    }
    return reply(document, headers=headers)


def reported(call: Call, done: Reported, *, claims: bool) -> Reply:
    """The answer to a report that has brought something for the log: it tells how far that reaches.

    ``claims``: the worker's next task was asked for as well.
    """
    reach = {"log_bytes": done.log_bytes}
    if claims:
        document = render.report_document(done.view, done.next_task)
        make = partial(fitting.report, done.view, done.next_task)
    else:
        document = render.task_document(done.view)
        make = partial(fitting.task, done.view)

    def shorter(left: Left) -> Document:
        return {**make(left), **reach}

    return fitting.fitting_reply(call, {**document, **reach}, shorter)
