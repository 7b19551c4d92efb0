"""A running task as it is seen from outside: its changes, its progress, its log."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from jobroom.client import endpoints
from jobroom.client.call import Json
from jobroom.client.flow import Flow, Give, pause
from jobroom.client.transport import Transport
from jobroom.client.waiting import LONGEST_POLL_SECONDS, SHORTEST_LOOK_SECONDS, Deadline
from jobroom.domain.lifecycle import is_terminal


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a task is: ``fraction`` from 0 to 1, what its worker says, and its status."""

    fraction: float | None
    message: str | None
    status: str


@dataclass(frozen=True, slots=True)
class Version:
    """A task, and the tag of this version of it."""

    tag: str | None
    task: Json


def progress(line: Transport, task_id: str) -> Flow[None]:
    """Give what there is to tell each time it changes, the end with it."""
    told: Progress | None = None
    known: Version | None = None
    while True:
        known = yield from next_version(line, task_id, known)
        task = known.task
        news = Progress(task.get("progress"), task.get("message"), task["status"])
        if news != told:
            yield Give(news)
        told = news
        if is_terminal(news.status):
            return


def next_version(line: Transport, task_id: str, known: Version | None) -> Flow[Version]:
    """Return the task as it is, or, where one version is known, at the next change."""
    while True:
        began = time.monotonic()
        tag = None if known is None else known.tag
        wait = LONGEST_POLL_SECONDS if tag else 0.0
        call = endpoints.task_version(task_id, known=tag, wait=wait)
        found: tuple[str | None, Json] | None = yield from _patiently(line, call)
        if found is not None and (known is None or found != (known.tag, known.task)):
            return Version(*found)
        yield from _not_too_often(began)


def log(line: Transport, task_id: str, *, follow: bool, attempt: int | None) -> Flow[None]:
    """Give the pieces of a task's log; with ``follow`` those to come too, of later attempts too."""
    newest = attempt
    while True:
        newest = yield from _log_of_attempt(line, task_id, attempt=newest, follow=follow)
        if not follow or attempt is not None:
            return
        newest = yield from _next_attempt(line, task_id, newest)
        if newest is None:
            return


def _log_of_attempt(
    line: Transport, task_id: str, *, attempt: int | None, follow: bool
) -> Flow[int | None]:
    """Give one attempt's log from its begin; return the attempt, None if there was none yet."""
    offset = 0
    while True:
        began = time.monotonic()
        wait = LONGEST_POLL_SECONDS if follow else 0.0
        call = endpoints.log(task_id, offset=offset, attempt=attempt, wait=wait)
        piece: Json = yield from _patiently(line, call)
        if piece["text"]:
            yield Give(piece["text"])
        moved = piece["next_offset"] > offset
        offset = piece["next_offset"]
        attempt = piece["attempt"] or None
        if piece["ended"] or not (moved or follow):
            return attempt
        if not moved:
            yield from _not_too_often(began)


def _next_attempt(line: Transport, task_id: str, attempt: int | None) -> Flow[int | None]:
    """Return the attempt that follows, when it has begun; None when the task has ended."""
    known: Version | None = None
    while True:
        known = yield from next_version(line, task_id, known)
        now = known.task.get("attempt") or 0
        if now > (attempt or 0):
            return (attempt or 0) + 1
        if is_terminal(known.task["status"]):
            return None


def _patiently(line: Transport, call: Any) -> Flow[Any]:
    return line.ask(call, patience=Deadline(None).patience())


def _not_too_often(began: float) -> Flow[bool]:
    """A server that does not hold the request open must not be asked without end."""
    return pause(max(0.0, SHORTEST_LOOK_SECONDS - (time.monotonic() - began)))
