"""A pooler in front of a PostgreSQL, as PgBouncer is one in transaction mode."""

from __future__ import annotations

import contextlib
import queue
import secrets
import socket
import struct
import threading
from typing import Self

SSL_REQUEST, GSS_REQUEST, CANCEL_REQUEST = 80877103, 80877104, 80877102
ENDS_REQUEST = b"QSF"


class Pooler:
    """Gives each transaction of a client to the one of its server connections that is next.

    It tells a process number of its own making, and takes no ``options``.
    """

    def __init__(self, target_port: int, *, size: int = 2) -> None:
        self._target_port = target_port
        self._free: queue.SimpleQueue[_Server | None] = queue.SimpleQueue()
        for _ in range(size):
            self._free.put(None)  # connected when first needed
        self._servers: list[_Server] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self.transactions = 0
        self._clients: list[socket.socket] = []
        self._thread = threading.Thread(target=self._accept, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for one in (*self._clients, *(server.socket for server in self._servers)):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
        self._thread.join()

    def in_front_of(self, url: str) -> str:
        """The URL of a database behind it."""
        return url.replace(f":{self._target_port}", f":{self.port}", 1)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                self._clients.append(client)
                threading.Thread(target=self._serve, args=[client], daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        server: _Server | None = None
        with contextlib.suppress(OSError, EOFError):
            start = _read_start(client)
            if start is None or not self._greet(client, start):
                client.close()
                return
            while (message := _read(client))[:1] != b"X":
                server = server or self._free.get() or self._connect(start)
                server.socket.sendall(message)
                if message[:1] in ENDS_REQUEST and server.answer(client) == b"I":
                    self.transactions += 1
                    self._free.put(server)
                    server = None
        client.close()
        if server is not None:  # left in the middle of a transaction
            server.socket.close()
            self._free.put(None)

    def _connect(self, start: bytes) -> _Server:
        server = _Server(self._target_port, start)
        self._servers.append(server)
        return server

    def _greet(self, client: socket.socket, start: bytes) -> bool:
        if b"\0options\0" in start:
            refusal = b"SFATAL\0C08P01\0Munsupported startup parameter: options\0\0"
            client.sendall(b"E" + struct.pack("!i", len(refusal) + 4) + refusal)
            return False
        server = self._free.get() or self._connect(start)
        ours = struct.pack("!ii", secrets.randbits(31), secrets.randbits(31))
        client.sendall(
            server.greeting + b"K" + struct.pack("!i", 12) + ours + b"Z\x00\x00\x00\x05I"
        )
        self._free.put(server)
        return True


class _Server:
    """A connection to the server, with what it said of itself when it was made."""

    def __init__(self, port: int, start: bytes) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.sendall(start)
        self.greeting = b""
        while (message := _read(self.socket))[:1] != b"Z":
            if message[:1] != b"K":
                self.greeting += message

    def answer(self, client: socket.socket) -> bytes:
        """Carry an answer over; the state of the transaction after it."""
        while True:
            message = _read(self.socket)
            client.sendall(message)
            if message[:1] == b"Z":
                return message[5:]


def _read_start(client: socket.socket) -> bytes | None:
    while True:
        head = _exactly(client, 8)
        length, kind = struct.unpack("!ii", head)
        body = _exactly(client, length - 8)
        if kind in {SSL_REQUEST, GSS_REQUEST}:
            client.sendall(b"N")
        else:
            return None if kind == CANCEL_REQUEST else head + body


def _read(one: socket.socket) -> bytes:
    head = _exactly(one, 5)
    (length,) = struct.unpack("!i", head[1:])
    return head + _exactly(one, length - 4)


def _exactly(one: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size:
        some = one.recv(size - len(found))
        if not some:
            raise EOFError
        found += some
    return found
