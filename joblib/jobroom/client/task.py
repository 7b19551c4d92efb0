"""A claimed task: run it, or report on it step by step."""

from __future__ import annotations

import contextlib
import inspect
import logging
from collections.abc import Mapping
from contextvars import ContextVar
from datetime import datetime
from typing import Any

from pydantic import BaseModel, ConfigDict, PrivateAttr, ValidationError

from jobroom.client import failure
from jobroom.client.holds import Hold
from jobroom.client.problems import NotJson
from jobroom.client.transport import ONCE, Json, Patience
from jobroom.client.worker import BRIEF, ProcessWorker
from jobroom.errors import (
    Conflict,
    Forbidden,
    InvalidInput,
    JobroomError,
    NotFound,
    PayloadTooLarge,
    StoreUnavailable,
    TooManyRequests,
    Unauthorized,
    WorkerNotFound,
)

log = logging.getLogger("jobroom.client")

REPORT = Patience(3600.0, outlive_seconds=30.0)
"""What a task came to is worth more than a call: it outlives an outage of an hour."""

_running: ContextVar[ClaimedTask | None] = ContextVar("jobroom_running_task", default=None)


def current_task() -> ClaimedTask | None:
    """Return the task whose ``run`` this code is part of, to report progress or see a cancel."""
    return _running.get()


class _Refused(Exception):
    """The task cannot be run here, and trying again would not help."""


class ClaimedTask(BaseModel):
    """A task that this worker holds."""

    model_config = ConfigDict(extra="ignore")

    id: str
    job_name: str
    room_id: str
    payload: dict[str, Any]
    created_at: datetime
    attempt: int | None = None
    worker_id: str | None = None

    _worker: ProcessWorker | None = PrivateAttr(default=None)
    _hold: Hold | None = PrivateAttr(default=None)

    def bind(self, worker: ProcessWorker) -> ClaimedTask:
        """Say whose task this is; returns the task."""
        self._worker = worker
        self._hold = worker.hold(self.id, worker_id=self.worker_id, attempt=self.attempt)
        return self

    @property
    def cancelled(self) -> bool:
        """Whether the task was cancelled or taken away: work on it is in vain."""
        return self._hold is not None and self._hold.cancelled

    def run(self, vis: Any = None, **kwargs: Any) -> None:
        """Run the registered class on the payload and report how it ended.

        Whatever goes wrong in there fails this task alone. ``KeyboardInterrupt`` and
        ``SystemExit`` hand the task back, or fail it, and go on their way.
        """
        if self._worker is None:
            self.bind(vis.jobs.worker)
        if not self._try_to_report(status="running"):
            return
        self._held().started = True
        token = _running.set(self)
        try:
            result = self._work(vis, **kwargs)
        except _Refused as refused:
            self._end(status="failed", error=failure.cut(str(refused)), final=True)
        except Exception as raised:  # noqa: BLE001  # the user's code may raise anything
            self._end(status="failed", error=failure.text_of(raised))
        except BaseException as raised:
            self._stop_short(raised)
            raise
        else:
            self._end_well(result)
        finally:
            _running.reset(token)

    def start(self) -> Json:
        """Report that work has begun."""
        answer = self._report(status="running")
        self._held().started = True
        return answer

    def progress(self, fraction: float | None, message: str | None = None) -> bool:
        """Report how far the work is (0 to 1); False if that was not noted.

        Never raises for a server that is away or a task that was taken: see ``cancelled``.
        """
        changes = {"progress": fraction, "message": message}
        try:
            self._report(ONCE, **{key: new for key, new in changes.items() if new is not None})
        except (StoreUnavailable, TooManyRequests):
            return False
        except (Conflict, NotFound, Forbidden):
            self._held().cancelled = True
            return False
        return True

    def complete(self, result: Any = None) -> Json:
        """Report success."""
        changes = {"status": "completed"} if result is None else _completed(result)
        return self._last_report(REPORT, changes)

    def fail(self, error: str, *, final: bool = False) -> Json:
        """Report failure; ``final`` leaves no further attempt."""
        changes = {"status": "failed", "error": failure.cut(error)}
        return self._last_report(REPORT, {**changes, "final": True} if final else changes)

    def release(self) -> None:
        """Hand the task back, for any worker to claim."""
        self._bound().hand_back(self._held())

    # Running

    def _work(self, vis: Any, **kwargs: Any) -> Any:
        extension = self._build()
        run = getattr(extension, "run", None)
        name = type(extension).__name__
        if not callable(run):
            raise _Refused(f"The class {name} has no method run, so its tasks cannot be run.")
        result = run(vis, **kwargs)
        if inspect.iscoroutine(result):
            result.close()
            raise _Refused(f"{name}.run is async; this worker runs plain functions.")
        return result

    def _build(self) -> BaseModel:
        registration = self._bound().jobs.get(self.job_name)
        if registration is None:
            raise _Refused(f"No class is registered for {self.job_name} in this worker.")
        try:
            return registration.cls.model_validate(self.payload)
        except ValidationError as invalid:
            faults = failure.faults_of(invalid)
            raise _Refused(f"The payload does not fit the class: {faults}") from None

    def _stop_short(self, raised: BaseException) -> None:
        error = f"The worker was stopped while it ran this task ({type(raised).__name__})."
        try:
            try:
                self._bound().hand_back(self._held())
            except Conflict:  # the job does not let a started task be taken back
                self._last_report(BRIEF, {"status": "failed", "error": error})
        except JobroomError as refusal:
            log.warning("task.left_behind task=%s reason=%r", self.id, str(refusal))

    # Reporting

    def _end_well(self, result: Any) -> None:
        if result is None:
            self._end(status="completed")
            return
        try:
            self._end(**_completed(result))
        except NotJson as refusal:
            log.warning("result_not_kept task=%s reason=%r", self.id, str(refusal))
            self._end(status="completed")
        except PayloadTooLarge as refusal:
            self._end(status="failed", error=f"result too large: {refusal}", final=True)
        except InvalidInput as refusal:
            self._end(status="failed", error=f"result refused: {refusal}", final=True)

    def _end(self, **changes: Any) -> None:
        if self._try_to_report(**changes):
            self._bound().holds.drop(self._held())

    def _try_to_report(self, **changes: Any) -> bool:
        try:
            self._report(REPORT, **changes)
        except (Conflict, NotFound, Forbidden) as refusal:
            log.warning(
                "report.refused task=%s status=%s reason=%r",
                *(self.id, changes["status"], str(refusal)),
            )
            self._held().cancelled = True
            self._bound().holds.drop(self._held())
        except Unauthorized:
            raise
        except JobroomError as trouble:
            if "result" in changes and isinstance(trouble, InvalidInput | PayloadTooLarge):
                raise
            self._give_up(changes["status"], trouble)
        else:
            return True
        return False

    def _give_up(self, status: str, trouble: JobroomError) -> None:
        log.error("report.given_up task=%s status=%s reason=%r", self.id, status, str(trouble))
        self._bound().holds.drop(self._held())
        # While its worker beats, the task would stay as it is for ever: a new worker goes on,
        # and the task of the old one is settled by its job's policy.
        with contextlib.suppress(WorkerNotFound):  # not ours to replace
            self._bound().replace(self._held().worker_id)

    def _last_report(self, patience: Patience, changes: Mapping[str, Any]) -> Json:
        answer = self._report(patience, **changes)
        self._bound().holds.drop(self._held())
        return answer

    def _report(self, patience: Patience = REPORT, **changes: Any) -> Json:
        changes |= self._held().fence
        return self._bound().api.report(self.id, changes, patience=patience)

    def _bound(self) -> ProcessWorker:
        if self._worker is None:
            raise RuntimeError("This task belongs to no worker yet: bind() it, or run it with vis.")
        return self._worker

    def _held(self) -> Hold:
        if self._hold is None:
            raise RuntimeError("This task belongs to no worker yet: bind() it, or run it with vis.")
        return self._hold


def _completed(result: Any) -> dict[str, Any]:
    plain = result.model_dump(mode="json") if isinstance(result, BaseModel) else result
    return {"status": "completed", "result": plain}
