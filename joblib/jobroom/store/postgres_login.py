"""How a PostgreSQL server is reached: by the URL as it is now, which a secret may hold."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, TypeVar

import psycopg
from psycopg.conninfo import conninfo_to_dict

from jobroom.errors import ConfigurationError
from jobroom.store.postgres_line import ANSWER_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from jobroom import secret_store

T = TypeVar("T")
URL = "ZNDRAW_JOBLIB_DATABASE_URL"
CONNECT_SECONDS = 5
DEFAULTS: dict[str, Any] = {
    "application_name": "jobroom",
    "connect_timeout": CONNECT_SECONDS,
    "keepalives": 1,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": int(ANSWER_SECONDS * 1000),
}
"""What a URL may say otherwise."""


class Login:
    """The parameters of a connection; threads share it."""

    def __init__(self, url: secret_store.Text) -> None:
        self._url = url
        self._lock = threading.Lock()
        self._read = url.value()
        self._parameters = parameters_of(self._read)

    def parameters(self) -> Mapping[str, Any]:
        """What libpq is told now; the same object as long as the URL is the same."""
        return self._now()[1]

    def reach(self, connect: Callable[[Mapping[str, Any]], T]) -> T:
        """Connect; with a newer URL where that of now serves no more, as nothing was done yet."""
        url, parameters = self._now()
        try:
            return connect(parameters)
        except psycopg.OperationalError:
            # Why the server said no is told in its own language, and no code comes with it.
            if not self._url.replace(url):
                raise
        return connect(self.parameters())

    def _now(self) -> tuple[str, Mapping[str, Any]]:
        url = self._url.value()
        with self._lock:
            if url != self._read:
                self._parameters = parameters_of(url)
                self._read = url
            return self._read, self._parameters


def parameters_of(database_url: str) -> dict[str, Any]:
    """What libpq is told; what the URL says goes before our own wishes."""
    url = "postgresql://" + database_url.strip().partition("://")[2]
    try:
        # The encoding is ours: with another one, what is read would not be what was written.
        parameters = DEFAULTS | conninfo_to_dict(url) | {"client_encoding": "UTF8"}
    except psycopg.Error:
        message = f"{URL} is not a URL of PostgreSQL; write postgresql://user@host/database, say."
        raise ConfigurationError(message) from None
    ports = str(parameters.get("port") or "0").split(",")
    # A host may begin so, which is a socket without a file; in a name there is no such sign.
    is_torn = "@" in str(parameters.get("dbname")) or "@" in str(parameters.get("host"))[1:]
    if is_torn or not all(port.isdigit() for port in ports):
        # A password that is not written as a URL wants it: what is behind it is read as the rest.
        how = "write / @ : # ? % in a password as %2F %40 %3A %23 %3F %25"
        message = f"{URL} cannot be read: {how}."
        raise ConfigurationError(message)
    return parameters


def location_of(parameters: Mapping[str, Any]) -> str:
    """What the database is called in messages."""
    host = parameters.get("host") or parameters.get("hostaddr") or "localhost"
    host = f"[{host}]" if ":" in host else host
    port = parameters.get("port") or 5432
    return f"{host}:{port}/{parameters.get('dbname') or ''}"
