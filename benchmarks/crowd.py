"""Requests that wait at a server, by the hundred: claims, status polls, and the floor's."""

from __future__ import annotations

from collections import deque
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

import rawhttp
import servers
from rawhttp import Answer, Connection
from servers import SECRET, Server

from jobroom import tokens

WAIT_SECONDS = 3600
SOON_STOPPED = {"UVICORN_TIMEOUT_GRACEFUL_SHUTDOWN": "1"}
"""A server asked to stop does not wait for those who wait at it."""
TASKS = "/v1/joblib/tasks"
PAYLOAD = {"angle": 90, "axis": "z", "note": "as long as the payloads that a script sends"}


def serve_ours(database: Path | str) -> AbstractContextManager[Server]:
    """Our server on a SQLite file, or on the store of a URL; nothing sweeps while we measure."""
    url = database if isinstance(database, str) else f"sqlite:///{database}"
    environment = {
        "ZNDRAW_JOBLIB_DATABASE_URL": url,
        "ZNDRAW_JOBLIB_JWT_SECRET": SECRET,
        "ZNDRAW_JOBLIB_SWEEPER_INTERVAL_SECONDS": "0",
        "ZNDRAW_JOBLIB_LONG_POLL_MAX_WAIT_SECONDS": str(WAIT_SECONDS),
    }
    return servers.serve("app:app", environment | SOON_STOPPED, ready="/readyz")


def serve_floor() -> AbstractContextManager[Server]:
    """The floor: a bare Starlette application that holds requests until another one comes."""
    return servers.serve("handoff:app", SOON_STOPPED, ready="/ready", loud=False)


class Crowd(Protocol):
    """One kind of waiting request. ``acting`` is a connection for everything that does not wait."""

    def prepare(self, acting: Connection, count: int) -> None:
        """Make what so many waiters need."""

    def arm(self, waiter: Connection, acting: Connection) -> None:
        """Send a request that will wait."""

    def trigger(self) -> bytes:
        """The request by which one waiter gets its answer."""

    def tidy(self, waiter: Connection, answer: Answer, acting: Connection) -> None:
        """Put things back to where the next trigger finds as many waiters."""


class FloorCrowd:
    """Waiters of the floor."""

    def prepare(self, acting: Connection, count: int) -> None:
        """Nothing: they need nothing."""

    def arm(self, waiter: Connection, acting: Connection) -> None:  # noqa: ARG002 - as all kinds
        """Wait."""
        waiter.send(rawhttp.request("GET", "/wait"))

    def trigger(self) -> bytes:
        """As large as a submission of ours."""
        return rawhttp.request("POST", "/wake", {"payload": PAYLOAD})

    def tidy(self, waiter: Connection, answer: Answer, acting: Connection) -> None:
        """Wait again."""
        answer.document()
        self.arm(waiter, acting)


class _OurCrowd:
    """What claims and polls share: a room with one job, and an admin's token."""

    def __init__(self, job_name: str = "Rotate") -> None:
        self._token = tokens.issue_token(SECRET, sub="bench", is_admin=True)
        self._job_name = job_name

    def _request(self, method: str, path: str, body: object = None, *, wait: int = 0) -> bytes:
        return rawhttp.request(method, path, body, token=self._token, wait=wait)

    def _new_worker(self, acting: Connection) -> str:
        worker_id = str(acting.call(self._request("POST", "/v1/joblib/workers", {}))["id"])
        job = {"category": "modifiers", "name": self._job_name, "worker_id": worker_id}
        acting.call(self._request("PUT", "/v1/joblib/rooms/r1/jobs", job))
        return worker_id

    def _submit(self) -> bytes:
        path = f"/v1/joblib/rooms/r1/tasks/r1:modifiers:{self._job_name}"
        return self._request("POST", path, {"payload": PAYLOAD})

    def _complete(self, task_id: str) -> bytes:
        return self._request("PATCH", f"{TASKS}/{task_id}", {"status": "completed", "attempt": 1})


class ClaimCrowd(_OurCrowd):
    """Claims that wait for a submission, each of a worker of its own."""

    def __init__(self, job_name: str = "Rotate") -> None:
        super().__init__(job_name)
        self._free: deque[str] = deque()
        self._worker_of: dict[Connection, str] = {}

    def prepare(self, acting: Connection, count: int) -> None:
        """So many workers of one job."""
        self._free.extend(self._new_worker(acting) for _ in range(count))

    def arm(self, waiter: Connection, acting: Connection) -> None:  # noqa: ARG002 - as all kinds
        """Claim and wait."""
        worker_id = self._worker_of.get(waiter) or self._free.popleft()
        self._worker_of[waiter] = worker_id
        wish = {"worker_id": worker_id, "start": True}
        waiter.send(self._request("POST", f"{TASKS}/claim", wish, wait=WAIT_SECONDS))

    def poll(self, acting: Connection) -> bool:
        """Claim without waiting, as a client that polls does; whether there was a task."""
        wish = {"worker_id": self._free[0], "start": True}
        found = acting.call(self._request("POST", f"{TASKS}/claim", wish))
        return found["task"] is not None

    def trigger(self) -> bytes:
        """A submission."""
        return self._submit()

    def tidy(self, waiter: Connection, answer: Answer, acting: Connection) -> None:
        """Complete what was claimed, and claim again."""
        acting.call(self._complete(answer.document()["task"]["id"]))
        self.arm(waiter, acting)


class PollCrowd(_OurCrowd):
    """Status polls that wait for a worker's report, each of a task of its own."""

    def __init__(self, job_name: str = "Rotate") -> None:
        super().__init__(job_name)
        self._ready: deque[str] = deque()
        self._watched: deque[str] = deque()
        self._worker_id = ""

    def prepare(self, acting: Connection, count: int) -> None:
        """So many running tasks."""
        self._worker_id = self._new_worker(acting)
        self._ready.extend(self._new_task(acting) for _ in range(count))

    def arm(self, waiter: Connection, acting: Connection) -> None:
        """Ask for a task's end, and wait."""
        task_id = self._ready.popleft() if self._ready else self._new_task(acting)
        self._watched.append(task_id)
        waiter.send(self._request("GET", f"{TASKS}/{task_id}", wait=WAIT_SECONDS))

    def trigger(self) -> bytes:
        """The report that ends the task of the longest waiting poll."""
        return self._complete(self._watched.popleft())

    def tidy(self, waiter: Connection, answer: Answer, acting: Connection) -> None:
        """Watch another task."""
        assert answer.document()["status"] == "completed"
        self.arm(waiter, acting)

    def _new_task(self, acting: Connection) -> str:
        acting.call(self._submit())
        wish = {"worker_id": self._worker_id, "start": True}
        return str(acting.call(self._request("POST", f"{TASKS}/claim", wish))["task"]["id"])


KINDS: tuple[tuple[str, type[ClaimCrowd | PollCrowd]], ...] = (
    ("claim", ClaimCrowd),
    ("status poll", PollCrowd),
)
