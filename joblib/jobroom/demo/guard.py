"""The guard of the demo's processes: they end when the demo is gone, even if it was killed."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

VARIABLE = "JOBROOM_DEMO_GUARD"
"""Tells a process which of its descriptors to watch; without it nobody guards."""


class Guard:
    """The demo's side: a pipe that the system closes when the demo is gone, however it went."""

    def __init__(self) -> None:
        self.watched, self._held = os.pipe()

    @property
    def variables(self) -> dict[str, str]:
        """What a process must find in its environment to watch."""
        return {VARIABLE: str(self.watched)}

    def close(self) -> None:
        """Let go of it; who still watches ends now."""
        os.close(self._held)
        os.close(self.watched)


def watch(*, and_first: Callable[[], object] = lambda: None) -> None:
    """End this process as soon as the demo that started it is gone; returns at once."""
    descriptor = os.environ.get(VARIABLE)
    if descriptor is None:
        return

    def wait() -> None:
        os.read(int(descriptor), 1)  # nothing is ever written: this returns at the pipe's end
        try:
            and_first()
        finally:
            # Not in order: what this process works on has nobody left to read it.
            os._exit(1)

    threading.Thread(target=wait, name="demo-guard", daemon=True).start()
