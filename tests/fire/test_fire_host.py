"""What a scientist's host does to a worker: names, proxies, addresses, tokens that are no good."""

from __future__ import annotations

import socket
import threading
import time

import faultproxy as fp
import httpx
import pytest
from workshop import Workshop, until

from jobroom.client import transport
from jobroom.client.connection import Connection
from jobroom.client.problems import UnexpectedAnswer
from jobroom.errors import ConfigurationError, StoreUnavailable


def refusal_of(url, seconds=0.3):
    """What a call comes to that gives up after a moment instead of a minute."""
    with httpx.Client(verify=False) as http:  # noqa: S501
        transport.Transport(Connection(url, "t", http=http)).send(
            "GET", "/v1/me", patience=transport.Patience(seconds)
        )


@pytest.mark.parametrize("url", ["http://nosuch.invalid:8000", "http://127.0.0.1:1"])
def test_a_server_that_cannot_be_reached_is_named_with_what_to_check(told, url):
    with pytest.raises(StoreUnavailable, match="check that it runs there") as raised:
        refusal_of(url)
    assert url in str(raised.value)
    assert told.events[:1] == ["server.away"]
    assert url in told.lines[0]


@pytest.mark.parametrize("url", ["http://.example", "http://a..b", "http://[::1"])
def test_a_host_name_that_cannot_be_is_told_at_once(url):
    with pytest.raises(ConfigurationError, match=r"check the address|cannot be"):
        refusal_of(url)


def test_a_name_that_is_not_found_for_a_while_is_an_outage(patient_shop, told, monkeypatch):
    """DNS of a cluster is away at times."""
    found, broken = socket.getaddrinfo, threading.Event()

    def getaddrinfo(*arguments, **more):
        if broken.is_set():
            raise socket.gaierror(-3, "Temporary failure in name resolution")
        return found(*arguments, **more)

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    shop = patient_shop
    worker = shop.hire()
    broken.set()
    shop.proxy.reset_all()
    until(lambda: told.of("server.away"))
    broken.clear()
    assert shop.until_status(shop.submit(1), "completed")["result"] == 1
    assert told.events == ["server.away", "server.back"]
    assert "name resolution" in told.lines[0]
    assert worker.error is None


@pytest.mark.parametrize("name", ["ALL_PROXY", "HTTP_PROXY"])
@pytest.mark.parametrize("proxy", ["socks5://u:secret@127.0.0.1:1", "ftp://u:secret@x", "a:b"])
def test_a_proxy_that_cannot_be_used_is_told_by_the_names_of_its_variables(
    monkeypatch, name, proxy
):
    monkeypatch.setenv(name, proxy)
    with pytest.raises(ConfigurationError, match="ALL_PROXY") as raised:
        Connection("http://127.0.0.1:1", "t")
    assert "secret" not in str(raised.value)
    assert raised.value.__cause__ is None


def test_a_proxy_of_the_environment_that_is_down_is_named(monkeypatch, told):
    monkeypatch.setenv("HTTP_PROXY", "http://u:secret@127.0.0.1:1")
    with pytest.raises(StoreUnavailable):
        refusal_of("http://queue.example")
    assert " proxy=http://127.0.0.1:1 " in told.lines[0]
    assert "secret" not in told.lines[0]


def test_an_address_that_points_elsewhere_is_told_with_where(patient_shop):
    """The token goes to the address that it was given for, and to no other."""
    patient_shop.proxy.choose = lambda _request: fp.page(308, location="https://new.example/v1?t=1")
    with pytest.raises(UnexpectedAnswer, match=r"points to https://new\.example; set JOBROOM_URL"):
        patient_shop.hire()


@pytest.mark.parametrize("kind", [fp.page(404), fp.page(200), fp.STRANGE], ids=repr)
def test_an_address_of_some_other_service_is_told_at_once(patient_shop, kind):
    patient_shop.proxy.choose = lambda _request: kind
    began = time.monotonic()
    with pytest.raises(UnexpectedAnswer, match=r"check the .*address"):
        patient_shop.hire()
    assert time.monotonic() - began < 30


def test_a_host_application_whose_server_moves_to_another_port_goes_on(patient_shop, told):
    """``base_url`` is read for each request."""
    first = patient_shop
    with (
        fp.Proxy(first.server.port) as proxy,
        Workshop(first.server, proxy, "moved") as second,
    ):

        class Moving(Connection):
            place = first.proxy

            @property
            def base_url(self):
                return self.place.url

        connection = first.connect()
        connection.__class__ = Moving
        worker = second.hire(api=connection)
        assert second.until_status(second.submit(1), "completed")["result"] == 1
        first.proxy.refuse()
        until(lambda: told.of("server.away"))
        Moving.place = proxy
        assert second.until_status(second.submit(2), "completed")["result"] == 2
        assert told.events == ["server.away", "server.back"]
        assert worker.error is None
    assert first.proxy.url in told.lines[0]


def test_retry_after_goes_by_the_answers_own_date_not_by_this_hosts_clock(
    patient_shop, monkeypatch
):
    """RFC 9110, 10.2.3: a host whose clock is an hour off would wait a minute, or not at all."""
    shop, pauses = patient_shop, []
    date, later = "Sun, 29 Nov 2020 12:00:00 GMT", "Sun, 29 Nov 2020 12:00:02 GMT"
    shop.proxy.fail_next(fp.page(503, date=date, retry_after=later))
    connection = shop.connect()
    patience = transport.Patience(60.0, pause=lambda seconds: pauses.append(seconds) or True)
    transport.Transport(connection).send("GET", "/v1/me", patience=patience)
    assert pauses == [2.0]
