"""The customer's ``libsql-client`` as a transport, by WebSocket or by plain requests (``/v1``).

Its limits, against Hrana over HTTP:

* A transaction always begins DEFERRED, so the first statement that writes may meet SQLITE_BUSY.
* Plain requests know no interactive transaction: ``stream().run`` raises NotSupportedError.
* Batches are not combined, and a stream takes one round trip for each statement.
* It says nothing of rows read or written, nor of the ``replication_index``.
* A token is looked at when the WebSocket is opened, and no more. A refused one may end it without
  a word: code TRANSPORT instead of UNAUTHORIZED, and nothing was applied. A write that the token
  does not allow always does so: TRANSPORT, and nobody knows.
* An infinite float in a row cannot be read: PROTOCOL.
* Without a token it sends the header ``Bearer None`` with plain requests.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any, TypeVar

from jobroom.errors import ConfigurationError
from jobroom.store import patience
from jobroom.store.hrana.client_library_errors import error_of
from jobroom.store.hrana.client_library_stream import LibraryStream
from jobroom.store.hrana.client_library_values import Statement, read_result, statement
from jobroom.store.hrana.errors import Error, InterfaceError
from jobroom.store.hrana.loop import LoopThread
from jobroom.store.hrana.sql import check_inside
from jobroom.store.hrana.transport import MOST_WRITERS, Counters, Result, Step
from jobroom.store.hrana.writers import Writers

T = TypeVar("T")
_CLOSE_SECONDS = 2.0
_GREETINGS = 3


class LibsqlClientTransport:
    """One server by the library ``libsql-client``; threads share it.

    ``base_url`` begins with ws, wss, http or https. Raises ConfigurationError where the library
    is not installed.
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
        self._library = _import()
        self.driver_error: type[Exception] = self._library.LibsqlError
        self.counters = Counters()
        # The library drops what follows the last slash of a path.
        self._url = base_url.rstrip("/") + "/"
        self.has_streams = base_url.startswith("ws")
        self.writers = Writers(most_writers, timeout_seconds)
        self._token = token
        self._refused = refused
        self._timeout = timeout_seconds
        self._link: Link | None = None
        self._turn: asyncio.Lock | None = None
        self._loop = LoopThread()
        self._is_closed = False

    def batch(self, steps: Sequence[Step], *, write: bool) -> list[Result]:
        """Run the steps in one transaction and one round trip: all of them or none."""
        check_inside(steps, nested=False)
        statements = [statement(step) for step in steps]
        if not statements:
            return []
        lost = None if write else False
        if not write:
            return self._batch(statements, lost=lost)
        self.writers.acquire()
        try:
            return self._batch(statements, lost=lost)
        finally:
            self.writers.release()

    def stream(self, *, write: bool) -> LibraryStream:
        """A transaction to be held open over several round trips; nothing is sent yet."""
        return LibraryStream(self, write=write)

    def close(self) -> None:
        """Close the connection and end the loop's thread; a second call does nothing."""
        self._is_closed = True
        self._loop.close(self._close_link())

    def ask_token(self) -> str | None:
        """The token as it is now."""
        return self._token() if self._token is not None else None

    def reach(self) -> Link:
        """The connection; with a newer token where that of now is refused."""
        token = self.ask_token()
        try:
            return self.ask(self.take(token), lost=False)
        except Error as error:
            if error.code not in ("UNAUTHORIZED", "TRANSPORT"):
                raise
            fresh = self.ask_token_after(token)
            if fresh == token:
                raise
        return self.ask(self.take(fresh), lost=False)

    def ask_token_after(self, refused: str | None) -> str | None:
        """The token after one that may have been refused."""
        if self._refused is not None:
            self._refused(refused)
        return self.ask_token()

    def ask(self, work: Coroutine[Any, Any, T], *, lost: bool | None) -> T:
        """Run a coroutine on the loop; raises an Error with ``applied`` set."""
        if self._is_closed:
            work.close()
            raise InterfaceError("The connection to the store is closed.", code="CLOSED")
        try:
            # The coroutine has the same bound inside; this one is for what it cannot see.
            return self._loop.run(
                work, timeout_seconds=patience.left(self._timeout) + _CLOSE_SECONDS
            )
        except Exception as error:
            raise error_of(error, lost=lost, timeout_seconds=self._timeout) from error

    async def take(self, token: str | None) -> Link:
        """The connection, made anew where the token is another one; on the loop."""
        if self._turn is None:
            self._turn = asyncio.Lock()
        async with self._turn:
            link = self._link
            if link is None or link.is_retired or link.token != token:
                if link is not None:
                    link.retire()
                client = self._library.create_client(self._url, auth_token=token)
                link = self._link = Link(client, token)
                await self._greet(link)
            link.users += 1
            return link

    async def bounded(self, link: Link, work: Awaitable[T]) -> T:
        """Wait for an answer, no longer than the timeout; a link that keeps silent is given up."""
        try:
            # A coroutine on the loop has the time of the thread that asks for it.
            return await asyncio.wait_for(work, patience.left(self._timeout))
        except TimeoutError:
            link.retire()
            raise

    async def _greet(self, link: Link) -> None:
        """Ask a new WebSocket for nothing: one that is refused dies, now and then without a word.

        So what is sent over it later was not lost with that.
        """
        for left in reversed(range(_GREETINGS if self.has_streams else 0)):
            try:
                self.counters.sent()
                await self.bounded(link, link.client.execute("SELECT 1"))
                break
            except Exception as error:
                fault = error_of(error, lost=False, timeout_seconds=self._timeout)
                if fault.code != "TRANSPORT" or not left:
                    link.retire()
                    raise fault from error

    def _batch(self, statements: list[Statement], *, lost: bool | None) -> list[Result]:
        token = self.ask_token()
        try:
            return self.ask(self._send(statements, token), lost=lost)
        except Error as error:
            if error.applied is None or error.code not in ("UNAUTHORIZED", "TRANSPORT"):
                raise
            fresh = self.ask_token_after(token)
            if fresh == token:
                raise
        return self.ask(self._send(statements, fresh), lost=lost)

    async def _send(self, statements: list[Statement], token: str | None) -> list[Result]:
        link = await self.take(token)
        try:
            self.counters.sent()
            if len(statements) > 1:
                found = await self.bounded(link, link.client.batch(statements))
            else:
                found = [await self.bounded(link, link.client.execute(*statements[0]))]
        finally:
            link.leave()
        return [read_result(one) for one in found]

    async def _close_link(self) -> None:
        if self._link is not None:
            await self._link.close()


class Link:
    """A client of the library, and who uses it; all of it on the loop's thread."""

    def __init__(self, client: Any, token: str | None) -> None:
        self.client = client
        self.token = token
        self.users = 0
        self.is_retired = False
        self._closing: asyncio.Task[None] | None = None

    def retire(self) -> None:
        """Nobody new is to use it; it is closed when the last has left."""
        self.is_retired = True
        if not self.users and self._closing is None:
            self._closing = asyncio.create_task(self.close())

    def leave(self) -> None:
        """One who used it has left."""
        self.users -= 1
        if self.is_retired:
            self.retire()

    async def close(self) -> None:
        """Close it, however long the server keeps silent."""
        session = getattr(self.client, "_session", None)
        with suppress(Exception):
            await asyncio.wait_for(self.client.close(), _CLOSE_SECONDS)
        if session is not None and not session.closed:
            # The library has not come so far: it waits for the server's farewell first.
            with suppress(Exception):
                await session.close()


def _import() -> Any:
    try:
        return import_module("libsql_client")
    except ImportError as error:
        message = (
            "The URL libsql+client:// needs the library libsql-client:"
            ' pip install "jobroom[libsql-client]", or write libsql://.'
        )
        raise ConfigurationError(message) from error
