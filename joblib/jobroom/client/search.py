"""The search for tasks: claims that wait, one after the other, until there is something."""

from __future__ import annotations

import logging
import math
import queue
import time
import uuid

from pydantic import ValidationError

from jobroom.client import failure, problems
from jobroom.client.task import ClaimedTask
from jobroom.client.transport import Json, Patience
from jobroom.client.worker import BRIEF, ProcessWorker
from jobroom.errors import AnswerTooLarge, JobroomError

log = logging.getLogger("jobroom.client")

CLAIM_TIMEOUT_SECONDS = 10.0
LONGEST_CLAIM_DELAY_SECONDS = 2.0
"""The longest pause between two tries in an outage: tasks may wait when the server is back."""
REFUSED_SECONDS = 60.0
"""How long claims wait for a token that is accepted, from a callable that may yet give one."""
LAST_LOOK = Patience(0.0, timeout=2.0)
HONOURED_SHARE = 0.9


class Search:
    """Claims for a worker; ``interval`` is the pause where the server holds no claim open.

    ``claim_seconds`` is how long one claim may be held open.
    """

    def __init__(self, worker: ProcessWorker, interval: float, claim_seconds: int = 1) -> None:
        self._worker = worker
        self._interval = interval
        self._claim_seconds = claim_seconds
        self._wake: queue.SimpleQueue[None] = queue.SimpleQueue()
        self.abandoned = False
        self._told = ""
        self._patience = Patience(
            math.inf,
            timeout=CLAIM_TIMEOUT_SECONDS,
            pause=self._pause,
            outlive_seconds=math.inf,
            refused_seconds=REFUSED_SECONDS,
            longest_delay=LONGEST_CLAIM_DELAY_SECONDS,
        )

    def abandon(self) -> None:
        """Nobody waits any more; safe in a signal handler."""
        self.abandoned = True
        self._wake.put(None)

    def find(self, limit: int = 1) -> list[ClaimedTask]:
        """Return up to ``limit`` tasks as soon as there is one; nothing after ``abandon``."""
        while not self.abandoned:
            began = time.monotonic()
            found = self.look(limit, wait=self._claim_seconds)
            if found:
                return found
            waited = time.monotonic() - began
            if waited < self._claim_seconds * HONOURED_SHARE:  # the claim was not held open
                self._pause(self._interval - waited)
        return []

    def look(self, limit: int = 1, *, wait: int = 0) -> list[ClaimedTask]:
        """Claim once; the tasks that this worker cannot read have failed."""
        # One id for one claim, over all its repeats: a lost answer is then given again.
        found = self._claim(uuid.uuid4().hex, wait, limit)
        return [task for data in found if (task := self.read(data)) is not None]

    def hand_back(self, task: ClaimedTask) -> None:
        """Give back a task that was found for nobody; never raises."""
        hold = self._worker.hold(task.id, worker_id=task.worker_id, attempt=task.attempt)
        try:
            self._worker.hand_back(hold, patience=BRIEF)
        except JobroomError as refusal:
            log.warning("task.not_handed_back task=%s reason=%r", task.id, str(refusal))

    def _claim(self, request_id: str, wait: int, limit: int) -> list[Json]:
        try:
            return self._worker.claim(
                request_id=request_id, wait=wait, patience=self._patience, limit=limit
            )
        except AnswerTooLarge as refusal:
            # Nothing overtakes that task, but somebody may take it away through another door.
            if str(refusal) != self._told:
                log.warning("claim.too_large reason=%r", str(refusal))
                self._told = str(refusal)
            return []
        except problems.ELSEWHERE:
            if not self.abandoned:
                raise
        return self._look_again(request_id, limit)

    def _look_again(self, request_id: str, limit: int) -> list[Json]:
        """Ask for what a claim may have brought whose answer was lost when nobody waited more."""
        worker_id = self._worker.id
        if worker_id is None:
            return []
        try:
            return self._worker.api.claim(
                worker_id, request_id=request_id, wait=0, limit=limit, patience=LAST_LOOK
            )
        except JobroomError as trouble:
            log.debug("claim.abandoned reason=%r", str(trouble))
            return []

    def read(self, data: Json) -> ClaimedTask | None:
        """Return a task of an answer; None for one that cannot be read, which has failed."""
        try:
            return ClaimedTask.model_validate(data).bind(self._worker)
        except ValidationError as invalid:
            faults = failure.faults_of(invalid)
        log.error("task.unreadable task=%s reason=%r", data.get("id"), faults)
        changes = {"status": "failed", "error": f"The worker cannot read this task: {faults}"}
        fence = {key: data[key] for key in ("attempt", "worker_id") if data.get(key) is not None}
        try:
            self._worker.api.report(str(data.get("id")), {**changes, **fence, "final": True})
        except JobroomError as refusal:
            log.warning("report.refused task=%s reason=%r", data.get("id"), str(refusal))
        return None

    def _pause(self, seconds: float) -> bool:
        if self.abandoned or seconds <= 0:
            return not self.abandoned
        try:
            self._wake.get(timeout=seconds)
        except queue.Empty:
            return not self.abandoned
        return False
