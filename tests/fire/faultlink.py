"""One connection through the proxy of faults: what happens to each request on it."""

from __future__ import annotations

import contextlib
import select
import socket
import struct
import time
from dataclasses import dataclass, field

PIECE = 65536
LONGEST_STALL_SECONDS = 120
RESET_AT_CLOSE = struct.pack("ii", 1, 0)

GATEWAY_PAGE = (
    b"<html><head><title>%d Gateway trouble</title></head>"
    b"<body><center><h1>%d</h1></center><hr><center>gateway</center></body></html>"
)


@dataclass(frozen=True)
class Fault:
    """What happens to a request: a method of ``Exchange`` and what it is told."""

    name: str
    how: dict = field(default_factory=dict)

    def __repr__(self):
        return "-".join([self.name, *(str(value) for value in self.how.values())])


@dataclass
class Request:
    """One request as it came in; ``head`` and ``body`` are its bytes."""

    method: str
    path: str
    head: bytes
    body: bytes
    fault: Fault | None = None
    status: int | None = None
    at: float = 0.0


class Gone(OSError):
    """One side is not there any more."""


class Link:
    """A client's connection, and the server's behind it."""

    def __init__(self, client, port):
        self.client = client
        self._port = port
        self._server = None
        self._from_client = b""

    @property
    def server(self):
        if self._server is None:
            self._server = socket.create_connection(("127.0.0.1", self._port), timeout=30)
            self._server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return self._server

    def read_request(self):
        """The next request, or None at the end of the connection."""
        data = self._from_client
        while b"\r\n\r\n" not in data:
            piece = self.client.recv(PIECE)
            if not piece:
                return None
            data += piece
        head, _, rest = data.partition(b"\r\n\r\n")
        wanted = _length(head)
        while len(rest) < wanted:
            piece = self.client.recv(PIECE)
            if not piece:
                return None
            rest += piece
        self._from_client = rest[wanted:]
        method, path = head.split(b" ", 2)[:2]
        return Request(method.decode(), path.decode(), head + b"\r\n\r\n", rest[:wanted])

    def forward(self, request):
        """Send the request on and return the whole answer's bytes."""
        self.server.sendall(request.head + request.body)
        answer = self._receive(b"")
        while b"\r\n\r\n" not in answer:
            answer = self._receive(answer)
        head, _, rest = answer.partition(b"\r\n\r\n")
        while len(rest) < _length(head):
            rest = self._receive(rest)
        return head + b"\r\n\r\n" + rest

    def leave_server(self, request):
        """Send the request on and go; returns at the server's own end, with what it had said."""
        self.server.sendall(request.head + request.body)
        self.server.shutdown(socket.SHUT_WR)
        said = b""
        while piece := self.server.recv(PIECE):
            said += piece
        return said

    def _receive(self, data):
        # A client that gave up must be seen while the server holds the request open.
        ready, _, _ = select.select([self.server, self.client], [], [], LONGEST_STALL_SECONDS)
        if self.server in ready:
            piece = self.server.recv(PIECE)
            if not piece:
                raise Gone
            return data + piece
        raise Gone

    def close(self):
        for one in (self.client, self._server):
            if one is not None:
                one.close()

    def reset_server(self):
        if self._server is not None:
            reset(self._server)


class Exchange:
    """One request and its answer; each fault is a method, True if the connection may be kept."""

    def __init__(self, link, request, released):
        self._link = link
        self._request = request
        self._released = released

    def run(self):
        fault = self._request.fault
        if fault is None:
            return self._pass()
        return getattr(self, f"_{fault.name}")(**fault.how)

    def _pass(self):
        answer = self._answer()
        self._link.client.sendall(answer)
        return b"\r\nconnection: close" not in answer.partition(b"\r\n\r\n")[0].lower()

    def _answer(self):
        answer = self._link.forward(self._request)
        self._request.status = int(answer.split(b" ", 2)[1])
        return answer

    def _reset_before(self):
        reset(self._link.client)

    def _reset_amid(self):
        request = self._request.head + self._request.body
        self._link.server.sendall(request[: len(request) // 2])
        self._link.reset_server()
        reset(self._link.client)

    def _reset_after(self):
        self._link.server.sendall(self._request.head + self._request.body)
        reset(self._link.client)

    def _leave(self):
        said = self._link.leave_server(self._request)
        if said:
            self._request.status = int(said.split(b" ", 2)[1])
        reset(self._link.client)

    def _swallow(self):
        self._answer()
        reset(self._link.client)

    def _swallow_and_stall(self):
        self._answer()
        self._stall()

    def _stall(self):
        give_up_at = time.monotonic() + LONGEST_STALL_SECONDS
        while not self._released.wait(0.02) and time.monotonic() < give_up_at:
            if select.select([self._link.client], [], [], 0)[0]:
                break

    def _cut(self):
        answer = self._answer()
        self._link.client.sendall(answer[: -max(1, len(answer.partition(b"\r\n\r\n")[2]) // 2)])

    def _garbage(self):
        self._answer()
        self._send(200, b"\x00\xff{]} \x1f<not json", b"application/json")

    def _strange(self):
        self._send(200, b'{"message":"Endpoint request accepted"}', b"application/json")
        return True

    def _no_http(self):
        self._link.client.sendall(b"SSH-2.0-OpenSSH_9.6\r\n")

    def _delay(self, seconds):
        self._released.wait(seconds)
        return self._pass()

    def _page(self, status, *, html, **headers):
        body = GATEWAY_PAGE % (status, status) if html else b""
        self._send(status, body, b"text/html" if html else b"", **headers)
        return True

    def _send(self, status, body, kind, **headers):
        head = [b"HTTP/1.1 %d Said by a gateway" % status, b"content-length: %d" % len(body)]
        if kind:
            head.append(b"content-type: " + kind)
        head += [f"{name.replace('_', '-')}: {value}".encode() for name, value in headers.items()]
        self._link.client.sendall(b"\r\n".join(head) + b"\r\n\r\n" + body)


def _length(head):
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"content-length":
            return int(value)
    return 0


def reset(connection):
    """End a connection with RST, as a crashed host or a firewall does."""
    with contextlib.suppress(OSError):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_AT_CLOSE)
    # Another thread may wait in recv(), and the socket would stay open under it.
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RD)
    connection.close()
