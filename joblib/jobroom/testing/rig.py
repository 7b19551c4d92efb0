"""A whole queue for a test: application, clients, worker, and a clock that the test moves."""

from __future__ import annotations

import secrets
import tempfile
import uuid
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import httpx
from pydantic import SecretStr

from jobroom import tokens
from jobroom.bootstrap import create_app
from jobroom.client.async_client import AsyncClient
from jobroom.client.connection import Connection
from jobroom.client.manager import JobManager
from jobroom.client.search import Search
from jobroom.client.sync_client import Client
from jobroom.client.transport import CALL
from jobroom.domain.lifecycle import is_terminal
from jobroom.domain.records import MICROSECONDS, SweepReport
from jobroom.service.queue import JobQueue
from jobroom.settings import JobLibSettings
from jobroom.testing import running
from jobroom.testing.bridge import Bridge
from jobroom.worker import functions

if TYPE_CHECKING:
    from collections.abc import Iterable

Json = dict[str, Any]

URL = "http://jobroom.test"
"""What clients believe the address of the application to be; nothing listens there."""
MOST_TASKS = 1000


class Clock:
    """The store's clock, by which all times of the queue go."""

    def __init__(self, queue: JobQueue) -> None:
        self._queue = queue

    @property
    def now(self) -> datetime:
        """What time it is in the store."""
        moment = self._queue.run(lambda tx: tx.now)
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=moment)

    def move(self, seconds: float) -> None:
        """Let time pass: delays, timeouts, leases and expiries come nearer. Only forward."""
        if seconds < 0:
            raise ValueError(f"The clock only moves forward; {seconds} seconds are behind it.")
        self._queue.clock_offset += int(seconds * MICROSECONDS)


class Jobroom:
    """A queue with its REST application, in this process and for one test.

    ``jobs`` are functions with ``@job`` and pydantic classes, which ``manager`` registers in
    ``room`` (``@global`` without one). ``settings`` are those of ``JobLibSettings``; the
    environment is not read. The work is kept in a SQLite file of its own, which goes away.

    >>> from jobroom import job
    >>> from jobroom.testing import Jobroom
    >>> @job
    ... def double(number: int) -> int:
    ...     return 2 * number
    >>> with Jobroom(double, room="r1") as room:
    ...     task = room.client.submit("r1:modifiers:double", number=21)
    ...     [ended] = room.run_all()
    ...     task.result()
    42
    """

    def __init__(self, *jobs: Any, room: str | None = None, **settings: Any) -> None:
        self._opened = ExitStack()
        self._secret = secrets.token_urlsafe(32)
        try:
            self._open(settings)
            self.register(*jobs, room=room)
        except BaseException:
            self._opened.close()
            raise

    def _open(self, settings: Json) -> None:
        temporary = tempfile.TemporaryDirectory(prefix="jobroom-", ignore_cleanup_errors=True)
        folder = Path(self._opened.enter_context(temporary))
        if "database_url" not in settings:
            settings["database_url"] = _fresh_database(folder)
        settings.setdefault("jwt_secret", SecretStr(self._secret))
        settings.setdefault("sqlite_synchronous", "NORMAL")  # no test survives a power cut
        self.settings: JobLibSettings = _OwnSettings(**settings)
        self.queue = self._opened.enter_context(JobQueue.open(self.settings))
        self.clock = Clock(self.queue)
        self.app = create_app(self.settings, queue=self.queue)
        door = self.app.state.door
        self._opened.callback(door.close)
        self._bridge = Bridge(self.app)
        self._opened.callback(self._bridge.stop)
        self._http = self._opened.enter_context(httpx.Client(transport=self._bridge))
        self._opened.callback(lambda: self._bridge.call(door.stop_waiting))

    def register(self, *jobs: Any, room: str | None = None) -> None:
        """Register functions with ``@job`` and pydantic classes, for ``run_all`` to run."""
        for one in jobs:
            made = functions.job_of(one)
            if made is None:
                self.manager.register(one, room=room)
            else:
                self.manager.worker.register(functions.registration_of(made, room))

    # Who uses it

    def token(self, sub: str, *, is_admin: bool = False, rooms: Iterable[str] | None = None) -> str:
        """Make a token that the application accepts."""
        secret = self.settings.jwt_secret
        known = self._secret if secret is None else secret.get_secret_value()
        return tokens.issue_token(known, sub=sub, is_admin=is_admin, rooms=rooms)

    def connection(self, sub: str = "tester", **claims: Any) -> Connection:
        """Return what a ``JobManager`` of somebody needs; by default an admin's."""
        return Connection(URL, self._token(sub, claims), http=self._http)

    @cached_property
    def client(self) -> Client:
        """An admin's client; ``client_of`` makes others."""
        return self.client_of()

    def client_of(self, sub: str = "tester", **claims: Any) -> Client:
        """Return a client of somebody: ``client_of("eve", rooms=["r1"])``."""
        return Client(URL, self._token(sub, claims), http=self._http)

    def async_client_of(self, sub: str = "tester", **claims: Any) -> AsyncClient:
        """The same for a program with an event loop."""
        http = httpx.AsyncClient(transport=self._bridge)
        return AsyncClient(URL, self._token(sub, claims), http=http)

    @cached_property
    def manager(self) -> JobManager:
        """An admin's ``JobManager``, the worker by which ``run_all`` works."""
        manager = JobManager(self.connection())
        self._opened.callback(manager.close)
        return manager

    def _token(self, sub: str, claims: Json) -> str:
        return self.token(sub, **{"is_admin": not claims, **claims})

    # What it does

    def run_all(self, *, vis: Any = None, most: int = MOST_TASKS) -> list[Json]:
        """Run all that can be claimed, here and now, and return the tasks that ended, in order.

        So is what becomes claimable meanwhile: tasks that the jobs submit, and those that waited
        for others. What is to run later stays until the clock is moved. ``vis`` is what the
        classes' ``run`` is given. Raises ``RuntimeError`` where there are more than ``most``.
        """
        worker = self.manager.worker
        self.manager.heartbeat()  # as a new worker, if a sweep has taken the old one away
        search = Search(worker, 0.0)
        ended: list[Json] = []
        for count in range(most + 1):
            request_id = uuid.uuid4().hex
            found = worker.api.claim(
                str(worker.id), request_id=request_id, wait=0, limit=1, patience=CALL
            )
            if not found:
                return ended
            task = search.read({"worker_id": worker.id, **found[0]})
            if task is not None and count == most:
                task.release()
                break
            if task is not None:
                made = worker.jobs.get(task.job_name)
                running.run(task, None if made is None else made.cls, vis=vis)
            shown = self.client.task(str(found[0]["id"])).show()
            ended += [shown] if is_terminal(shown["status"]) else []
        message = f"There is still something to run after {most} tasks; do they submit each other?"
        raise RuntimeError(message)

    def sweep(self) -> SweepReport:
        """Sweep once, as a server does every 30 seconds: lost workers, timeouts, what is due."""
        return self.queue.sweep()

    def close(self) -> None:
        """Sign the worker off, answer what waits, and take everything away."""
        self._opened.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _OwnSettings(JobLibSettings):
    """The settings that are given, and nobody's environment."""

    @classmethod
    def settings_customise_sources(cls, *_: Any, **sources: Any) -> tuple[Any, ...]:
        """Read nothing but the arguments."""
        return (sources["init_settings"],)


def _fresh_database(folder: Path) -> str:
    path = folder / "jobroom.db"
    path.write_bytes(_empty_database())
    return f"sqlite:///{path}"


@cache
def _empty_database() -> bytes:
    """The file of an empty queue: copying it is a hundred times faster than making it."""
    with tempfile.TemporaryDirectory(prefix="jobroom-") as folder:
        path = Path(folder) / "empty.db"
        JobQueue.open(_OwnSettings(database_url=f"sqlite:///{path}")).close()
        return path.read_bytes()
