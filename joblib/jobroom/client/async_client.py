"""The client for programs with an event loop; what each call does, ``Client`` says."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Iterable
from datetime import datetime
from typing import Any, Self, TypeVar, overload

import httpx

from jobroom.client import mapping, profile, submission
from jobroom.client.async_connection import AsyncConnection, AsyncToken
from jobroom.client.async_drive import AsyncDriver
from jobroom.client.call import Json
from jobroom.client.handle import AsyncTaskHandle
from jobroom.client.mapping import OnProgress
from jobroom.client.plan import Dependency
from jobroom.client.rules import Rules
from jobroom.client.transport import Transport

R = TypeVar("R")

_place_of = profile.place_of  # a parameter of the same name hides the module


class AsyncClient:
    """A ``Client`` whose calls are awaited; its iterators are async ones.

    ``token`` may be a callable, async or plain. One client serves one event loop at a time.
    """

    def __init__(
        self,
        url: str | None = None,
        token: AsyncToken | None = None,
        *,
        profile: str | None = None,
        http: httpx.AsyncClient | None = None,
    ) -> None:
        place = _place_of(url, token if isinstance(token, str) else None, profile)
        self.connection = AsyncConnection(
            place.url, place.token if token is None else token, http=http
        )
        self._driver = AsyncDriver(self.connection)
        self._rules = Rules(Transport(self.connection))

    # Submitting

    @overload
    async def submit(
        self,
        job: Any,
        payload: Any = None,
        *,
        returns: type[R],
        room: str | None = None,
        idempotency_key: str | None = None,
        priority: int = 0,
        run_at: datetime | None = None,
        expires_at: datetime | None = None,
        max_attempts: int | None = None,
        timeout_seconds: float | None = None,
        depends_on: Iterable[Dependency] = (),
        **fields: Any,
    ) -> AsyncTaskHandle[R]: ...

    @overload
    async def submit(
        self,
        job: Any,
        payload: Any = None,
        *,
        returns: Any = None,
        room: str | None = None,
        idempotency_key: str | None = None,
        priority: int = 0,
        run_at: datetime | None = None,
        expires_at: datetime | None = None,
        max_attempts: int | None = None,
        timeout_seconds: float | None = None,
        depends_on: Iterable[Dependency] = (),
        **fields: Any,
    ) -> AsyncTaskHandle[Any]: ...

    async def submit(
        self,
        job: Any,
        payload: Any = None,
        *,
        returns: Any = None,
        room: str | None = None,
        idempotency_key: str | None = None,
        **options: Any,
    ) -> AsyncTaskHandle[Any]:
        """Submit a task and return its handle."""
        asked = submission.submission_of(job, payload, room=room, returns=returns, **options)
        task = await self._driver.run(self._rules.submit(asked, idempotency_key=idempotency_key))
        return self._handle(task, asked.returns)

    def map(
        self,
        job: Any,
        payloads: Iterable[Any] | AsyncIterable[Any],
        *,
        room: str | None = None,
        window: int = 1000,
        returns: Any = None,
        on_progress: OnProgress | None = None,
        return_exceptions: bool = False,
        **options: Any,
    ) -> AsyncIterator[Any]:
        """Submit a task for each payload, and yield their results in that order."""
        asked = mapping.Asked(
            *(job, payloads, room, window, returns, on_progress, return_exceptions, options)
        )
        return self._driver.iterate(mapping.results(self._rules, asked))

    # Looking

    async def task(self, task_id: str, *, returns: Any = None) -> AsyncTaskHandle[Any]:
        """Return the handle of a task; ``TaskNotFound`` if there is none that you may see."""
        task = await self._driver.run(self._rules.task(task_id))
        return self._handle(task, returns)

    def tasks(
        self,
        room: str,
        *,
        status: str | None = None,
        job: str | None = None,
        created_by_id: str | None = None,
    ) -> AsyncIterator[Json]:
        """Yield a room's tasks, newest first; ``status`` may name several, with commas."""
        query = {"status": status, "job": job, "created_by_id": created_by_id}
        return self._driver.iterate(self._rules.tasks(room, **query))

    async def jobs(self, room: str) -> list[Json]:
        """Return the jobs that a room sees: its own and the global ones."""
        return await self._driver.run(self._rules.jobs(room))

    async def job(self, full_name: str, room: str | None = None) -> Json:
        """Return a job with its schema, as ``room`` sees it; ``JobNotFound``."""
        return await self._driver.run(self._rules.job(full_name, room))

    async def workers(self, room: str | None = None) -> list[Json]:
        """Return your own workers (an admin's are all), or those that serve a room."""
        return await self._driver.run(self._rules.workers(room))

    async def rooms(self) -> list[Json]:
        """Return the rooms that the token may see, with their counts."""
        return await self._driver.run(self._rules.rooms())

    async def stats(self, room: str) -> Json:
        """Return a room's counts: tasks by job and status, live workers."""
        return await self._driver.run(self._rules.stats(room))

    async def me(self) -> Json:
        """Return who the token says you are."""
        return await self._driver.run(self._rules.me())

    # Tasks that depend on one another, and those that failed

    async def retry(self, task_id: str, *, dry_run: bool = False) -> Json:
        """Put a failed or cancelled task back to work, with what failed because of it."""
        return await self._driver.run(self._rules.retry(task_id, dry_run=dry_run))

    async def graph(self, task_id: str) -> Json:
        """Return all tasks that a task is connected with (``items``), and the ``edges``."""
        return await self._driver.run(self._rules.graph(task_id))

    # Schedules

    async def schedules(self, room: str) -> list[Json]:
        """Return a room's schedules."""
        return await self._driver.run(self._rules.schedules(room))

    async def put_schedule(self, room: str, **spec: Any) -> Json:
        """Make a schedule of a room, or change the one of that ``name``."""
        return await self._driver.run(self._rules.put_schedule(room, spec))

    async def remove_schedule(self, room: str, name: str) -> None:
        """Take a schedule away; what it submitted goes on."""
        await self._driver.run(self._rules.remove_schedule(room, name))

    # Going

    async def close(self) -> None:
        """Close the connections, unless the HTTP client was given by the caller."""
        await self.connection.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _handle(self, task: Json, returns: Any) -> AsyncTaskHandle[Any]:
        return AsyncTaskHandle(self._rules, self._driver, task, returns)
