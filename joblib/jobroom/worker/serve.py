"""A worker with its runners: what ``JobManager.serve`` and ``jobroom worker`` begin."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jobroom.client.options import Registration
from jobroom.client.task import ClaimedTask
from jobroom.client.worker import ProcessWorker
from jobroom.worker.functions import Isolation
from jobroom.worker.runner import Runner
from jobroom.worker.serving import Serving
from jobroom.worker.threads import ThreadRunner


class Runners:
    """The runner of each job: the job's own kind, else the worker's; made when first needed."""

    def __init__(self, worker: ProcessWorker, isolate: Isolation, vis: Any = None) -> None:
        if isolate not in ("thread", "process"):
            raise ValueError(f"isolate is 'thread' or 'process'; what was given is {isolate!r}.")
        self._worker = worker
        self._isolate = isolate
        self._threads = ThreadRunner(worker.jobs, vis)
        self._processes: Runner | None = None

    def of(self, task: ClaimedTask) -> Runner:
        """Return what runs this task."""
        registration = self._worker.jobs.get(task.job_name)
        where = self._isolate if registration is None else _where(registration, self._isolate)
        return self._threads if where == "thread" else self.processes

    @property
    def processes(self) -> Runner:
        """What runs tasks in processes of their own."""
        if self._processes is None:
            # Not imported by who needs no processes: it is not everywhere that there are any.
            from jobroom.worker.isolation import ProcessRunner

            self._processes = ProcessRunner(self._worker.jobs)
        return self._processes

    def close(self) -> None:
        """Stop whatever still runs."""
        for runner in (self._threads, self._processes):
            if runner is not None:
                runner.close()


def serving_of(
    worker: ProcessWorker,
    jobs: Sequence[Registration] = (),
    *,
    slots: int = 1,
    isolate: Isolation = "thread",
    vis: Any = None,
    until_empty: bool = False,
    announce: Callable[[], None] = lambda: None,
) -> Serving:
    """Return what serves a worker's jobs, not begun yet.

    ``jobs`` are registered when it begins, and has found that there are the threads for it.
    """
    runners = Runners(worker, isolate, vis)
    if any(_where(one, isolate) == "process" for one in (*jobs, *worker.jobs.values())):
        _ = runners.processes  # made before there are threads

    def arrive() -> None:
        for one in jobs:
            worker.register(one)
        worker.arrive()

    return Serving(
        worker,
        runners.of,
        slots=slots,
        until_empty=until_empty,
        arrive=arrive,
        close=runners.close,
        announce=announce,
    )


def _where(registration: Registration, isolate: Isolation) -> Isolation:
    """Say where a job's tasks run: a limit of memory is kept in processes only."""
    return registration.isolate or ("process" if registration.memory_mb is not None else isolate)


def serve(
    worker: ProcessWorker,
    *,
    slots: int = 1,
    isolate: Isolation = "thread",
    vis: Any = None,
    until_empty: bool = False,
) -> None:
    """Serve until it is told to stop; ``SystemExit`` where a second signal cut work short."""
    serving = serving_of(worker, slots=slots, isolate=isolate, vis=vis, until_empty=until_empty)
    code = serving.run()
    if code:
        raise SystemExit(code)
