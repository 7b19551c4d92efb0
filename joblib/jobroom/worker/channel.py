"""Messages between the worker and the process of a slot: JSON, each after its length."""

from __future__ import annotations

import json
import socket
import struct
import threading
from collections.abc import Iterator
from typing import Any

Message = dict[str, Any]

PIECE_BYTES = 256 * 1024
_LENGTH = struct.Struct("!Q")


class Channel:
    """One end of it; any thread may send, one reads."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end
        self._buffer = bytearray()
        self._sending = threading.Lock()

    def fileno(self) -> int:
        """What to wait for."""
        return self._end.fileno()

    def send(self, message: Message) -> None:
        """Send a message; raises ``OSError`` when nobody is there."""
        data = json.dumps(message).encode()
        with self._sending:
            self._end.sendall(_LENGTH.pack(len(data)) + data)

    def receive(self) -> list[Message] | None:
        """Wait for something; return the messages that are complete, None at the end."""
        try:
            data = self._end.recv(PIECE_BYTES)
        except OSError:
            return None
        if not data:
            return None
        self._buffer += data
        return list(self._complete())

    def close(self) -> None:
        """Hang up."""
        self._end.close()

    def _complete(self) -> Iterator[Message]:
        while len(self._buffer) >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._buffer)
            end = _LENGTH.size + length
            if len(self._buffer) < end:
                return
            text = bytes(self._buffer[_LENGTH.size : end])
            del self._buffer[:end]
            yield json.loads(text)
