"""Hrana over HTTP (``/v2/pipeline``), which every libSQL server and Turso speak."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from jobroom.store import patience
from jobroom.store.hrana import pipeline
from jobroom.store.hrana.errors import Error, InterfaceError, OperationalError
from jobroom.store.hrana.pipeline import Call
from jobroom.store.hrana.refusal import read_refusal
from jobroom.store.hrana.sql import check_inside
from jobroom.store.hrana.stream import HttpStream
from jobroom.store.hrana.transport import MOST_WRITERS, Counters, Result, Step
from jobroom.store.hrana.values import statement
from jobroom.store.hrana.writers import Write, Writers

if TYPE_CHECKING:
    import httpx

MOST_READERS = 16
LONGEST_CONNECT_SECONDS = 5.0
OK, UNAUTHORIZED, FORBIDDEN = 200, 401, 403


class HranaHttp:
    """One server by HTTP; threads share it.

    ``token`` is asked for each request, and once more where the server refuses the token, which
    ``refused`` is told before.
    ``timeout_seconds`` bounds each request, and the wait for a place to write before it.
    """

    def __init__(
        self,
        base_url: str,
        token: Callable[[], str | None] | None,
        *,
        refused: Callable[[str | None], None] | None = None,
        timeout_seconds: float = 10.0,
        most_writers: int = MOST_WRITERS,
    ) -> None:
        self.counters = Counters()
        self.base_url = base_url.rstrip("/")
        self.writers = Writers(most_writers, timeout_seconds, self._send_group)
        self._token = token
        self._refused = refused
        self._timeout = timeout_seconds
        self._most_connections = MOST_READERS + most_writers
        self._readers = threading.BoundedSemaphore(MOST_READERS)
        self._lock = threading.Lock()
        self._client: httpx.Client | None = None
        self._is_closed = False

    def batch(self, steps: Sequence[Step], *, write: bool) -> list[Result]:
        """Run the steps in one transaction and one round trip: all of them or none."""
        check_inside(steps, nested=False)
        if not steps:
            return []
        statements = [statement(step) for step in steps]
        begin = pipeline.BEGIN_WRITE if write else pipeline.BEGIN_READ
        if len(statements) == 1:
            made = Write(pipeline.bare(statements[0]))
        else:
            chain = pipeline.chain(statements, begin=begin, end=True)
            made = Write(chain.request, chain)
        return self.writers.write(made) if write else self._read(made)

    def stream(self, *, write: bool) -> HttpStream:
        """A transaction to be held open over several round trips; nothing is sent yet."""
        return HttpStream(self, write=write)

    def close(self) -> None:
        """Close the connections; a second call does nothing."""
        with self._lock:
            self._is_closed = True
            client, self._client = self._client, None
        if client is not None:
            client.close()

    def call(self, call: Call) -> pipeline.Answer:
        """Send a pipeline and return its answer; raises an Error with ``applied`` set."""
        body = pipeline.body(call.requests, call.baton)
        token = self._ask_token()
        status, content = self._post(call, body, token)
        if status in (UNAUTHORIZED, FORBIDDEN):
            if self._refused is not None:
                self._refused(token)
            fresh = self._ask_token()
            # It has been renewed meanwhile. A 401 has applied nothing; a 403 may stand for one
            # of several that travelled together.
            if fresh != token and not (status == FORBIDDEN and call.is_shared):
                status, content = self._post(call, body, fresh)
        if status != OK:
            raise read_refusal(status, content, lost=call.lost, is_shared=call.is_shared)
        return pipeline.read(content, len(call.requests), lost=call.lost)

    def _read(self, made: Write) -> list[Result]:
        if not self._readers.acquire(timeout=patience.left(self._timeout)):
            message = "Too many reads wait for the store here; try again in a moment."
            raise OperationalError(message, code="BUSY_HERE", applied=False)
        try:
            requests = (made.request, pipeline.CLOSE)
            answer = self.call(Call(self.base_url, requests, is_repeatable=True))
        finally:
            self._readers.release()
        results = _results(made, answer.entries[0], lost=False)
        self.counters.answered(results)
        return results

    def _send_group(self, group: list[Write]) -> None:
        """Send batches in one request, and give each its own results or its own error."""
        requests: list[str] = []
        for write in group:
            # What a batch may leave open, as one whose answer is too large does, is not for the
            # next one to find.
            requests += (write.request, pipeline.ROLLBACK)
        requests[-1] = pipeline.CLOSE  # it rolls back as well
        call = Call(self.base_url, requests, lost=None, is_shared=len(group) > 1)
        try:
            answer = self.call(call)
        except Error as error:
            for write in group:
                write.error = error.copy()
            return
        for write, entry in zip(group, answer.entries[::2], strict=True):
            try:
                write.results = _results(write, entry, lost=None)
                self.counters.answered(write.results)
            except Error as error:
                write.error = error

    def _ask_token(self) -> str | None:
        return self._token() if self._token is not None else None

    def _post(self, call: Call, body: bytes, token: str | None) -> tuple[int, bytes]:
        import httpx

        lost_connections = (httpx.RemoteProtocolError, httpx.ReadError, httpx.WriteError)
        try:
            try:
                return self._exchange(call, body, token)
            except lost_connections:
                if not call.is_repeatable:
                    raise
                return self._exchange(call, body, token)
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout) as error:
            message = "The store cannot be reached; check that it runs and what its URL says."
            raise OperationalError(message, code="TRANSPORT", applied=False) from error
        except httpx.TimeoutException as error:
            raise _too_late(call) from error
        except (httpx.HTTPError, httpx.InvalidURL, RuntimeError) as error:
            message = f"The connection to the store broke ({type(error).__name__})."
            raise OperationalError(message, code="TRANSPORT", applied=call.lost) from error

    def _exchange(self, call: Call, body: bytes, token: str | None) -> tuple[int, bytes]:
        headers = {"content-type": "application/json"}
        if token:
            headers["authorization"] = f"Bearer {token}"
        client = self._open()
        seconds = patience.left(self._timeout)
        deadline = time.monotonic() + seconds
        self.counters.sent()
        url = f"{call.base}/v2/pipeline"
        timeout = client.timeout if seconds == self._timeout else _bounds(seconds)
        with client.stream("POST", url, content=body, headers=headers, timeout=timeout) as response:
            rest, parts = response.iter_bytes(), list[bytes]()
            # The client's own timeout bounds each part; one that drips must end as well.
            while not _is_refused(response, parts) and (part := next(rest, None)) is not None:
                parts.append(part)
                if time.monotonic() > deadline:
                    raise _too_late(call)
            return response.status_code, b"".join(parts)

    def _open(self) -> httpx.Client:
        with self._lock:
            if self._is_closed:
                message = "The connection to the store is closed."
                raise InterfaceError(message, code="CLOSED", applied=False)
            if self._client is None:
                self._client = self._make_client()
            return self._client

    def _make_client(self) -> httpx.Client:
        import httpx

        return httpx.Client(
            # Reading the certificates takes 40 ms, for nothing where there is no TLS.
            verify=self.base_url.startswith("https:"),
            timeout=_bounds(self._timeout),
            limits=httpx.Limits(
                max_connections=self._most_connections,
                max_keepalive_connections=self._most_connections,
            ),
        )


def _bounds(seconds: float) -> httpx.Timeout:
    import httpx

    return httpx.Timeout(seconds, connect=min(seconds, LONGEST_CONNECT_SECONDS))


def _too_late(call: Call) -> OperationalError:
    message = "The store did not answer in time."
    return OperationalError(message, code="TIMEOUT", applied=call.lost)


def _is_refused(response: httpx.Response, parts: list[bytes]) -> bool:
    """Whether a refusal has come whole, by its length or because it is whole JSON.

    Reading on to its very end would give the connection back to the pool, but sqld closes it
    after a 401 (measured), and a write that went over it would be lost.
    """
    if response.status_code == OK:
        return False
    length = response.headers.get("content-length", "")
    if length.isdigit():
        return response.num_bytes_downloaded >= int(length)
    try:
        json.loads(b"".join(parts))
    except ValueError:
        return False
    return True


def _results(write: Write, entry: dict[str, object], *, lost: bool | None) -> list[Result]:
    if write.chain is None:
        return pipeline.read_bare(entry, lost=lost)
    return pipeline.read_chain(entry, write.chain, lost=lost)
