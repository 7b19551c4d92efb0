"""The database servers that the tests run on, durable here: from wheels, on loopback."""

from __future__ import annotations

import importlib.util
import sys
from types import ModuleType
from typing import Any

from servers import ROOT

from jobroom.settings import JobLibSettings
from jobroom.store import dialect, migrate


def postgres(**settings: str) -> Any:
    """A PostgreSQL on a disk, to be started by ``with``; it syncs each commit."""
    return _module().Postgres(settings={"shared_buffers": "256MB", **settings})


def sqld() -> Any:
    """A libSQL server on a disk, to be started by ``with``."""
    return _module().Sqld()


def proxy(port: int, *, delay: float) -> Any:
    """A proxy before a server of HTTP, which delays each request by so many seconds."""
    made = _module().Proxy(port)
    made.delay(delay)
    return made


def migrated(url: str) -> str:
    """The URL of an empty database, once it has our schema."""
    database = dialect.open_database(JobLibSettings(database_url=url))
    try:
        migrate.upgrade(database)
    finally:
        database.close()
    return url


def _module() -> ModuleType:
    """``tests/servers.py``, under another name than our own ``servers``."""
    tests = ROOT / "tests"
    found = sys.modules.get("tests_servers")
    if found is None:
        sys.path.append(str(tests))
        spec = importlib.util.spec_from_file_location("tests_servers", tests / "servers.py")
        assert spec is not None
        assert spec.loader is not None
        found = sys.modules["tests_servers"] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(found)
    return found
