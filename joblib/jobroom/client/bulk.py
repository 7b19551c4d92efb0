"""Many tasks of one job, submitted in as few requests as the server takes."""

from __future__ import annotations

import json
import re
from collections import deque
from dataclasses import dataclass
from typing import Any

from jobroom.client import endpoints
from jobroom.client.call import Json, encode
from jobroom.client.flow import Flow
from jobroom.client.problems import NotJson
from jobroom.client.submission import Submission, submission_of
from jobroom.client.transport import Transport
from jobroom.domain.jsontext import parse_object
from jobroom.errors import (
    FieldError,
    InvalidInput,
    JobNotFound,
    JobroomError,
    PayloadTooLarge,
    ValidationFailed,
)

MOST_TASKS = 1000
MOST_BYTES = 900_000
"""Below the server's usual limit of 1 MiB; a server that takes less says so."""


@dataclass(slots=True)
class Entry:
    """A payload's task, and what became of it: the ended task, or why it was not taken."""

    id: str | None = None
    created_at: str = ""
    outcome: Json | JobroomError | None = None


@dataclass(slots=True)
class _Item:
    entry: Entry
    text: bytes


class Bulk:
    """Submits tasks of one job; knows after the first what the server takes."""

    def __init__(self, line: Transport, job: Any, *, room: str | None, options: Json) -> None:
        self._line = line
        self._said = {"job": job, "room": room, **options}
        self._jobs: tuple[str, ...] = ()
        self._most_tasks = MOST_TASKS
        self.first: Json | None = None
        """The first task that was taken."""
        self.room = ""
        self.returns: Any = None

    def submit(self, payloads: list[Any], *, stop_at_refusal: bool) -> Flow[list[Entry]]:
        """Return an entry for each payload, in order; with ``stop_at_refusal`` up to the first."""
        items = deque[_Item]()
        entries: list[Entry] = []
        for payload in payloads:
            entries.append(entry := Entry())
            try:
                items.append(_Item(entry, encode(self._described(payload).task)))
            except JobroomError as refusal:
                entry.outcome = refusal
                if stop_at_refusal:
                    break
        while items:
            yield from self._send(items)
            if stop_at_refusal:
                _stop_at_refusal(entries, items)
        return entries

    def _described(self, payload: Any) -> Submission:
        described = submission_of(payload=payload, **self._said)
        self._jobs = self._jobs or described.jobs
        self.room, self.returns = described.room, described.returns
        return described

    def _send(self, items: deque[_Item]) -> Flow[None]:
        """Submit what fits into one request; what was refused by itself is not asked again."""
        batch = self._next_batch(items)
        job = json.dumps(self._jobs[0]).encode()
        tasks = b",".join(b'{"job":' + job + b"," + item.text[1:] for item in batch)
        call = endpoints.submit_encoded(self.room, b'{"tasks":[' + tasks + b"]}")
        try:
            answer = yield from self._line.ask(call)
        except JobNotFound:
            if len(self._jobs) == 1:
                raise
            self._jobs = self._jobs[1:]
        except PayloadTooLarge as refusal:
            if len(batch) > 1:
                self._most_tasks = len(batch) // 2
                return
            items.popleft().entry.outcome = refusal
        except InvalidInput as refusal:
            self._set_aside(items, batch, refusal)
        else:
            for item, task in zip(batch, answer["items"], strict=True):
                item.entry.id, item.entry.created_at = task["id"], task["created_at"]
                items.popleft()
            self.first = self.first or answer["items"][0]

    def _next_batch(self, items: deque[_Item]) -> list[_Item]:
        batch: list[_Item] = []
        size = 0
        for item in items:
            size += len(item.text) + len(self._jobs[0]) * 2 + 10
            if batch and (len(batch) >= self._most_tasks or size > MOST_BYTES):
                break
            batch.append(item)
        return batch

    def _set_aside(self, items: deque[_Item], batch: list[_Item], refusal: InvalidInput) -> None:
        """Take out what the server names as the fault of the whole request."""
        places = [re.match(r"/tasks/(\d+)", fault.pointer) for fault in refusal.errors]
        numbers = {int(place[1]) for place in places if place is not None}
        refused = {n for n in numbers if n < len(batch)}
        alone = {n: _of_one(refusal, n) for n in refused}
        faults: dict[int, JobroomError] = {**alone} or _unreadable(batch)
        if not faults:
            raise refusal
        for n, fault in faults.items():
            batch[n].entry.outcome = fault
            items.remove(batch[n])


def _of_one(refusal: InvalidInput, n: int) -> InvalidInput:
    """Return the refusal as if that payload had been sent alone: nobody else knows its number."""
    at = f"/tasks/{n}"
    faults = (one for one in refusal.errors if f"{one.pointer}/".startswith(f"{at}/"))
    errors = tuple(FieldError(one.pointer.removeprefix(at), one.message) for one in faults)
    return type(refusal)(str(refusal.args[0]).replace(f"{at}/", "/"), errors=errors)


def _unreadable(batch: list[_Item]) -> dict[int, JobroomError]:
    """Return what the server cannot read: it refused the text of all, at a line and a column."""
    found: dict[int, JobroomError] = {}
    for n, item in enumerate(batch):
        try:
            parse_object(item.text)
        except ValidationFailed as fault:
            found[n] = NotJson(f"This payload cannot be sent as JSON: {fault}", errors=fault.errors)
    return found


def _stop_at_refusal(entries: list[Entry], items: deque[_Item]) -> None:
    """Forget what comes after the first payload that was refused."""
    refused = (n for n, entry in enumerate(entries) if entry.outcome is not None)
    if (first := next(refused, None)) is None:
        return
    del entries[first + 1 :]
    unsent = sum(entry.id is None for entry in entries[:first])
    while len(items) > unsent:
        items.pop()
