"""Reports on one task's attempt, with what it wrote to its log beside them."""

from __future__ import annotations

import contextlib
import threading
import time
from typing import Protocol

from jobroom.client.logbook import Logbook
from jobroom.client.transport import ONCE, Json, Patience
from jobroom.client.worker import ProcessWorker
from jobroom.domain.lifecycle import is_terminal
from jobroom.errors import InvalidInput, JobroomError, PayloadTooLarge

LOG_SECONDS = 1.0
"""How often what a task writes is sent at most."""
MOST_LAST_LOG_BYTES = 64 * 1024
"""How much of a log goes with the last report; more of it is sent before."""


class Voice(Protocol):
    """Where a running task's progress and log go, instead of straight to the server."""

    def progress(self, fraction: float | None, message: str | None = None) -> None:
        """Say how far the work is."""
        ...

    def log(self, text: str) -> None:
        """Append to the task's log."""
        ...


class Sender:
    """Sends what one attempt reports, one after the other, from any thread."""

    def __init__(self) -> None:
        self.logbook = Logbook()
        self._lock = threading.RLock()
        self._sent_at = time.monotonic()

    @property
    def is_due(self) -> bool:
        """Whether nothing was sent for as long as a log may wait."""
        return time.monotonic() - self._sent_at >= LOG_SECONDS

    def send(self, worker: ProcessWorker, task_id: str, changes: Json, patience: Patience) -> Json:
        """Report; the log goes with progress, and with a last report."""
        with self._lock:
            self._sent_at = time.monotonic()
            status = changes.get("status")
            if status is not None and is_terminal(status):
                self._send_ahead(worker, task_id, changes)
            elif status is not None:
                return self._deliver(worker, task_id, changes, {}, patience)
            written = self.logbook.changes() if worker.takes_logs else {}
            return self._deliver(worker, task_id, changes, written, patience)

    def _send_ahead(self, worker: ProcessWorker, task_id: str, changes: Json) -> None:
        if self.logbook.waiting_bytes <= MOST_LAST_LOG_BYTES:
            return
        fence: Json = {key: changes[key] for key in ("attempt", "worker_id") if key in changes}
        with contextlib.suppress(JobroomError):  # the last report meets it as well
            self.send(worker, task_id, fence, ONCE)

    def _deliver(
        self,
        worker: ProcessWorker,
        task_id: str,
        changes: Json,
        written: Json,
        patience: Patience,
    ) -> Json:
        try:
            answer = worker.api.report(task_id, {**changes, **written}, patience=patience)
        except (InvalidInput, PayloadTooLarge) as refusal:
            if not written:
                raise
            worker.note_refused_log(refusal)
            answer = worker.api.report(task_id, changes, patience=patience)
        else:
            self.logbook.sent(written, answer)
        worker.note_answer()
        return answer
