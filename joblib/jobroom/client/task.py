"""A claimed task: run it, or report on it step by step."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from dataclasses import replace
from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, PrivateAttr

from jobroom.client import connection, failure, misfits, work
from jobroom.client import result as results
from jobroom.client.holds import Alarm, Hold
from jobroom.client.problems import NotJson, UnexpectedAnswer
from jobroom.client.sender import Sender, Voice
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

REPORT = Patience(3600.0, timeout=15.0, outlive_seconds=30.0, refused_seconds=600.0)
"""What a task came to is worth more than a call: it outlives an outage of an hour."""

_running: ContextVar[ClaimedTask | None] = ContextVar("jobroom_running_task", default=None)


def current_task() -> ClaimedTask | None:
    """Return the task whose ``run`` this code is part of, to report progress or see a cancel."""
    return _running.get()


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
    schema_version: int | None = None
    status: str = "claimed"
    timeout_seconds: float | None = None

    _worker: ProcessWorker | None = PrivateAttr(default=None)
    _hold: Hold | None = PrivateAttr(default=None)
    _voice: Voice | None = PrivateAttr(default=None)
    _sender: Sender = PrivateAttr(default_factory=Sender)
    _began_at: float = PrivateAttr(default_factory=time.monotonic)

    def bind(self, worker: ProcessWorker) -> ClaimedTask:
        """Say whose task this is; returns the task."""
        self._worker = worker
        self._hold = worker.hold(self.id, worker_id=self.worker_id, attempt=self.attempt)
        return self

    @property
    def cancelled(self) -> bool:
        """Whether the task was cancelled or taken away: work on it is in vain."""
        return self._hold is not None and self._hold.cancelled

    @property
    def alarm(self) -> Alarm:
        """Set when the work is in vain."""
        return self._held().alarm

    @property
    def has_log(self) -> bool:
        """Whether something that it wrote waits to be sent."""
        return self._sender.logbook.waiting_bytes > 0

    def run(self, vis: Any = None, **kwargs: Any) -> None:
        """Run the registered class on the payload and report how it ended.

        Whatever goes wrong in there fails this task alone. ``KeyboardInterrupt`` and
        ``SystemExit`` hand the task back, or fail it, and go on their way. A process that was
        forked in there reports nothing. A payload that was checked by another version of the
        schema and does not fit is handed back instead (see ``misfits``).
        """
        if self._worker is None:
            self.bind(vis.jobs.worker)
        if self.begin():
            with self.speaking():
                self._run_to_its_end(vis, **kwargs)

    def begin(self) -> bool:
        """Report that work begins; False if it must not: it was taken away, or does not fit."""
        if self._is_handed_on():
            return False
        if self.status != "running" and self._try_to_report(status="running") is None:
            return False
        self._held().started = True
        self._began_at = time.monotonic()
        return True

    @contextlib.contextmanager
    def speaking(self, voice: Voice | None = None) -> Iterator[None]:
        """Be the ``current_task()`` in here; what it says goes through the voice."""
        self._voice = voice
        token = _running.set(self)
        try:
            yield
        finally:
            _running.reset(token)

    def start(self) -> Json:
        """Report that work has begun."""
        answer = self._report(status="running")
        self._held().started = True
        return answer

    def progress(self, fraction: float | None, message: str | None = None) -> bool:
        """Report how far the work is (0 to 1); False if that was not noted.

        Never raises for a server that is away, a token that expired, or a task that was taken
        (see ``cancelled``).
        """
        if self._voice is not None:
            self._voice.progress(fraction, message)
            return not self.cancelled
        if self._is_elsewhere():
            return False
        changes: Json = {"progress": fraction, "message": message}
        return self.send({key: new for key, new in changes.items() if new is not None})

    def log(self, text: str) -> None:
        """Append to the task's log, which is sent about once a second and at the end.

        Never raises; what the server does not take is dropped.
        """
        if self._voice is not None:
            self._voice.log(text)
            return
        self.write(text)
        if self._sender.is_due and self._hold is not None and not self._is_elsewhere():
            with contextlib.suppress(JobroomError):
                self.send()

    def write(self, text: str) -> None:
        """Append to what is sent with the next report."""
        self._sender.logbook.write(text)

    def send(self, changes: Json | None = None, *, patience: Patience = ONCE) -> bool:
        """Send progress and what was written; False if that was not taken, see ``progress``."""
        try:
            self._report(patience, **(changes or {}))
        except (StoreUnavailable, TooManyRequests, Unauthorized, UnexpectedAnswer):
            return False
        except (Conflict, NotFound, Forbidden):
            self._held().cancel()
            return False
        return True

    def complete(self, result: Any = None) -> Json:
        """Report success."""
        changes = {} if result is None else {"result": results.plain(result)}
        return self._last_report(REPORT, {"status": "completed", **changes})

    def fail(self, error: str, *, final: bool = False) -> Json:
        """Report failure; ``final`` leaves no further attempt."""
        return self._last_report(REPORT, self._failed(error, final=final))

    def release(self) -> None:
        """Hand the task back, for any worker to claim."""
        self._bound().hand_back(self._held())

    def settle(
        self,
        status: Literal["completed", "failed", "cancelled"],
        *,
        result: Any = None,
        error: str = "",
        final: bool = False,
        **more: Any,
    ) -> Json | None:
        """Report how a run ended, through outages; None if that was refused or given up.

        Never raises. ``more`` goes with the report (``claim_next``, ``progress``).
        """
        if status == "completed":
            return self._end_well(result, **more)
        if status == "failed":
            return self._end(**more, **self._failed(error, final=final))
        return self._end(**more, status="cancelled")

    def give_up(self, error: str, *, final: bool = False) -> None:
        """Hand the task back, or fail it with the error if its job does not allow that."""
        try:
            try:
                self._bound().hand_back(self._held())
            except Conflict:  # the job does not let a started task be taken back
                self._last_report(BRIEF, self._failed(error, final=final))
        except JobroomError as refusal:
            log.warning("task.left_behind task=%s reason=%r", self.id, str(refusal))

    # Running

    def _is_handed_on(self) -> bool:
        """Whether the task is for a worker of another version, and is not run here."""
        registration = self._bound().jobs.get(self.job_name)
        served = None if registration is None else registration.schema_version
        if None in (served, self.schema_version) or served == self.schema_version:
            return False
        try:
            self._build()
        except work.Refused as refused:
            why = f"It is of version {self.schema_version}, served here is {served}. {refused}"
            self._hand_on(why)
            return True
        except Exception:  # noqa: BLE001  # a user's validator; it is told when the task is run
            return False
        return False

    def _hand_on(self, why: str) -> None:
        times = self._bound().misfits.note(self.id)
        if times is None:
            self._end(**self._failed(f"No other worker took this task. {why}", final=True))
            return
        if times == 1:
            log.warning("task.handed_back task=%s job=%s reason=%r", self.id, self.job_name, why)
        if self.status == "running":
            self.give_up(f"No worker that it fits has taken this task. {why}")
        else:
            self._end(status="pending")
        misfits.pause(times)

    def _run_to_its_end(self, vis: Any, **kwargs: Any) -> None:
        try:
            result = self._work(vis, **kwargs)
        except BaseException as raised:
            if not self._is_elsewhere():
                self._end_badly(raised)
                if isinstance(raised, Exception):
                    return
            raise
        if not self._is_elsewhere():
            self._end_well(result)

    def _work(self, vis: Any, **kwargs: Any) -> Any:
        return work.carry_out(self._build(), vis, **kwargs)

    def _build(self) -> BaseModel:
        registration = self._bound().jobs.get(self.job_name)
        cls = None if registration is None else registration.cls
        return work.build(cls, self.payload, job_name=self.job_name)

    # Reporting

    def _end_well(self, result: Any, **more: Any) -> Json | None:
        carried = None
        try:
            carried = results.plain(result)
            changes = {} if result is None else {"result": carried}
            return self._end(**more, status="completed", **changes)
        except NotJson as refusal:
            error = f"the result is not JSON: {results.why_not(carried, refusal)}"
        except PayloadTooLarge as refusal:
            error = f"result too large: {refusal}"
        except InvalidInput as refusal:
            error = f"result refused: {refusal}"
        # Another run would come to the same.
        return self._end(**more, **self._failed(error, final=True))

    def _end_badly(self, raised: BaseException) -> None:
        if isinstance(raised, work.Refused):
            self._end(**self._failed(str(raised), final=True))
        elif isinstance(raised, Exception):
            self._end(**self._failed(failure.text_of(raised)))
        else:
            name = type(raised).__name__
            self.give_up(f"The worker was stopped while it ran this task ({name}).")

    def _failed(self, error: str, *, final: bool = False) -> dict[str, Any]:
        """Return the report of a failure, and tell the log of it."""
        line = failure.first_line(error)
        log.warning(
            "task.failed task=%s job=%s attempt=%s seconds=%.2f error=%r",
            *(self.id, self.job_name, self.attempt, time.monotonic() - self._began_at, line),
        )
        changes = {"status": "failed", "error": failure.cut(error)}
        return {**changes, "final": True} if final else changes

    def _end(self, **changes: Any) -> Json | None:
        answer = self._try_to_report(**changes)
        if answer is not None:
            self._bound().holds.drop(self._held())
        return answer

    def _try_to_report(self, **changes: Any) -> Json | None:
        try:
            return self._report(REPORT, **changes)
        except (Conflict, NotFound, Forbidden) as refusal:
            self._tell_refusal("report.refused", changes, refusal)
            self._held().cancel()
            self._bound().holds.drop(self._held())
        except Unauthorized as refusal:
            advice = connection.on_refusal(self._bound().connection)
            self._tell_refusal("token.refused", changes, refusal, f" next={advice!r}")
            self._let_go()
        except JobroomError as trouble:
            if "result" in changes and isinstance(trouble, InvalidInput | PayloadTooLarge):
                raise
            self._tell_refusal("report.given_up", changes, trouble)
            self._let_go()
        return None

    def _tell_refusal(self, event: str, changes: Json, why: JobroomError, more: str = "") -> None:
        said = (event, self.id, changes["status"], str(why), more)
        log.warning("%s task=%s status=%s reason=%r%s", *said)

    def _let_go(self) -> None:
        self._bound().holds.drop(self._held())
        # While its worker beats, the task would stay as it is for ever: a new worker goes on,
        # and the task of the old one is settled by its job's policy.
        with contextlib.suppress(WorkerNotFound):  # not ours to replace
            self._bound().replace(self._held().worker_id, told=True)

    def _last_report(self, patience: Patience, changes: Mapping[str, Any]) -> Json:
        answer = self._report(patience, **changes)
        self._bound().holds.drop(self._held())
        return answer

    def _report(self, patience: Patience = REPORT, **changes: Any) -> Json:
        if patience is REPORT:
            patience = replace(REPORT, pause=self._bound().ending.pause)
        changes |= self._held().fence
        return self._sender.send(self._bound(), self.id, changes, patience)

    def _bound(self) -> ProcessWorker:
        if self._worker is None:
            raise RuntimeError("This task belongs to no worker yet: bind() it, or run it with vis.")
        return self._worker

    def _held(self) -> Hold:
        if self._hold is None:
            raise RuntimeError("This task belongs to no worker yet: bind() it, or run it with vis.")
        if self._is_elsewhere():
            raise RuntimeError("Another process claimed this task: only that one reports on it.")
        return self._hold

    def _is_elsewhere(self) -> bool:
        return self._hold is not None and not self._hold.is_ours
