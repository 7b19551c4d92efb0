"""Answers that fit: what is left out of one that would be longer than the server may send."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Any

import orjson

from jobroom.domain import jsontext, sizes
from jobroom.errors import AnswerTooLarge
from jobroom.http import render
from jobroom.http.exchange import JSON, Reply, reply

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from jobroom.domain.records import TaskView
    from jobroom.http.exchange import Call
    from jobroom.http.render import Document

LARGEST_PAGE_BYTES = 5_900_000
"""A page ends before it is longer, whatever the setting: gateways take 6 MB (contract C27)."""

PAGE_FRAME_BYTES = 20 * 1024
"""What a page has beside its items: numbers, and a cursor with the longest names in it."""

_WORDS_BYTES = 64


class Left(IntEnum):
    """How much is left out, each step with all that the steps before it leave out."""

    RESULT = 1
    PAYLOAD = 2
    TEXTS = 3
    """All but the beginning of an error and a message, and all but the first dependencies."""
    REST = 4
    """All dependencies, and all but the first words."""


def fitting_reply(
    call: Call,
    document: Document,
    shorter: Callable[[Left], Document],
    *,
    status: int = 200,
    headers: tuple[tuple[bytes, bytes], ...] = (),
) -> Reply:
    """The document as an answer, or where that is too long, the first shorter one that fits.

    Raises AnswerTooLarge where none does.
    """
    answer = reply(document, status=status, headers=headers)
    most = call.most_answer_bytes
    if most is None or len(answer.body) <= most:
        return answer
    for left in Left:
        body = render.dump(shorter(left))
        if len(body) <= most:
            return Reply(status, body, (JSON, *headers))
    message = f"The answer would be longer than the {most} bytes that this server may send."
    raise AnswerTooLarge(message)


def task(view: TaskView, left: Left) -> Document:
    """A task without what is left out; ``result_bytes`` and ``payload_bytes`` tell of it."""
    return _cut(render.task_document(without_payload(view, left)), left)


def without_payload(view: TaskView, left: Left) -> TaskView:
    """The view as one in a list, of which the renderer writes the sizes alone."""
    stored = view.task
    payload_bytes, result_bytes = view.payload_bytes, view.result_bytes
    if stored.result is not None:
        result_bytes = result_bytes or _size(stored.result)
    if left >= Left.PAYLOAD:
        payload_bytes = payload_bytes or _size(stored.payload)
    return view._replace(payload_bytes=payload_bytes, result_bytes=result_bytes)


def _size(text: str | bytes) -> int:
    return len(text if isinstance(text, bytes) else text.encode(errors="replace"))


def held(view: TaskView, left: Left) -> Document:
    """A task that was just claimed: its worker needs the payload, so that is there always."""
    return _cut(render.sound_document(view), left)


def _cut(document: Document, left: Left) -> Document:
    if left < Left.TEXTS:
        return document
    count = len(document["depends_on"])
    is_rest = left is Left.REST
    most_bytes = _WORDS_BYTES if is_rest else sizes.SHOWN_TEXT_BYTES
    for name in ("error", "message"):
        if isinstance(document[name], str):
            document[name] = jsontext.cut_text(document[name], most_bytes)
    most = 0 if is_rest else sizes.SHOWN_DEPENDENCIES
    if count > most:
        document.setdefault("dependency_count", count)
    document["depends_on"] = document["depends_on"][:most]
    document["waiting_on"] = document["waiting_on"][:most]
    return document


def claim(views: list[TaskView], left: Left) -> Document:
    """What a claim got, with shorter texts."""
    tasks = [_held_or_shorter(view, left) for view in views]
    return {"task": tasks[0] if tasks else None, "tasks": tasks}


def _held_or_shorter(view: TaskView, left: Left) -> Document:
    # What a claim reckons with are texts of this length (``sizes.cost``).
    return held(view, min(left, Left.TEXTS))


def report(view: TaskView, next_task: TaskView | None, left: Left) -> Document:
    """A task after a report, and the next one, of which nothing is left out that a worker needs."""
    following = None if next_task is None else _held_or_shorter(next_task, left)
    return {**task(view, left), "next_task": following}


def fill_page(
    documents: Iterable[Document],
    shorter: Callable[[int], Document],
    most: int | None,
) -> list[Any]:
    """As many of the documents, from the first on, as a page has room for; as JSON already.

    One at least, so that whoever turns the pages comes to their end: ``shorter`` makes a first one
    that fits.
    """
    left = room(most)
    items: list[Any] = []
    for n, document in enumerate(documents):
        item = render.dump(document)
        if len(item) > left and not items:
            item = render.dump(shorter(n))
        left -= len(item) + 1
        if left < 0 and items:
            break
        items.append(orjson.Fragment(item))
    return items


def how_many(sizes_of_items: Iterable[int], most: int | None) -> int:
    """How many items of these sizes a page has room for, from the first on; one at least."""
    left = room(most)
    count = 0
    for size in sizes_of_items:
        left -= size + 1
        if left < 0 and count:
            break
        count += 1
    return count


def room(most: int | None) -> int:
    """How many bytes of items a page may have."""
    largest = LARGEST_PAGE_BYTES if most is None else min(most, LARGEST_PAGE_BYTES)
    return largest - PAGE_FRAME_BYTES


def job(document: Document, left: Left) -> Document:
    """A job with fewer of its workers' ids; ``alive_workers`` tells how many there are."""
    return {**document, "workers": document["workers"][: _WORKERS_SHOWN[left]]}


_WORKERS_SHOWN = {Left.RESULT: 1000, Left.PAYLOAD: 100, Left.TEXTS: 10, Left.REST: 0}
