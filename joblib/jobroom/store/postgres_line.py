"""Talking over one connection to PostgreSQL: statements with their BEGIN or COMMIT in one go.

On psycopg's layer over libpq. Its own pipeline ends with a Flush behind the Sync, after which the
server does not time a transaction that is left open, and a pooler waits for more to come; it also
prepares a statement anew for each mix of its values' types, in a round trip of its own.
"""

from __future__ import annotations

import contextlib
import itertools
import re
import select
import time
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import pq
from psycopg.adapt import Loader, Transformer
from psycopg.waiting import Ready, Wait

from jobroom.store import patience
from jobroom.store.session import Answer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from psycopg.abc import PQGen

    from jobroom.store.session import Step

ANSWER_SECONDS = 25.0
"""After the server's own limit: then it, or the network, has stopped without a word."""
CANCELLING_SECONDS = patience.SPARE_SECONDS / 2
"""For asking the server to end a statement, and as long for hearing what became of it."""


class Connection(psycopg.Connection[tuple[Any, ...]]):
    """One that gives up a server which answers nothing at all."""

    patience: float | None = None
    """Seconds; None for ``ANSWER_SECONDS``."""

    def wait(self, gen: PQGen[Any], interval: float = 0.1, timeout: float | None = None) -> Any:
        """Wait for what the server answers, not for ever."""
        if timeout is not None:
            return super().wait(gen, interval, timeout)
        longest = self.patience or ANSWER_SECONDS
        seconds = patience.left(longest, spare=patience.SPARE_SECONDS)
        started = time.monotonic()
        try:
            return super().wait(gen, interval, seconds)
        except psycopg.OperationalError as error:
            if time.monotonic() - started < seconds:
                raise
            if seconds < longest:
                with contextlib.suppress(psycopg.OperationalError):
                    return self._cut_short(gen, interval)
            self.close()
            message = f"the server has not answered for {seconds:.3g} seconds"
            raise psycopg.OperationalError(message) from error

    def _cut_short(self, gen: PQGen[Any], interval: float) -> Any:
        """Have the server end what it is at; what it then answers tells whether it has been done.

        It would go on for whoever is there no more, and nobody could say with what end.
        """
        self.cancel_safe(timeout=CANCELLING_SECONDS)
        return super().wait(gen, interval, CANCELLING_SECONDS)


class Line:
    """A connection that is ours for a while.

    ``is_pooled``: between us and the server stands a pooler, such as PgBouncer, that may give each
    transaction to another server connection: what is set, prepared or listened for is lost then.
    """

    __slots__ = (
        "_is_midway",
        "_names",
        "_reading",
        "connection",
        "is_pooled",
        "parameters",
        "unused_since",
    )

    def __init__(
        self, connection: Connection, *, is_pooled: bool, parameters: Mapping[str, Any]
    ) -> None:
        self.connection = connection
        self.is_pooled = is_pooled
        self.parameters = parameters
        self.unused_since = 0.0
        self._names: dict[bytes, bytes] = {}
        self._is_midway = False
        connection.adapters.register_loader("numeric", _NumericLoader)
        self._reading = Transformer(connection)

    def send(self, steps: Sequence[Step]) -> list[Answer]:
        """Run steps in one round trip; outside of a transaction they are one, all or none."""
        if self.connection.closed:
            raise psycopg.OperationalError("the connection is closed")
        sent = [(numbered(step.text), [_dump(value) for value in step.values]) for step in steps]
        self._is_midway = True
        found = self.connection.wait(self._send(sent))
        self._is_midway = False
        results = list(self._made(found))
        return [self._answer(result) for result in results]

    def is_sound(self) -> bool:
        """Whether the server has not ended it: what then came is there to be read."""
        if self.connection.closed:
            return False
        poll = select.poll()
        poll.register(self.connection.fileno(), select.POLLIN)
        return not poll.poll(0)

    def is_idle(self) -> bool:
        """Whether nothing is open or under way in it."""
        status = self.connection.info.transaction_status
        return not self._is_midway and status is pq.TransactionStatus.IDLE

    def close(self) -> None:
        """Close it; never raises."""
        with contextlib.suppress(psycopg.Error, OSError):
            self.connection.close()

    def _send(
        self, sent: list[tuple[bytes, list[bytes | None]]]
    ) -> PQGen[list[tuple[bytes | None, pq.abc.PGresult]]]:
        """Send all, then read until the server has answered all; what came, in order."""
        server = self.connection.pgconn
        server.enter_pipeline_mode()
        prepares: list[bytes | None] = []
        fresh: dict[bytes, bytes] = {}
        for text, values in sent:
            if self.is_pooled:
                server.send_query_params(text, values)
            else:
                if text not in self._names and text not in fresh:
                    fresh[text] = b"j%d" % (len(self._names) + len(fresh))
                    server.send_prepare(fresh[text], text)
                    prepares.append(text)
                server.send_query_prepared(self._names.get(text) or fresh[text], values)
            prepares.append(None)
        server.pipeline_sync()
        found = yield from _read(server)
        if server.status == pq.ConnStatus.OK:
            server.exit_pipeline_mode()
        answers = list(zip(prepares, found, strict=False))
        for prepared, result in answers:
            if prepared is not None and result.status == pq.ExecStatus.COMMAND_OK:
                self._names[prepared] = fresh[prepared]
        return answers

    def _made(self, found: list[tuple[bytes | None, pq.abc.PGresult]]) -> Iterator[pq.abc.PGresult]:
        """The results of the steps; raises what the first of them met that failed."""
        for text, result in found:
            if result.status == pq.ExecStatus.FATAL_ERROR:
                raise _error(result, self.connection.pgconn)
            if text is None:
                yield result
        if self.connection.closed:
            raise psycopg.OperationalError("the connection to the server was lost")

    def _answer(self, result: pq.abc.PGresult) -> Answer:
        rows: list[tuple[Any, ...]] = []
        if result.ntuples:
            self._reading.set_pgresult(result)
            rows = self._reading.load_rows(0, result.ntuples, tuple)
        return Answer(rows, result.command_tuples or 0)


def _read(server: pq.abc.PGconn) -> PQGen[list[pq.abc.PGresult]]:
    found: list[pq.abc.PGresult] = []
    while True:
        unsent = server.flush()
        ready = yield Wait.RW if unsent else Wait.R
        # Nothing is said to be ready where it is waited for anew (``Connection.wait``).
        if not ready or ready & Ready.R:
            # Where that fails, why may stand in what came before.
            with contextlib.suppress(psycopg.OperationalError):
                server.consume_input()
        while not server.is_busy():
            result = server.get_result()
            if result is not None and result.status == pq.ExecStatus.PIPELINE_SYNC:
                return found
            if result is not None:
                found.append(result)
            elif server.status == pq.ConnStatus.BAD:
                return found


def _error(result: pq.abc.PGresult, server: pq.abc.PGconn) -> psycopg.Error:
    message = result.get_error_message().strip()
    state = (result.error_field(pq.DiagnosticField.SQLSTATE) or b"").decode()
    if not state:
        return psycopg.OperationalError(message or server.get_error_message())
    try:
        return psycopg.errors.lookup(state)(message)
    except KeyError:
        error = psycopg.DatabaseError(message)
        error.sqlstate = state
        return error


@lru_cache(maxsize=2048)
def numbered(text: str) -> bytes:
    """A statement with its parameters as the server counts them."""
    count = itertools.count(1)
    text = re.sub("%[s%]", lambda found: f"${next(count)}" if found[0] == "%s" else "%", text)
    return text.encode()


def _dump_text(value: str) -> bytes:
    if "\0" in value:  # libpq would stop there
        raise psycopg.DataError("PostgreSQL keeps no NUL in a text")
    return value.encode()


_DUMPERS: dict[type[Any], Callable[[Any], bytes | None]] = {
    str: _dump_text,
    int: lambda value: b"%d" % value,
    float: lambda value: repr(value).encode(),
    bool: lambda value: b"1" if value else b"0",
    type(None): lambda _value: None,
}


def _dump(value: Any) -> bytes | None:
    """A value as text: its type the server knows from where it stands."""
    dumper = _DUMPERS.get(type(value))
    if dumper is None:  # a member of an enumeration
        dumper = next(one for kind, one in _DUMPERS.items() if isinstance(value, kind))
    return dumper(value)


class _NumericLoader(Loader):
    """A sum of whole numbers, which PostgreSQL gives as a decimal one."""

    def load(self, data: Any) -> int | float:
        text = bytes(data).decode()
        return int(text) if text.lstrip("-").isdigit() else float(text)
