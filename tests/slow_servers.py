"""A server of a socket's own that drips, says nothing, or sends a page, as a test wants."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from typing import Literal, Self

How = Literal["silent", "head drips", "body drips", "page"]

DRIP_SECONDS = 0.1
PAGE = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 24\r\n\r\n"
    b"<html>Log in here.</html"
)
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
MOST_DRIPS = 600


class SlowServer:
    """Takes connections, and answers each request in the way that was chosen, or not at all."""

    def __init__(self, how: How) -> None:
        self.requests = 0
        self._how = how
        self._over = threading.Event()
        self._open: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for one in (self._listener, *self._open):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
        for thread in self._threads:
            thread.join(5)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                self._open.append(connection)
                self._threads.append(
                    threading.Thread(target=self._serve, args=(connection,), daemon=True)
                )
                self._threads[-1].start()

    def _serve(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while connection.recv(65536) and not self._over.is_set():
                self.requests += 1
                for piece in self._pieces():
                    connection.sendall(piece)
                    if self._how != "page" and self._over.wait(DRIP_SECONDS):
                        return

    def _pieces(self) -> Iterator[bytes]:
        if self._how == "page":
            yield PAGE
        elif self._how == "head drips":
            yield HEAD
            yield from (b"X-%d: 1\r\n" % n for n in range(MOST_DRIPS))
        elif self._how == "body drips":
            yield HEAD + b"Content-Length: %d\r\n\r\n" % MOST_DRIPS
            yield from [b" "] * MOST_DRIPS
