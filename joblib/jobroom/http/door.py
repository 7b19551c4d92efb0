"""What the endpoints share: the queue, who may come in, and the way answers come back."""

from __future__ import annotations

import asyncio
import logging
from functools import cached_property
from typing import TYPE_CHECKING, Any

from jobroom.errors import ConfigurationError, StoreUnavailable
from jobroom.http import grouping
from jobroom.http.metrics import GaugeCache
from jobroom.http.taskwatch import TaskWatch
from jobroom.http.traffic import Traffic
from jobroom.service import payloads
from jobroom.service.counting import Counts
from jobroom.store.lane import Work

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from contextlib import AbstractContextManager

    from starlette.types import Scope

    from jobroom.domain.records import Job
    from jobroom.http.auth import Authenticator
    from jobroom.http.taskwatch import Waiting
    from jobroom.service.queue import JobQueue
    from jobroom.service.use_case import UseCase
    from jobroom.settings import JobLibSettings
    from jobroom.tokens import Identity

log = logging.getLogger("jobroom")

REMEMBERED_JOBS = 4096
REMEMBERED_CHARACTERS = 32 * 1024 * 1024
"""How much of schemas: a single one may be as large as a body."""


class Door:
    """One application's door. The queue is opened by ``open_queue`` when it is first needed.

    Nothing is opened at import: on Lambda, and mounted in a host, no lifespan runs, so the first
    request opens the queue (design, *Name and layout*).
    """

    def __init__(
        self,
        settings: Callable[[], JobLibSettings],
        open_queue: Callable[[], JobQueue],
        open_authenticator: Callable[[], Authenticator],
        close_queue: Callable[[JobQueue], None],
    ) -> None:
        self._settings = settings
        self._open_queue = open_queue
        self._open_authenticator = open_authenticator
        self._close_queue = close_queue
        self._queue: JobQueue | None = None
        self._authenticator: Authenticator | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self.is_stopping = False
        """Set when the server stops: long-polls answer then."""
        self.held: set[Callable[[], None]] = set()
        """One call for each long-poll, to make it look up."""
        self.waiters = 0
        self.watch = TaskWatch(self._begin_to_watch)
        self.jobs: dict[str, Job] = {}
        self._characters = 0
        self.schemas = payloads.SchemaCache()
        self.readiness: tuple[float, bool] = (0.0, False)
        self.traffic = Traffic()
        self.gauges = GaugeCache()

    @property
    def settings(self) -> JobLibSettings:
        """The settings, read when first needed."""
        return self._settings()

    @cached_property
    def logs_requests(self) -> bool:
        """Whether a line is written for each request; as text the server has a log of its own."""
        return self._settings().log_format == "json"

    @property
    def counts(self) -> Counts:
        """What the queue has done; nothing, while it is not open."""
        return Counts() if self._queue is None else self._queue.counts

    @property
    def queue(self) -> JobQueue:
        """The queue, opened when first needed."""
        if self._queue is None:
            self._queue = self._open_queue()
            self._queue.listeners.append(self.watch)
        return self._queue

    def authenticate(self, scope: Scope) -> Identity | Awaitable[Identity]:
        """Say who sent the request; raises Unauthorized."""
        return self.check_keys().authenticate(scope)

    def check_keys(self) -> Authenticator:
        """Who looks at tokens; StoreUnavailable where no key can be had: the next request asks."""
        if self._authenticator is None:
            try:
                self._authenticator = self._open_authenticator()
            except ConfigurationError as error:
                log.error("keys.not_read reason=%s", error)  # noqa: TRY400 - the sentence says all
                message = "No token can be checked now; the server's log says why."
                raise StoreUnavailable(message) from error
        return self._authenticator

    def post(
        self, use_case: UseCase[Any, Any], kwargs: dict[str, Any], *, is_long: bool = False
    ) -> Work:
        """Queue a use case; ``work.future`` gets the result on the running loop.

        A write that ``is_long`` does not run on the loop, which others wait for.
        """
        loop = self._enter()
        work = Work(use_case.rule, kwargs, self._writes.mailbox, loop.create_future())
        if is_long:
            self.queue.writer.post(work)
        elif use_case.writes:
            self._writes.add(work)
        else:
            self.queue.reader.post(work)
        return work

    def watching(self, task_id: str) -> AbstractContextManager[Waiting]:
        """Be told of changes of a task; on this loop before the first interest is noted."""
        self._enter()
        return self.watch.of(task_id)

    def remember(self, job: Job) -> None:
        """Keep a job for the next submissions; its version is checked with each."""
        self._characters += len(job.schema)
        if len(self.jobs) >= REMEMBERED_JOBS or self._characters > REMEMBERED_CHARACTERS:
            self.jobs.clear()
            self._characters = len(job.schema)
        self.jobs[job.full_name] = job

    def stop_waiting(self) -> None:
        """Answer all long-polls now, and none waits any more; called on the loop."""
        self.is_stopping = True
        for wake in tuple(self.held):
            wake()

    def close(self) -> None:
        """Let go of the queue if it was opened."""
        if self._queue is not None:
            self._queue.listeners.remove(self.watch)
            self._close_queue(self._queue)
            self._queue = None

    def _begin_to_watch(self) -> None:
        self.queue.watch()

    def _enter(self) -> asyncio.AbstractEventLoop:
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            # A new loop in the same process: warm calls on Lambda after a foreign asyncio.run.
            self._writes = grouping.for_lane(self._opened().writer, loop)
            self.watch.enter(loop)
            self.held.clear()
            # The last step: where the store is away, the next request begins again with the first.
            self._loop, self.is_stopping = loop, False
        return loop

    def _opened(self) -> JobQueue:
        """The queue; StoreUnavailable where it cannot be opened now: the next request tries again.

        A start says why, and ends; a request that comes first of all has nobody to tell it to.
        """
        try:
            return self.queue
        except ConfigurationError as error:
            log.error("store.not_opened reason=%s", error)  # noqa: TRY400 - the sentence says all
            message = "The store cannot be opened now; the server's log says why."
            raise StoreUnavailable(message) from error
