"""A libSQL server across the network: one writer at a time there, and few round trips from here."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jobroom import secret_store
from jobroom.errors import ConfigurationError
from jobroom.store.hrana.errors import Error
from jobroom.store.hrana.transport import Step as Sent
from jobroom.store.hrana.url import open_transport, parse, safe_location
from jobroom.store.session import Answer, Outcome, Step
from jobroom.store.sqlite_file import COLUMNS
from jobroom.store.sqlite_file import SPELLING as SQLITE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from sqlalchemy.engine import Engine

    from jobroom.settings import JobLibSettings
    from jobroom.store.foreign import Commits
    from jobroom.store.hrana.transport import Result, Stream, Transport

CLOCK = (
    "(CAST(strftime('%s', 'now') AS INTEGER) * 1000000"
    " + CAST(substr(strftime('%f', 'now'), 4) AS INTEGER) * 1000)"
)
"""Microseconds since 1970 by the server's clock, in steps of a millisecond."""
POLL_SECONDS = 0.25
"""How often, while somebody waits, this process asks whether another one has written."""
_NOTHING = Sent("SELECT 1")


class LibSQL:
    """A database of a libSQL server, such as sqld or Turso."""

    spelling = SQLITE._replace(name="libsql", clock=CLOCK)
    columns_query = COLUMNS
    advice = "check that the server runs and has room, and that the token may write"
    is_at_hand = False
    hears_itself = True
    skips_locked = False
    spares = True
    threads = 64  # the more that wait to be written, the more go in one request
    batch = 25  # each row is a round trip, and nobody else writes meanwhile

    def __init__(self, settings: JobLibSettings, url: secret_store.Text | None = None) -> None:
        self._url = url = url or secret_store.Fixed(settings.database_url)
        self._read = url.value()
        self.location = safe_location(self._read)
        login = Login(settings, url)
        self._make = partial(
            open_transport,
            token_provider=login.token,
            timeout_seconds=settings.database_busy_seconds,
            refused=login.refused,
        )
        self._lock = threading.Lock()
        self._left: list[Transport] = []
        self.transport: Transport = self._make(self._read)
        self._seen: str | None = None

    def session(self, *, write: bool) -> LibSQLSession:
        """A conversation; nothing is sent before its first statement."""
        if self._url.value() != self._read:
            self._follow()
        return LibSQLSession(self.transport, write=write)

    def outcome(self, error: Exception) -> Outcome | None:
        """What became of a transaction that met this error; None for an error of our own."""
        if not isinstance(error, Error):
            return None
        if error.applied is None:
            return Outcome.UNKNOWN
        if error.code in {"SQLITE_TOOBIG", "HTTP_413"}:
            return Outcome.TOO_LARGE
        if error.is_busy:
            return Outcome.BUSY
        return Outcome.AWAY if error.is_unavailable else Outcome.FAULT

    def is_busy(self, error: Any) -> bool:
        """Whether another writer is at work: worth another try at once."""
        return isinstance(error, Error) and error.is_busy

    def read(self, text: str) -> list[tuple[Any, ...]]:
        """Run one query outside of everything."""
        try:
            return self.transport.batch([Sent(text)], write=False)[0].rows
        except Error as error:
            raise self.refusal(error) from error

    def refusal(self, error: Error) -> ConfigurationError:
        """What is wrong with the database, and what to do, by the client's error."""
        if error.code in {"UNAUTHORIZED", "FORBIDDEN"}:
            what = (
                "refuses the token; set ZNDRAW_JOBLIB_DATABASE_AUTH_TOKEN, or name a file that"
                " holds it by ZNDRAW_JOBLIB_DATABASE_AUTH_TOKEN_FILE"
            )
        else:
            reason = str(error).rstrip(".")
            what = f"cannot be used: {reason[:1].lower()}{reason[1:]}"
        return ConfigurationError(f"The database {self.location} {what}.")

    def engine(self) -> Engine:
        """For alembic: an engine over a transport of its own, which it closes."""
        from jobroom.store.hrana.dialect import engine_of

        return engine_of(self._make(self._read))

    @contextmanager
    def watch_commits(self) -> Iterator[Commits]:
        """Nothing tells: whoever waits asks, once for all in this process."""
        yield _Interval()

    def has_news(self) -> bool:
        """Whether anybody has committed since last asked, which is one request that reads no row.

        Our own commits count too; a server that does not number its commits may always have news.
        """
        try:
            index = self.transport.batch([_NOTHING], write=False)[0].replication_index
        except Error:
            return False
        has_moved = index is None or index != self._seen
        self._seen = index
        return has_moved

    def close(self) -> None:
        """Close the connections."""
        for transport in (self.transport, *self._left):
            transport.close()

    def _follow(self) -> None:
        """Go where the URL leads now; what is under way elsewhere may end there."""
        with self._lock:
            before, self._read = self._read, self._url.value()
            if parse(before)[:2] != parse(self._read)[:2]:
                self._left.append(self.transport)
                self.transport = self._make(self._read)
                self.location = safe_location(self._read)


class LibSQLSession:
    """One conversation with the server."""

    def __init__(self, transport: Transport, *, write: bool) -> None:
        self._transport = transport
        self._write = write
        self._stream: Stream | None = None

    def alone(self, steps: Sequence[Step]) -> list[Answer]:
        """Run steps as a transaction of their own, all or none, in one round trip."""
        writes = any(step.writes for step in steps)
        return _answers(self._transport.batch(_sent(steps), write=writes))

    def run(self, steps: Sequence[Step]) -> list[Answer]:
        """Run steps in the transaction, which the first of them opens."""
        if self._stream is None:
            self._stream = self._transport.stream(write=self._write)
        return _answers(self._stream.run(_sent(steps)))

    def serialize(self) -> None:
        """Whoever writes is alone, here: the server has one writer."""

    def commit(self, steps: Sequence[Step] = ()) -> None:
        """Run the last steps and commit, in one round trip."""
        if self._stream is not None:
            self._stream.commit(_sent(steps))
            self._stream = None
        elif steps:
            self._transport.batch(_sent(steps), write=self._write)

    def rollback(self) -> None:
        """Give up what is open. Never raises."""
        if self._stream is not None:
            self._stream.rollback()
            self._stream = None

    def close(self) -> None:
        """End the conversation."""
        self.rollback()


class _Interval:
    """No signs, but intervals at which to ask."""

    def wait(self, seconds: float) -> bool:
        time.sleep(max(seconds, POLL_SECONDS))
        return False


class Login:
    """The token, said anew for each request: its own, or the one in the URL, as they are now."""

    def __init__(self, settings: JobLibSettings, url: secret_store.Text) -> None:
        self._secret = secret_store.database_auth_token(settings)
        self._given = token_provider(settings)
        self._url = url
        self._parsed: tuple[str, str | None] = ("", None)

    def token(self) -> str | None:
        """The token to send; None where none is given."""
        given = self._given() if self._secret is None else self._secret.value()
        return given or self._in_url(self._url.value())

    def refused(self, token: str | None) -> None:
        """The server does not take it: whatever may hold a newer one is asked."""
        if self._secret is not None:
            self._secret.replace(token or "")
        elif not self._given():
            url = self._url.value()
            if self._in_url(url) == token:
                self._url.replace(url)

    def _in_url(self, url: str) -> str | None:
        if self._parsed[0] != url:
            self._parsed = (url, parse(url).token)
        return self._parsed[1]


def token_provider(settings: JobLibSettings) -> Callable[[], str | None]:
    """Says what the settings hold; a file that holds it may be renewed at any time."""
    if settings.database_auth_token_file is None:
        secret = settings.database_auth_token
        fixed = None if secret is None else secret.get_secret_value()
        return lambda: fixed
    path = Path(settings.database_auth_token_file)
    last: list[str | None] = [None]

    def read() -> str | None:
        try:
            last[0] = path.read_text().strip()
        except OSError as error:
            if last[0] is None:
                message = (
                    f"ZNDRAW_JOBLIB_DATABASE_AUTH_TOKEN_FILE: {path} cannot be read"
                    f" ({error.strerror})."
                )
                raise ConfigurationError(message) from error
        return last[0]

    return read


def _sent(steps: Sequence[Step]) -> list[Sent]:
    return [Sent(step.text, step.values) for step in steps]


def _answers(results: list[Result]) -> list[Answer]:
    return [Answer(result.rows, result.count) for result in results]
