"""What a running task says: kept until the next moment to send it, so that no task waits."""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable, Iterable
from typing import Any

from jobroom.client.holds import Alarm
from jobroom.client.sender import LOG_SECONDS
from jobroom.client.task import ClaimedTask
from jobroom.client.transport import Patience
from jobroom.errors import JobroomError
from jobroom.worker.runner import text_only

log = logging.getLogger("jobroom.worker")

FLUSH = Patience(0.0, timeout=5.0)
"""One try: what could not be sent goes with the next one, or with the last report."""


class TaskTell:
    """The ``Tell`` of one task; any thread may speak, and one of ours sends."""

    def __init__(self, task: ClaimedTask) -> None:
        self._task = task
        self._lock = threading.Lock()
        self._news: dict[str, Any] = {}

    @property
    def cancelled(self) -> Alarm:
        """Set when the work is in vain."""
        return self._task.alarm

    def progress(self, fraction: float | None, message: str | None = None) -> None:
        """Keep the newest; a fraction outside 0..1 is brought to the nearer end."""
        news: dict[str, Any] = {}
        if fraction is not None and not math.isnan(fraction):
            news["progress"] = min(max(float(fraction), 0.0), 1.0)
        if message is not None:
            news["message"] = str(message)
        with self._lock:
            self._news |= news

    def log(self, text: str) -> None:
        """Keep the text until it is sent."""
        self._task.write(text_only(text))

    def flush(self) -> None:
        """Send what is new, if anything is; what could not be sent stays."""
        news = self.last_words()
        if not (news or self._task.has_log):
            return
        try:
            taken = self._task.send(news, patience=FLUSH)
        except JobroomError as refusal:
            log.warning("progress.refused task=%s reason=%r", self._task.id, str(refusal))
            return
        if not taken:
            with self._lock:
                self._news = news | self._news

    def last_words(self) -> dict[str, Any]:
        """Take what was not sent, to go with the last report."""
        with self._lock:
            news, self._news = self._news, {}
        return news


class Flusher(threading.Thread):
    """Sends what tasks say, about once a second."""

    def __init__(self, tells: Callable[[], Iterable[TaskTell]]) -> None:
        super().__init__(name="jobroom-flush", daemon=True)
        self._tells = tells
        self._stopped = threading.Event()

    def run(self) -> None:
        """Send from time to time, until ``stop``."""
        while not self._stopped.wait(LOG_SECONDS):
            for tell in self._tells():
                try:
                    tell.flush()
                except Exception:  # the thread's edge: it must outlive this
                    log.exception("progress.not_sent")

    def stop(self) -> None:
        """Send no more."""
        self._stopped.set()
