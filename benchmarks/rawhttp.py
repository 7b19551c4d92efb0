"""The smallest HTTP client that can measure a server: blocking sockets, no parser, no loop."""

from __future__ import annotations

import json
import re
import socket
from types import TracebackType
from typing import Any, NamedTuple, Self

CHUNK = 1 << 16
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)


class Answer(NamedTuple):
    """One response; ``head`` is the status line and the header fields as they came."""

    status: int
    head: bytes
    body: bytes

    @property
    def waited(self) -> bool:
        """Whether the server says that the request was held for a while (RFC 7240)."""
        return b"preference-applied:" in self.head.lower()

    def document(self) -> Any:
        """The JSON of the body; ends the benchmark where the answer is an error."""
        if self.status not in (200, 201, 202):
            raise SystemExit(f"The server answered {self.status}: {self.body[:300]!r}")
        return json.loads(self.body)


def request(
    method: str, path: str, body: object = None, *, token: str = "", wait: int = 0
) -> bytes:
    """The bytes of one request; ``wait`` seconds make it a long-poll."""
    data = b"" if body is None else json.dumps(body).encode()
    head = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", f"Content-Length: {len(data)}"]
    if data:
        head.append("Content-Type: application/json")
    if token:
        head.append(f"Authorization: Bearer {token}")
    if wait:
        head.append(f"Prefer: wait={wait}")
    return "\r\n".join([*head, "", ""]).encode() + data


class Connection:
    """One kept connection to a server on this machine."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: object, trace: TracebackType | None
    ) -> None:
        self.close()

    def fileno(self) -> int:
        """The descriptor, for epoll."""
        return self._socket.fileno()

    def close(self) -> None:
        """Hang up."""
        self._socket.close()

    def send(self, data: bytes) -> None:
        """Send a request and wait for nothing."""
        self._socket.sendall(data)

    def receive(self) -> Answer:
        """Read one whole answer."""
        data = b""
        while (end := data.find(b"\r\n\r\n")) < 0:
            data += self._more()
        head, body = data[:end], data[end + 4 :]
        found = _LENGTH.search(head)
        length = int(found.group(1)) if found else 0
        while len(body) < length:
            body += self._more()
        return Answer(int(head[9:12]), head, body)

    def call(self, data: bytes) -> Any:
        """Send a request and return the JSON of its answer."""
        self.send(data)
        return self.receive().document()

    def _more(self) -> bytes:
        part = self._socket.recv(CHUNK)
        if not part:
            raise SystemExit("The server hung up in the middle of the benchmark.")
        return part
