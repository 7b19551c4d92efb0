"""The jobs that a program registers, and its tasks."""

from __future__ import annotations

import atexit
import contextlib
import os
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, Literal, Self, TypeVar, Unpack, overload

from pydantic import BaseModel

from jobroom.client import described
from jobroom.client import options as job_options
from jobroom.client.connection import ApiManager
from jobroom.client.options import JobOptions
from jobroom.client.plan import Dependency, Plan
from jobroom.client.stream import TaskStream, checked_interval
from jobroom.client.transport import Json
from jobroom.client.worker import ProcessWorker
from jobroom.domain.names import GLOBAL_ROOM

SPARE_JOIN_SECONDS = 2.0

Class = TypeVar("Class", bound=type[BaseModel])


class JobManager(Mapping[str, type[BaseModel]]):
    """Behaves like a dictionary of the registered jobs, by full name.

    As a context manager it signs off at the end: claimed tasks that were not started go back,
    and the worker leaves the server. Without one, the end of the program does the same.
    """

    def __init__(self, api: ApiManager) -> None:
        self.api = api
        self.worker = ProcessWorker(api)
        self._streams: weakref.WeakSet[TaskStream] = weakref.WeakSet()
        self._at_exit = _farewell(self)
        atexit.register(self._at_exit)

    # The registered jobs

    def __getitem__(self, key: str) -> type[BaseModel]:
        return self.worker.jobs[key].cls

    def __len__(self) -> int:
        return len(self.worker.jobs)

    def __iter__(self) -> Iterator[str]:
        return iter(tuple(self.worker.jobs))

    # Two managers are never the same, whatever they have registered.
    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)

    @overload
    def register(
        self, task_class: Class, *, room: str | None = None, **options: Unpack[JobOptions]
    ) -> Class: ...

    @overload
    def register(
        self, task_class: None = None, *, room: str | None = None, **options: Unpack[JobOptions]
    ) -> Callable[[Class], Class]: ...

    def register(
        self,
        task_class: Class | None = None,
        *,
        room: str | None = None,
        **options: Unpack[JobOptions],
    ) -> Class | Callable[[Class], Class]:
        """Register a pydantic class as a job, of all rooms (``@global``) or of one.

        A decorator, with arguments or without, and a plain call. Raises ``SchemaConflict`` if
        the job exists with another schema, ``Forbidden`` if the token may not do this.
        """
        place = GLOBAL_ROOM if room is None else room
        job_options.check_options(options)
        job_options.check_room(place)

        def decorator(cls: Class) -> Class:
            self.worker.register(job_options.registration_of(cls, place, options))
            return cls

        return decorator if task_class is None else decorator(task_class)

    # Working

    def listen(self, interval: float = 2.0) -> TaskStream:
        """Return an iterator over the tasks claimed for this process's worker.

        ``interval`` is the longest pause between two looks for work, in seconds. Heartbeats go
        on in the background from here on.

        While the main thread iterates and nobody else handles SIGTERM, the first one stops all
        streams of this manager: the running task finishes, what was claimed and not started is
        handed back, and the end of the program (or of the ``with`` block) signs the worker off.
        A second SIGTERM ends the program at once, and so does the first after the stream's end.
        Ctrl-C while waiting for work is raised as ``KeyboardInterrupt``; the stream may go on.
        A token that the server refuses is raised as ``Unauthorized``, which ends the stream.
        """
        checked_interval(interval)
        worker_id = self.worker.arrive()
        self.worker.start_beating()
        stream = TaskStream(
            self.api, worker_id, interval, worker=self.worker, stop_all=self._stop_all
        )
        self._streams.add(stream)
        return stream

    def serve(
        self,
        slots: int = 1,
        isolate: Literal["thread", "process"] = "thread",
        *,
        vis: Any = None,
        drain: bool = False,
    ) -> None:
        """Run the tasks of the registered jobs in so many slots, until SIGTERM or Ctrl-C.

        The first signal lets what runs come to its end, the second one hands it back and raises
        ``SystemExit``. ``vis`` is what each class's ``run`` is given. With ``drain`` it returns
        when nothing is left to do. See ``workers.md``.
        """
        # The one arrow back: the runtime builds upon this package.
        from jobroom.worker import serve

        serve.serve(self.worker, slots=slots, isolate=isolate, vis=vis, until_empty=drain)

    def heartbeat(self) -> None:
        """Say now that this worker is alive. Needed by nobody who listens: a thread does it.

        A server that is away is no error here, and a worker it has forgotten comes back anew.
        """
        self.worker.arrive_and_beat()

    # Submitting

    def submit(
        self,
        job: str | type[BaseModel] | BaseModel,
        payload: Mapping[str, Any] | None = None,
        *,
        room: str | None = None,
        idempotency_key: str | None = None,
        priority: int = 0,
        run_at: datetime | None = None,
        expires_at: datetime | None = None,
        max_attempts: int | None = None,
        timeout_seconds: float | None = None,
        depends_on: Iterable[Dependency] = (),
        parent: Dependency | None = None,
        **fields: Any,
    ) -> Json:
        """Submit a task and return it as the server shows it.

        ``job`` is a full name, a class, or an instance, which is its own payload. The payload
        may be given as keywords too. ``room`` is where the task belongs; without it the job's
        own room. The task waits until all that it ``depends_on`` has completed (or ended
        otherwise: ``jobroom.when``). Whoever waits for the ``parent``, a task that this process
        is running, waits for the new one too. A lost answer is asked for again with the same
        idempotency key: one call never makes two tasks.
        """
        full_name, task = described.task_of(
            self.worker.jobs,
            job,
            payload,
            room=room,
            priority=priority,
            run_at=run_at,
            expires_at=expires_at,
            max_attempts=max_attempts,
            timeout_seconds=timeout_seconds,
            depends_on=depends_on,
            parent=parent,
            **fields,
        )
        place = full_name.partition(":")[0] if room is None else room
        return self.worker.api.submit(place, full_name, task, idempotency_key=idempotency_key)

    def plan(self, *, room: str) -> Plan:
        """Begin a plan: tasks of a room that depend on one another, submitted all or none.

        ``first = plan.add(Scan(path=...))``, ``plan.add(Fit(), depends_on=[first])``, then
        ``plan.submit()``, which returns the tasks.
        """
        job_options.check_room(room)

        def describe(job: Any, payload: Mapping[str, Any] | None, **said: Any) -> tuple[str, Json]:
            return described.task_of(self.worker.jobs, job, payload, room=room, **said)

        def send(tasks: list[Json], key: str) -> list[Json]:
            answer = self.worker.api.submit_all(room, tasks, idempotency_key=key)
            return list(answer["items"])

        return Plan(describe, send)

    def retry(self, task_id: str, *, dry_run: bool = False) -> Json:
        """Put a failed or cancelled task back to work, with what failed because of it.

        With ``dry_run`` nothing is changed; ``["tasks"]`` of the answer names them.
        """
        return self.worker.api.retry(task_id, dry_run=dry_run)

    def graph(self, task_id: str) -> Json:
        """Return all tasks that a task is connected with (``items``), and the ``edges``."""
        return self.worker.api.graph(task_id)

    def wait(self, task_id: str, *, timeout: float | None = None) -> Json:
        """Return the task when it has ended; after ``timeout`` seconds as it is then.

        Bears resets, gateways and a server that is away, as long as there is time.
        """
        return self.worker.api.end_or_now(task_id, timeout=timeout)

    # Going

    def disconnect(self) -> None:
        """Stop listening, hand back what was not started, and take the worker off the server.

        Waits for a claim under way (the interval of ``listen``, at most 10 seconds). Never
        raises; the jobs stay registered here, and ``listen`` comes back with all of them.
        """
        self._stop_all()
        streams = tuple(self._streams)
        longest = max((stream.longest_claim_seconds for stream in streams), default=0)
        self.worker.leave(claim_seconds=longest + SPARE_JOIN_SECONDS)
        for stream in streams:
            stream.close()

    def _stop_all(self) -> None:
        for stream in tuple(self._streams):
            stream.stop()

    def close(self) -> None:
        """Disconnect for good."""
        atexit.unregister(self._at_exit)
        self.disconnect()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _farewell(manager: JobManager) -> Callable[[], None]:
    known, pid = weakref.ref(manager), os.getpid()

    def disconnect() -> None:
        # A forked child has no worker to sign off but one of its own making.
        there = known()
        if there is not None and (pid == os.getpid() or there.worker.id is not None):
            with contextlib.suppress(KeyboardInterrupt):  # a second Ctrl-C: end without waiting
                there.disconnect()

    return disconnect
