"""A network store of the tests' own, what stands in front of it, and its rows read beside it."""

from __future__ import annotations

import contextlib
from types import SimpleNamespace

import servers

from jobroom.settings import JobLibSettings
from jobroom.store import dialect, migrate
from jobroom.store.session import Step

COLUMNS = [
    *("id", "status", "attempt", "starts", "idle_claims", "version", "created_by_id"),
    *("worker_id", "error", "payload", "result", "idempotency_key", "claim_request_id"),
]
KINDS = ["libsql", "postgresql"]
SERVERS = {"libsql": servers.Sqld, "postgresql": servers.Postgres}
PROTOCOLS = {"libsql": "http", "postgresql": "postgresql"}
MARK = (
    "INSERT INTO queue_state (name, value) VALUES ('trial', 1)"
    " ON CONFLICT (name) DO UPDATE SET value = excluded.value"
)
WRITE_SECONDS = 12
WRITES = (b"INSERT", b"UPDATE", b"DELETE", b"BEGIN", b"COMMIT")


class Place:
    """One store with a migrated database, and a proxy in front of it."""

    def __init__(self, kind, **options):
        self.kind = kind
        self.server = SERVERS[kind](**options)
        self._opened = contextlib.ExitStack()
        self._database = None

    def __enter__(self):
        with contextlib.ExitStack() as opened:
            opened.enter_context(self.server.start())
            protocol = PROTOCOLS[self.kind]
            self.proxy = opened.enter_context(servers.Proxy(self.server.port, protocol=protocol))
            migrate_store(self.own_url)
            self._opened = opened.pop_all()
        return self

    def __exit__(self, *exc):
        self._opened.close()

    @property
    def own_url(self):
        """The URL of the server itself."""
        return self.server.url() if self.kind == "postgresql" else self.server.url

    @property
    def url(self):
        """The URL behind the proxy, which our servers are given."""
        return self.proxy.in_front_of(self.own_url)

    def read(self, query):
        """The rows of a query, asked of the server itself."""
        if self._database is None:
            self._database = self._opened.enter_context(opened(self.own_url))
        return [tuple(row) for row in self._database.read(query)]

    def takes_writes(self):
        """Whether the server itself takes a write, asked without our servers and the proxy.

        It may be waiting for the end of a transaction whose client has gone.
        """
        with opened(self.own_url, database_busy_seconds=WRITE_SECONDS) as database:
            session = database.session(write=True)
            try:
                session.alone([Step(MARK, (), writes=True)])
            except Exception as error:
                if database.outcome(error) is None:
                    raise
                return False
            finally:
                session.close()
        return True

    def tasks(self):
        """All tasks by id."""
        found = self.read(f"SELECT {', '.join(COLUMNS)} FROM task")  # noqa: S608 - our own
        return {row[0]: SimpleNamespace(**dict(zip(COLUMNS, row, strict=True))) for row in found}

    def tasks_of(self, who):
        """Those that an identity has submitted."""
        return [row for row in self.tasks().values() if row.created_by_id == who]


def migrate_store(url, **settings):
    with opened(url, **settings) as database:
        migrate.upgrade(database)


@contextlib.contextmanager
def opened(url, **settings):
    database = dialect.open_database(JobLibSettings(database_url=url, **settings))
    try:
        yield database
    finally:
        database.close()


def is_write(text):
    """Whether a request to the store holds a statement that writes, or opens a transaction."""
    return any(word in text for word in WRITES)


class Counted:
    """Matches the n-th request alone that comes after it was made."""

    def __init__(self, number):
        self._left = number

    def __call__(self, _text):
        self._left -= 1
        return self._left == 0
