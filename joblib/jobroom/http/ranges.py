"""Parts of a result by the header Range (RFC 9110, 14): one range of bytes of it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from jobroom.errors import AnswerTooLarge
from jobroom.http import render
from jobroom.http.exchange import JSON, Reply
from jobroom.http.problems import ProblemException, ProblemType

if TYPE_CHECKING:
    from jobroom.domain.records import Task
    from jobroom.http.exchange import Call

_ONE_RANGE = re.compile(r"bytes=[ \t]*(?:(\d{1,18})-(\d{0,18})|-(\d{1,18}))[ \t]*", re.IGNORECASE)


class RangeNotSatisfiable(ProblemType):
    """No byte of what is asked for is there."""


class _Part(NamedTuple):
    """The bytes from ``first`` to before ``end``."""

    first: int
    end: int


def result_reply(call: Call, task: Task, body: bytes) -> Reply:
    """A result, whole or the part of it that is asked for; a part ends where an answer must.

    Raises AnswerTooLarge where the whole is longer than an answer may be.
    """
    tag = strong_tag(task)
    headers = (JSON, (b"accept-ranges", b"bytes"), (b"etag", tag.encode()))
    most = call.most_answer_bytes
    part = _part(call, tag, len(body))
    if part is None:
        if most is not None and len(body) > most:
            raise AnswerTooLarge(
                f"The result of task {task.id} has {len(body)} bytes, and an answer here at most"
                f" {most}; fetch it in parts: Range: bytes=0-{most - 1} and so on."
            )
        return Reply(200, body, headers)
    end = part.end if most is None else min(part.end, part.first + most)
    place = b"bytes %d-%d/%d" % (part.first, end - 1, len(body))
    return Reply(206, body[part.first : end], (*headers, (b"content-range", place)))


def strong_tag(task: Task) -> str:
    """The entity tag of a result: a stored text is the same byte for byte (RFC 9110, 8.8.1)."""
    return render.etag(task).removeprefix("W/")


def _part(call: Call, tag: str, size: int) -> _Part | None:
    """The part that is asked for; None is the whole. What is no single range is ignored."""
    asked = _ONE_RANGE.fullmatch(call.header(b"range") or "")
    if asked is None or call.scope["method"] != "GET":
        return None
    known = call.header(b"if-range")
    if known is not None and known.strip() != tag:
        return None
    first, last, of_end = asked.groups()
    if of_end is not None:
        part = _Part(max(0, size - int(of_end)), size)
    else:
        part = _Part(int(first), min(int(last) + 1, size) if last else size)
        if last and int(last) < int(first):
            return None
    if part.first >= size:
        raise ProblemException(
            RangeNotSatisfiable,
            f"The result has {size} bytes; the first of them is number 0.",
            headers={"Content-Range": f"bytes */{size}", "Accept-Ranges": "bytes"},
        )
    return part
