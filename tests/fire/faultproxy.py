"""A proxy between the SDK and a server that does to requests what networks and gateways do."""

from __future__ import annotations

import contextlib
import socket
import threading
import time

from faultlink import Exchange, Fault, Link, reset


def page(status, *, html=True, **headers):
    """A gateway answers in the server's place."""
    return Fault("page", {"status": status, "html": html, **headers})


RESET_BEFORE = Fault("reset_before")
"""The connection is reset, and the server has seen nothing of the request."""
RESET_AMID = Fault("reset_amid")
"""Half of the request reaches the server, then both sides are reset."""
RESET_AFTER = Fault("reset_after")
"""The whole request reaches the server, and the client is reset without waiting.

The server may or may not see that before it has answered: a test has to do with both.
"""
LEAVE = Fault("leave")
"""The whole request reaches the server, and the client is reset when the server has seen it go.

Whether the server has answered by then is for the test to settle: ``status`` is None if not.
"""
SWALLOW = Fault("swallow")
"""The server has answered, so it has committed; the client is reset instead."""
SWALLOW_AND_STALL = Fault("swallow_and_stall")
"""The server has answered, and the client hears nothing, ever."""
STALL = Fault("stall")
"""The request is taken and never answered; the server has seen nothing of it."""
CUT = Fault("cut")
"""Half of the answer comes, then the end of the connection."""
GARBAGE = Fault("garbage")
"""The server has committed; its answer arrives as 200 with nonsense in it."""
NO_HTTP = Fault("no_http")
"""What answers speaks something else."""
STRANGE = Fault("strange")
"""A JSON object of some other service, with 200."""


def delay(seconds):
    """The answer is late."""
    return Fault("delay", {"seconds": seconds})


class Proxy:
    """Listens on a port that stays its own; ``choose`` names the fault of each request."""

    def __init__(self, port):
        self.upstream = port
        self.seen = []
        self.choose = lambda _request: None
        self.released = threading.Event()
        self._lock = threading.Lock()
        self._open = set()
        self._threads = set()
        self._listening = self._listen(0)
        self.port = self._listening.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.refuse()
        self.released.set()
        for thread in tuple(self._threads):
            thread.join(10)

    # What tests do

    def refuse(self):
        """Take no connection any more, and reset all that there are."""
        listening, self._listening = self._listening, None
        if listening is not None:
            with contextlib.suppress(OSError):
                listening.shutdown(socket.SHUT_RDWR)
            listening.close()
        self.reset_all()

    def accept(self):
        """Take connections again, on the same port."""
        self._listening = self._listen(self.port)

    def reset_all(self):
        """Reset all connections, whatever is under way on them."""
        with self._lock:
            connections = tuple(self._open)
        for one in connections:
            reset(one)

    @contextlib.contextmanager
    def failing(self, fault, *, only=lambda _request: True):
        """All requests (or ``only`` some) meet the fault, or one of a list by turns."""
        turns = list(fault) if isinstance(fault, list | tuple) else [fault]
        asked = iter(range(10**9))
        self.choose = lambda one: turns[next(asked) % len(turns)] if only(one) else None
        try:
            yield
        finally:
            self.choose = lambda _request: None
            self.released.set()
            self.released = threading.Event()

    def fail_next(self, fault, *, times=1, only=lambda _request: True):
        """The next requests that match meet the fault."""
        left = list(range(times))

        def choose(request):
            with self._lock:
                return fault if only(request) and left and left.pop() is not None else None

        self.choose = choose

    def asked(self, method, part=""):
        """The requests of this method with that part in their path."""
        return [one for one in tuple(self.seen) if one.method == method and part in one.path]

    # The connections

    def _listen(self, port):
        listening = socket.socket()
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(("127.0.0.1", port))
        listening.listen(128)
        self._run(self._accept_all, listening)
        return listening

    def _run(self, target, *arguments):
        thread = threading.Thread(target=target, args=arguments, name="fault-proxy", daemon=True)
        with self._lock:
            self._threads = {one for one in self._threads if one.is_alive()} | {thread}
            thread.start()

    def _accept_all(self, listening):
        while True:
            try:
                client, _ = listening.accept()
            except OSError:
                return
            if self._listening is not listening and self._listening is not None:
                reset(client)
                continue
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._run(self._serve, client)

    def _serve(self, client):
        with self._lock:
            self._open.add(client)
        link = Link(client, self.upstream)
        try:
            while (request := link.read_request()) is not None:
                request.at = time.monotonic()
                request.fault = self.choose(request)
                self.seen.append(request)
                if not Exchange(link, request, self.released).run():
                    return
        except (OSError, ValueError):  # the latter for a socket that was closed meanwhile
            reset(client)  # as a plain forwarder does when its other side is gone
        finally:
            with self._lock:
                self._open.discard(client)
            link.close()
