"""A request whose answer is waited for no longer than the caller wants, however it comes."""

from __future__ import annotations

import contextlib
import contextvars
import queue
import socket
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

import httpx

from jobroom.client.drawing import SIGNALS_SECONDS

Ask = Callable[..., httpx.Response]


def ask(request: Ask, seconds: float) -> httpx.Response:
    """Return the answer; ``httpx.ReadTimeout`` when ``seconds`` are over.

    httpx bounds each read, and nobody bounds the name's look-up: bytes that drip, or a resolver
    that is silent, would take all the time they want. So a thread asks, and is left behind.
    """
    one = _Try(request)
    try:
        threading.Thread(
            target=contextvars.copy_context().run,
            args=(one.run,),
            name="jobroom-request",
            daemon=True,
        ).start()
    except RuntimeError:  # at the end of the program there are no new threads
        return request()
    try:
        return one.wait(seconds)
    finally:
        one.leave()


class _Try:
    """One request in its thread."""

    def __init__(self, request: Ask) -> None:
        self._request = request
        self._came: queue.SimpleQueue[httpx.Response | BaseException] = queue.SimpleQueue()
        self._is_over = False
        self._streams: list[Any] = []

    def run(self) -> None:
        """Ask, in the thread."""
        came: httpx.Response | BaseException
        try:
            came = self._request(extensions={"trace": self._note})
        except BaseException as failure:  # noqa: BLE001  # raised where it is waited for
            came = failure
        self._is_over = True
        self._came.put(came)

    def _note(self, event: str, info: Mapping[str, Any]) -> None:
        if event.endswith((".connect_tcp.complete", ".start_tls.complete")):
            self._streams.append(info["return_value"])

    def wait(self, seconds: float) -> httpx.Response:
        """Return the answer."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            with contextlib.suppress(queue.Empty):
                came = self._came.get(timeout=min(left, SIGNALS_SECONDS))
                if isinstance(came, BaseException):
                    try:
                        raise came
                    finally:
                        del came  # its traceback holds this frame
                return came
        raise httpx.ReadTimeout("")

    def leave(self) -> None:
        """Wake the thread, if it still reads from a connection that it has opened, to its end."""
        if self._is_over:
            return
        for stream in self._streams:
            with contextlib.suppress(OSError):
                stream.get_extra_info("socket").shutdown(socket.SHUT_RDWR)
