"""The client for programs that submit tasks and wait for them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any, Self, TypeVar, overload

import httpx

from jobroom.client import mapping, profile, submission
from jobroom.client.call import Json
from jobroom.client.connection import Connection, Token
from jobroom.client.drive import Driver
from jobroom.client.handle import TaskHandle
from jobroom.client.mapping import OnProgress
from jobroom.client.plan import Dependency
from jobroom.client.rules import Rules
from jobroom.client.transport import Transport

R = TypeVar("R")

_place_of = profile.place_of  # a parameter of the same name hides the module


class Client:
    """Submits tasks, waits for them and looks around; safe to use from several threads.

    Without a ``url`` it takes JOBROOM_URL and JOBROOM_TOKEN, else the profile file. ``token`` may
    be a callable, for tokens that expire. Raises ``ConfigurationError`` that says what to set.
    """

    def __init__(
        self,
        url: str | None = None,
        token: Token | None = None,
        *,
        profile: str | None = None,
        http: httpx.Client | None = None,
    ) -> None:
        place = _place_of(url, token if isinstance(token, str) else None, profile)
        found = token if callable(token) else place.token
        self.connection = Connection(place.url, found, http=http)
        self._driver = Driver(self.connection)
        self._rules = Rules(Transport(self.connection))

    # Submitting

    @overload
    def submit(
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
    ) -> TaskHandle[R]: ...

    @overload
    def submit(
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
    ) -> TaskHandle[Any]: ...

    def submit(
        self,
        job: Any,
        payload: Any = None,
        *,
        returns: Any = None,
        room: str | None = None,
        idempotency_key: str | None = None,
        **options: Any,
    ) -> TaskHandle[Any]:
        """Submit a task and return its handle.

        ``job`` is a full name, a function with ``@job``, a pydantic class, or an instance of one,
        which is its own payload. The payload may be given as keywords too. ``room`` is where the
        task belongs; without it the job's own room. ``returns`` is the type of the result,
        anything that pydantic can validate; a function's is that of its annotation. A lost answer
        is asked for again with the same idempotency key: one call never makes two tasks.
        """
        asked = submission.submission_of(job, payload, room=room, returns=returns, **options)
        task = self._driver.run(self._rules.submit(asked, idempotency_key=idempotency_key))
        return self._handle(task, asked.returns)

    def map(
        self,
        job: Any,
        payloads: Iterable[Any],
        *,
        room: str | None = None,
        window: int = 1000,
        returns: Any = None,
        on_progress: OnProgress | None = None,
        return_exceptions: bool = False,
        **options: Any,
    ) -> Iterator[Any]:
        """Submit a task for each payload, and yield their results in that order.

        At most ``window`` tasks are submitted and not yet yielded, so the payloads may come from
        an endless iterator. ``on_progress`` is called with how many have ended, how many of those
        have no result, and how many there are (None if the payloads have no length). A task that
        did not complete raises at its place, which ends the iteration, or is yielded as its
        exception with ``return_exceptions``. Whatever ends it, what was submitted goes on.
        ``options`` are those of ``submit``, the same for all tasks.
        """
        asked = mapping.Asked(
            *(job, payloads, room, window, returns, on_progress, return_exceptions, options)
        )
        return self._driver.iterate(mapping.results(self._rules, asked))

    # Looking

    def task(self, task_id: str, *, returns: Any = None) -> TaskHandle[Any]:
        """Return the handle of a task; ``TaskNotFound`` if there is none that you may see."""
        return self._handle(self._driver.run(self._rules.task(task_id)), returns)

    def tasks(
        self,
        room: str,
        *,
        status: str | None = None,
        job: str | None = None,
        created_by_id: str | None = None,
    ) -> Iterator[Json]:
        """Yield a room's tasks, newest first; ``status`` may name several, with commas."""
        query = {"status": status, "job": job, "created_by_id": created_by_id}
        return self._driver.iterate(self._rules.tasks(room, **query))

    def jobs(self, room: str) -> list[Json]:
        """Return the jobs that a room sees: its own and the global ones."""
        return self._driver.run(self._rules.jobs(room))

    def job(self, full_name: str, room: str | None = None) -> Json:
        """Return a job with its schema, as ``room`` sees it; ``JobNotFound``."""
        return self._driver.run(self._rules.job(full_name, room))

    def workers(self, room: str | None = None) -> list[Json]:
        """Return your own workers (an admin's are all), or those that serve a room."""
        return self._driver.run(self._rules.workers(room))

    def rooms(self) -> list[Json]:
        """Return the rooms that the token may see, with their counts."""
        return self._driver.run(self._rules.rooms())

    def stats(self, room: str) -> Json:
        """Return a room's counts: tasks by job and status, live workers."""
        return self._driver.run(self._rules.stats(room))

    def me(self) -> Json:
        """Return who the token says you are."""
        return self._driver.run(self._rules.me())

    # Tasks that depend on one another, and those that failed

    def retry(self, task_id: str, *, dry_run: bool = False) -> Json:
        """Put a failed or cancelled task back to work, with what failed because of it.

        With ``dry_run`` nothing is changed; ``["tasks"]`` of the answer names them.
        """
        return self._driver.run(self._rules.retry(task_id, dry_run=dry_run))

    def graph(self, task_id: str) -> Json:
        """Return all tasks that a task is connected with (``items``), and the ``edges``."""
        return self._driver.run(self._rules.graph(task_id))

    # Schedules

    def schedules(self, room: str) -> list[Json]:
        """Return a room's schedules."""
        return self._driver.run(self._rules.schedules(room))

    def put_schedule(self, room: str, **spec: Any) -> Json:
        """Make a schedule of a room, or change the one of that ``name``."""
        return self._driver.run(self._rules.put_schedule(room, spec))

    def remove_schedule(self, room: str, name: str) -> None:
        """Take a schedule away; what it submitted goes on."""
        self._driver.run(self._rules.remove_schedule(room, name))

    # Going

    def close(self) -> None:
        """Close the connections, unless the HTTP client was given by the caller."""
        self.connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _handle(self, task: Json, returns: Any) -> TaskHandle[Any]:
        return TaskHandle(self._rules, self._driver, task, returns)
