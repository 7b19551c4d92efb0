"""What a task has written to its log and the server does not have yet; bounded in memory."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

MOST_WAITING_BYTES = 1024 * 1024
"""How much is kept while it cannot be sent: the oldest, as the server keeps the oldest too."""


class Logbook:
    """The text of one attempt's log that waits to be sent; written and sent by any thread.

    The server tells how far its log reaches, so a piece that is sent twice is stored once.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting = bytearray()
        self._offset = 0
        self._dropped = 0
        self.closed = False

    @property
    def waiting_bytes(self) -> int:
        """How much waits to be sent."""
        return len(self._waiting)

    def write(self, text: str) -> None:
        """Append text; nothing is kept once the server said that it keeps no more."""
        data = text.encode("utf-8", "backslashreplace")
        with self._lock:
            if self.closed:
                return
            free = MOST_WAITING_BYTES - len(self._waiting)
            if self._dropped or len(data) > free:
                # What comes after a gap would be read as what came next.
                kept = b"" if self._dropped else _whole_letters(data[:free])
                self._waiting += kept
                self._dropped += len(data) - len(kept)
            else:
                self._waiting += data

    def changes(self) -> dict[str, Any]:
        """Return what a report says to append it; nothing if nothing waits."""
        with self._lock:
            if self.closed or not self._waiting:
                return {}
            return {"log": self._waiting.decode(), "log_offset": self._offset}

    def sent(self, changes: Mapping[str, Any], answer: Mapping[str, Any]) -> None:
        """Note that a report with these changes was taken; ``log_bytes`` tells what is stored."""
        if "log" not in changes:
            return
        size = len(changes["log"].encode())
        reaches = answer.get("log_bytes")
        with self._lock:
            expected = changes["log_offset"] + size
            self._offset = reaches if isinstance(reaches, int) else expected
            del self._waiting[:size]
            if self._offset < expected:  # the server is full, and said so in its last line
                self.closed = True
                self._waiting.clear()
            elif self._dropped:
                mark = f"\n... ({self._dropped} bytes of the log were dropped here: the server"
                self._waiting += f"{mark} was away, or slower than the task)\n".encode()
                self._dropped = 0

    def close(self) -> None:
        """Keep and send no more."""
        with self._lock:
            self.closed = True
            self._waiting.clear()


def _whole_letters(data: bytes) -> bytes:
    return data.decode("utf-8", "ignore").encode()
