"""An interactive transaction by the library ``libsql-client``."""

from __future__ import annotations

from collections.abc import Awaitable, Coroutine, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from jobroom.store.hrana.client_library_values import Statement, read_result, statement
from jobroom.store.hrana.errors import Error, NotSupportedError, OperationalError
from jobroom.store.hrana.sql import check_inside, may_write
from jobroom.store.hrana.transport import Result, Step

if TYPE_CHECKING:
    from jobroom.store.hrana.client_library import LibsqlClientTransport, Link

T = TypeVar("T")


class LibraryStream:
    """One interactive transaction by WebSocket; a round trip for each statement."""

    def __init__(self, transport: LibsqlClientTransport, *, write: bool) -> None:
        self._transport = transport
        self._write = write
        self._link: Link | None = None
        self._transaction: Any = None
        self._has_failed = False
        self._has_place = False
        self._is_over = False

    def run(self, steps: Sequence[Step]) -> list[Result]:
        """Run the steps one by one; the first call begins the transaction before them."""
        statements = self._prepare(steps)
        if not self._transport.has_streams:
            message = "Plain requests hold no transaction open; leave out transport=http."
            raise NotSupportedError(message, code="NOT_SUPPORTED")
        if not statements:
            return []
        if not self._has_place and (self._write or any(may_write(step.sql) for step in steps)):
            self._transport.writers.acquire()
            self._has_place = True
        if self._link is None:
            try:
                self._link = self._transport.reach()
            except Error:
                self._end()
                raise
        return self._do(self._run(statements, self._link), lost=False)

    def commit(self, steps: Sequence[Step] = ()) -> list[Result]:
        """Run the steps and commit; if a step fails, roll back and raise."""
        self._prepare(steps)
        if self._transaction is None:
            self.rollback()
            return self._transport.batch(steps, write=self._write)
        try:
            results = self.run(steps)
            self._do(self._commit(), lost=None if self._has_place else False)
        except Error:
            self.rollback()
            raise
        self._end()
        return results

    def rollback(self) -> None:
        """Undo and close; never raises."""
        try:
            if self._transaction is not None and not self._is_over:
                self._do(self._roll_back(), lost=False)
        except Error:
            pass  # the server undoes what it hears no more of
        finally:
            self._end()

    def _prepare(self, steps: Sequence[Step]) -> list[Statement]:
        if self._is_over:
            message = "The transaction is over; begin another."
            raise OperationalError(message, code="STREAM_CLOSED", applied=False)
        check_inside(steps, nested=True)
        return [statement(step) for step in steps]

    def _do(self, work: Coroutine[Any, Any, T], *, lost: bool | None) -> T:
        try:
            return self._transport.ask(work, lost=lost)
        except Error as error:
            self._has_failed = True
            if error.code in ("TRANSPORT", "TIMEOUT", "PROTOCOL", "UNAUTHORIZED"):
                self._end()
            raise

    async def _run(self, statements: list[Statement], link: Link) -> list[Result]:
        if self._transaction is None:
            self._transport.counters.sent()
            self._transaction = link.client.transaction()
        elif self._has_failed:
            await self._check_still_open()
        return [read_result(await self._execute(*one)) for one in statements]

    async def _check_still_open(self) -> None:
        """The server may have ended the transaction with an error; BEGIN fails inside one."""
        for _ in range(2):  # the first may be answered by the news that the time was up
            with suppress(self._transport.driver_error):
                await self._execute("BEGIN", [])
                message = "The server has ended the transaction; begin it again."
                raise OperationalError(message, code="TRANSACTION_LOST", applied=False)
        self._has_failed = False

    async def _execute(self, sql: str, args: list[Any]) -> Any:
        self._transport.counters.sent()
        return await self._bounded(self._transaction.execute(sql, args))

    async def _commit(self) -> None:
        self._transport.counters.sent()
        await self._bounded(self._transaction.commit())

    async def _roll_back(self) -> None:
        self._transport.counters.sent()
        await self._bounded(self._transaction.rollback())

    async def _bounded(self, work: Awaitable[T]) -> T:
        if self._link is None:
            raise RuntimeError("the transaction has no connection")
        return await self._transport.bounded(self._link, work)

    def _end(self) -> None:
        self._is_over = True
        link, self._link = self._link, None
        if link is not None:
            with suppress(Error):
                self._transport.ask(self._leave(link), lost=False)
        if self._has_place:
            self._has_place = False
            self._transport.writers.release()

    async def _leave(self, link: Link) -> None:
        with suppress(Exception):
            self._transaction.close()
        link.leave()
