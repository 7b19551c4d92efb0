"""Fixtures of these tests: a shared sqld, one table in it, and each transport to it.

Loaded by name, as a plugin (PYTEST_DONT_REWRITE: it asserts nothing).
"""

from __future__ import annotations

import pytest
import servers

from jobroom.store.hrana.client_library import LibsqlClientTransport
from jobroom.store.hrana.http import HranaHttp
from jobroom.store.hrana.transport import Step

KINDS = ("http", "ws", "plain")
TABLE = "CREATE TABLE notes (id INTEGER PRIMARY KEY, name TEXT UNIQUE, value)"


def open_transport(kind, url, token=None, **options):
    """A transport of our own, or the library's by WebSocket or by plain requests."""
    if kind == "http":
        return HranaHttp(url, token, **options)
    base_url = url.replace("http:", "ws:") if kind == "ws" else url
    return LibsqlClientTransport(base_url, token, **options)


@pytest.fixture(scope="session")
def sqld():
    with servers.Sqld() as server:
        yield server.start()


@pytest.fixture
def opened():
    """Opens transports and closes them after the test."""
    transports = []

    def opens(kind, url, token=None, **options):
        transports.append(open_transport(kind, url, token, **options))
        return transports[-1]

    yield opens
    for transport in transports:
        transport.close()


@pytest.fixture(scope="session")
def hrana_of_all():
    """The transport of ``hrana``, until a test closes it: making one takes time."""
    kept = []
    yield kept
    for transport in kept:
        transport.close()


@pytest.fixture
def hrana(sqld, hrana_of_all):
    """Hrana over HTTP to the shared server, with an empty table ``notes``."""
    if not hrana_of_all or hrana_of_all[-1]._is_closed:
        hrana_of_all.append(open_transport("http", sqld.url))
    transport = hrana_of_all[-1]
    transport.batch([Step("DROP TABLE IF EXISTS notes"), Step(TABLE)], write=True)
    return transport


@pytest.fixture(params=KINDS)
def transport(request, hrana, sqld, opened):
    """Each transport in turn; ``notes`` is empty."""
    return hrana if request.param == "http" else opened(request.param, sqld.url)


@pytest.fixture(params=["http", "ws"])
def streaming(request, hrana, sqld, opened):
    """Each transport that has streams."""
    return hrana if request.param == "http" else opened(request.param, sqld.url)
