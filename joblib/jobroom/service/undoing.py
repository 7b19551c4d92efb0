"""Taking back what the store has, or may have, kept, and nobody could be told of.

A claim whose answer is lost for good would stay with a worker that knows nothing of it for as long
as it beats; a submission that was refused would be run beside the one that is sent instead of it.
Where the client can ask again, by an idempotency key or a request id, nothing is taken back.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from jobroom.errors import JobroomError

if TYPE_CHECKING:
    from collections.abc import Callable

    from jobroom.store.transaction import Transaction

    Undo = Callable[[Transaction], None]

MOST_KEPT = 10_000
"""So many are remembered; a process that dies forgets them all."""
TIMES = 3
"""What was on its way when the store was lost may arrive after the first times."""
FIRST_SECONDS = 1.0
"""Soon, and again and again until the store answers: what was kept may be claimed meanwhile."""


class Undoing:
    """The thread that takes back; it ends when there is nothing left.

    ``run`` raises a JobroomError as long as the store does not answer.
    """

    def __init__(self, run: Callable[[Undo], None], *, pause_seconds: float) -> None:
        self._run = run
        self._pause = pause_seconds
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._stopped = threading.Event()
        self._left: dict[Undo, int] = {}

    def add(self, undo: Undo) -> None:
        """Take this back as soon as the store answers again."""
        with self._lock:
            if len(self._left) < MOST_KEPT:
                self._left[undo] = TIMES
            if self._thread is None and not self._stopped.is_set():
                self._thread = threading.Thread(
                    target=self._work, name="jobroom-undoing", daemon=True
                )
                self._thread.start()

    def stop(self) -> None:
        """Take nothing back any more; waits for the thread to end."""
        self._stopped.set()
        thread = self._thread
        if thread is not None:
            thread.join()

    def _work(self) -> None:
        soon = min(FIRST_SECONDS, self._pause)
        pause = soon
        while not self._stopped.wait(pause):
            pause = self._pause
            for undo in list(self._left):
                try:
                    self._run(undo)
                except JobroomError:
                    pause = soon
                    break
                self._count(undo)
            with self._lock:
                if not self._left:
                    self._thread = None
                    return

    def _count(self, undo: Undo) -> None:
        with self._lock:
            self._left[undo] -= 1
            if not self._left[undo]:
                del self._left[undo]
