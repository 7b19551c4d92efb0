"""The slots of a worker: each a thread that runs one task after the other."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable

from jobroom.client import failure
from jobroom.client.search import Search
from jobroom.client.task import ClaimedTask
from jobroom.client.worker import ProcessWorker
from jobroom.errors import ConfigurationError, JobroomError
from jobroom.worker.runner import Outcome, Runner
from jobroom.worker.telling import Flusher, TaskTell

log = logging.getLogger("jobroom.worker")

THREADS_BESIDE = 2
"""The claimer's and the heart's, which begin when there is a worker."""
STOPPED = "The worker was stopped while it ran this task."


class Slots:
    """Runs the tasks that it is given, and those that come with the reports on them.

    A busy slot needs one request a task: the report of one brings the next.
    """

    def __init__(
        self,
        count: int,
        worker: ProcessWorker,
        search: Search,
        runner_of: Callable[[ClaimedTask], Runner],
    ) -> None:
        self.count = count
        self._worker = worker
        self._search = search
        self._runner_of = runner_of
        self._given: queue.SimpleQueue[ClaimedTask | None] = queue.SimpleQueue()
        self._changed = threading.Condition()
        self._free = count
        self._running: dict[str, tuple[ClaimedTask, TaskTell, float]] = {}
        self._draining = False
        self.idle_since = time.monotonic()
        self._flusher = Flusher(lambda: [tell for _, tell, _ in tuple(self._running.values())])
        self._threads = [
            threading.Thread(target=self._serve, name=f"jobroom-slot-{number}", daemon=True)
            for number in range(1, count + 1)
        ]

    def start(self) -> None:
        """Begin to run what is given; nothing is begun where the machine has too few threads."""
        enough = threading.Event()
        beside = [
            threading.Thread(target=enough.wait, name="jobroom-spare", daemon=True)
            for _ in range(THREADS_BESIDE)
        ]
        try:
            for thread in (*self._threads, self._flusher, *beside):
                thread.start()
        except RuntimeError:
            self.close()
            raise ConfigurationError(
                "This machine, or its settings (ulimit -u), does not give so many threads: serve"
                f" fewer slots than {self.count}."
            ) from None
        finally:
            enough.set()
        for thread in beside:
            thread.join()

    @property
    def free(self) -> int:
        """How many run nothing."""
        return self._free

    @property
    def running(self) -> list[tuple[ClaimedTask, float]]:
        """The tasks that run, and since when by the monotonic clock."""
        return [(task, since) for task, _, since in tuple(self._running.values())]

    def await_free(self, least: int = 1) -> int:
        """Wait until so many are free, and return how many are; 0 if no more are wanted."""
        with self._changed:
            self._changed.wait_for(lambda: self._draining or self._free >= least)
            return 0 if self._draining else self._free

    def await_idle(self, seconds: float) -> bool:
        """Wait so long until nothing runs; whether that is so."""
        with self._changed:
            return self._changed.wait_for(lambda: self._free == self.count, seconds)

    def give(self, task: ClaimedTask) -> None:
        """Run the task in a free slot; while draining, hand it back."""
        with self._changed:
            self._free -= 1
        self._given.put(task)

    def drain(self) -> None:
        """Finish what runs and take no more."""
        with self._changed:
            self._draining = True
            self._changed.notify_all()

    def close(self) -> None:
        """End the threads that run nothing."""
        self._flusher.stop()
        for _ in self._threads:
            self._given.put(None)

    def _serve(self) -> None:
        while (task := self._given.get()) is not None:
            following: ClaimedTask | None = task
            while following is not None:
                following = self._run_safely(following)
            with self._changed:
                self._free += 1
                if self._free == self.count:
                    self.idle_since = time.monotonic()
                self._changed.notify_all()

    def _run_safely(self, task: ClaimedTask) -> ClaimedTask | None:
        try:
            return self._run(task)
        except BaseException as trouble:  # the slot's edge: it must outlive this
            error = failure.headline(trouble)
            log.exception("task.broken task=%s error=%r", task.id, error)
            task.give_up(f"The worker itself failed: {error}")
            return None

    def _run(self, task: ClaimedTask) -> ClaimedTask | None:
        if self._draining and task.status != "running":
            self._search.hand_back(task)
            return None
        if not task.begin():
            return None
        tell, began = TaskTell(task), time.monotonic()
        self._running[task.id] = (task, tell, began)
        try:
            outcome = self._runner_of(task).run(task, tell)
            return self._settle(task, tell, outcome, seconds=time.monotonic() - began)
        finally:
            self._running.pop(task.id, None)

    def _settle(
        self, task: ClaimedTask, tell: TaskTell, outcome: Outcome, *, seconds: float
    ) -> ClaimedTask | None:
        if outcome.status == "handed_back":
            _hand_back(task, outcome.error or STOPPED, seconds)
            return None
        answer = task.settle(
            outcome.status,
            result=outcome.result,
            error=outcome.error or "",
            final=outcome.final,
            **tell.last_words(),
            **({"claim_next": True} if self._takes_next() else {}),
        )
        if answer is None:
            return None
        if outcome.status != "failed" and answer.get("status") == outcome.status:
            _tell_end(task, outcome.status, seconds)
        following = answer.get("next_task")
        return self._search.read(following) if isinstance(following, dict) else None

    def _takes_next(self) -> bool:
        # What comes with a report has started, and might not be handed back.
        return not self._draining and not self._worker.misfits.met


def _hand_back(task: ClaimedTask, error: str, seconds: float) -> None:
    try:
        task.release()
    except JobroomError:
        task.give_up(error)  # its job does not allow that, above all; told in a line of its own
    else:
        _tell_end(task, "handed_back", seconds)


def _tell_end(task: ClaimedTask, outcome: str, seconds: float) -> None:
    log.info(
        "task.%s task=%s job=%s attempt=%s seconds=%.2f",
        *(outcome, task.id, task.job_name, task.attempt, seconds),
    )
