"""A real server with short times, a proxy of faults before it, and a room of each test's own."""

from __future__ import annotations

import itertools
import logging

import live_server
import pytest
from faultproxy import Proxy
from workshop import Workshop

SCALED = {
    "jwt_secret": live_server.SECRET,
    "worker_timeout_seconds": 1,
    "sweeper_interval_seconds": 0.2,
    "sqlite_synchronous": "NORMAL",
}

_rooms = itertools.count(1)


@pytest.fixture(autouse=True)
def no_proxy_of_the_environment(monkeypatch):
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    """``uvicorn app:app``: a worker is lost after a second, and swept soon."""
    with live_server.Server(tmp_path_factory.mktemp("fire"), **SCALED) as started:
        yield started.until_ready()


@pytest.fixture(scope="session")
def patient_server(tmp_path_factory):
    """The same with a minute's patience for workers, and for whoever keeps the store busy."""
    settings = {**SCALED, "worker_timeout_seconds": 60, "database_busy_seconds": 60}
    with live_server.Server(tmp_path_factory.mktemp("fire"), **settings) as started:
        yield started.until_ready()


@pytest.fixture
def proxy(server):
    with Proxy(server.port) as opened:
        yield opened


@pytest.fixture
def shop(server, proxy):
    with Workshop(server, proxy, f"room{next(_rooms)}") as opened:
        yield opened
        calm(proxy)


@pytest.fixture
def patient_shop(patient_server):
    with (
        Proxy(patient_server.port) as opened,
        Workshop(patient_server, opened, f"room{next(_rooms)}") as shop,
    ):
        yield shop
        calm(opened)


def calm(proxy):
    proxy.choose = lambda _request: None
    if proxy._listening is None:
        proxy.accept()


class Told:
    """What the SDK has logged, by event."""

    def __init__(self, caplog):
        self._caplog = caplog

    @property
    def lines(self):
        records = [one for one in self._caplog.records if one.name == "jobroom.client"]
        return [one.getMessage() for one in records if one.levelno >= logging.INFO]

    @property
    def events(self):
        return [line.split()[0] for line in self.lines]

    def of(self, *prefixes):
        return [event for event in self.events if event.startswith(prefixes)]

    def clear(self):
        self._caplog.clear()


@pytest.fixture
def told(caplog):
    caplog.set_level(logging.INFO, logger="jobroom.client")
    return Told(caplog)
