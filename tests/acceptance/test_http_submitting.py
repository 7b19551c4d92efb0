"""Submitting once, however often it is sent and whatever is lost: cases C21 and C22."""

from __future__ import annotations

import itertools
import socket
import sqlite3
import struct
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
from lambda_stage import DOORS, serving_on
from live_stage import (
    ANGLE,
    ROTATE,
    SUBMIT,
    Person,
    sdk,
    serving,
    slug,
    taken,
)

from jobroom.client import api
from jobroom.client.transport import Patience

DAY_SECONDS = 24 * 3600


@pytest.fixture(scope="module", params=DOORS)
def server(request, tmp_path_factory):
    with serving_on(request.param, request, tmp_path_factory.mktemp("submitting")) as started:
        yield started


@pytest.fixture(scope="module")
def second(server):
    """Another server process on the same file; beside a function, its environments are others."""
    with serving(server.folder) as started:
        yield started


@pytest.fixture
def alice(server):
    with Person(server, "alice") as person:
        yield person


@pytest.fixture
def bob(server):
    with Person(server, "bob") as person:
        yield person


@pytest.fixture
def wanda(server):
    """She serves the job r1:modifiers:Rotate, of which nothing is left over."""
    with Person(server, "wanda") as person:
        person.register(schema=ANGLE)
        person.drain()
        yield person


keys = (f"key {number}" for number in itertools.count())


def count(person):
    return taken(person.get("/rooms/r1/tasks?limit=0"))["total"]


def post(person, key, body=None):
    headers = {"idempotency-key": key}
    return person.post(
        SUBMIT, {"payload": {"angle": 90}} if body is None else body, headers=headers
    )


def let_pass(server, seconds):
    """Make every task so much older: a server's clock cannot be moved from outside."""
    with sqlite3.connect(server.folder / "queue.db") as store:
        store.execute("UPDATE task SET created_at = created_at - ?", (seconds * 1_000_000,))
    store.close()


def test_one_key_is_one_task(server, wanda, alice, bob):
    """Acceptance C21: a repeat is the same task, another payload 422, U2's separate, then new."""
    key, before = next(keys), count(alice)
    first, again = post(alice, key), post(alice, key)
    assert (first.status_code, again.status_code) == (202, 202)
    assert first.json()["id"] == again.json()["id"]
    assert first.headers["location"] == again.headers["location"]
    assert slug(post(alice, key, {"payload": {"angle": 1}})) == "422 idempotency-key-reused"
    assert post(bob, key).json()["id"] != first.json()["id"]
    assert count(alice) == before + 2
    let_pass(server, DAY_SECONDS + 1)
    later = post(alice, key)
    assert taken(later)["id"] != first.json()["id"]
    assert "idempotency-replayed" not in later.headers
    assert count(alice) == before + 3


@pytest.mark.parametrize("servers", [1, 2])
def test_repeats_at_once_are_one_task_through_any_number_of_servers(server, second, wanda, servers):
    """Acceptance C21, its kind: the 2nd while the 1st is in flight, also at another process."""
    with ThreadPoolExecutor(6) as pool:
        people = [Person((server, second)[n % servers], "alice") for n in range(6)]
        before = count(people[0])
        for _ in range(20):
            key, ready = next(keys), threading.Barrier(6)

            def send(person, key=key, ready=ready):
                ready.wait()
                return post(person, key)

            answers = list(pool.map(send, people))
            assert {answer.status_code for answer in answers} == {202}
            assert len({answer.json()["id"] for answer in answers}) == 1
            replayed = [answer.headers.get("idempotency-replayed") for answer in answers]
            assert replayed.count("true") == 5
        assert count(people[0]) == before + 20
        for person in people:
            person.http.close()


def test_two_requests_at_once_under_one_key_are_one_task_and_one_refusal(server, second, wanda):
    """Acceptance C21, its kind: other payload, racing: never two tasks, never a fault."""
    with Person(server, "alice") as one, Person(second, "alice") as two:
        before = count(one)
        with ThreadPoolExecutor(2) as pool:
            for _ in range(20):
                key = next(keys)
                sent = [
                    pool.submit(post, person, key, {"payload": {"angle": angle}})
                    for angle, person in enumerate((one, two))
                ]
                answers = [one_sent.result() for one_sent in sent]
                assert sorted(answer.status_code for answer in answers) == [202, 422]
        assert count(one) == before + 20


class Proxy:
    """Passes bytes to a server, and swallows the answers to the first POSTs in some way."""

    def __init__(self, server, how, times):
        self._server = server
        self._how = how
        self.left = times
        self.swallowed = []
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        self._held = []
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def close(self):
        for connection in self._held:
            connection.close()
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self._thread.join()

    def _serve(self):
        try:
            while True:
                client, _ = self._listening.accept()
                # One request a connection, answered one after the other: that is enough here.
                self._pass_on(client)
        except OSError:
            return

    def _pass_on(self, client):
        client.settimeout(20)
        request = _message(client)
        with socket.create_connection(("127.0.0.1", self._server.port)) as upstream:
            upstream.settimeout(20)
            upstream.sendall(request)
            answer = _message(upstream)
        if request.startswith(b"POST") and b"/tasks/r1" in request and self.left:
            self.left -= 1
            self.swallowed.append(answer)
            SWALLOWED[self._how](self, client, answer)
        else:
            head, _, body = answer.partition(b"\r\n\r\n")
            client.sendall(head + b"\r\nconnection: close\r\n\r\n" + body)
            client.close()

    def close_at_once(self, client, _answer):
        client.close()

    def reset(self, client, _answer):
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()

    def cut(self, client, answer):
        client.sendall(answer[: len(answer) - 10])
        client.close()

    def cut_head(self, client, answer):
        client.sendall(answer[:20])
        client.close()

    def page(self, client, _answer):
        page = b"<html>Endpoint request timed out</html>"
        lines = b"HTTP/1.1 504 Gateway Timeout\r\ncontent-type: text/html\r\nconnection: close"
        client.sendall(lines + b"\r\ncontent-length: %d\r\n\r\n%b" % (len(page), page))
        client.close()

    def hold(self, client, _answer):
        self._held.append(client)


SWALLOWED = {
    "closed": Proxy.close_at_once,
    "reset": Proxy.reset,
    "cut in the body": Proxy.cut,
    "cut in the head": Proxy.cut_head,
    "a gateway's 504 page": Proxy.page,
    "held past the client's patience": Proxy.hold,
}


def _message(connection):
    """One HTTP message with a Content-Length, or without a body."""
    data = b""
    while b"\r\n\r\n" not in data:
        part = connection.recv(65536)
        if not part:
            raise ConnectionError
        data += part
    head, _, body = data.partition(b"\r\n\r\n")
    length = 0
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            length = int(value)
    while len(body) < length:
        body += connection.recv(65536)
    return head + b"\r\n\r\n" + body


@contextmanager
def swallowing(server, how, times=1):
    proxy = Proxy(server, how, times)
    try:
        yield proxy
    finally:
        proxy.close()


@pytest.mark.parametrize("how", SWALLOWED)
def test_a_post_whose_answer_is_swallowed_is_one_task(server, wanda, monkeypatch, how):
    """Acceptance C22: the server has committed; the SDK asks again with the key it sent."""
    monkeypatch.setattr(api, "CALL", Patience(60.0, timeout=1.0))
    before = count(wanda)
    with swallowing(server, how) as proxy, sdk(proxy.url, "alice") as jobs:
        made = jobs.submit(ROTATE, angle=90)
    assert proxy.left == 0
    assert b"202 Accepted" in proxy.swallowed[0]
    assert made["id"].encode() in proxy.swallowed[0]
    assert count(wanda) == before + 1
    assert wanda.claim()["id"] == made["id"]
    assert wanda.claim() is None


def test_however_often_the_answer_is_swallowed_it_is_one_task(server, wanda):
    """Acceptance C22, its kind: three times, and two submissions stay two."""
    before = count(wanda)
    with swallowing(server, "closed", times=3) as proxy, sdk(proxy.url, "alice") as jobs:
        made = [jobs.submit(ROTATE, angle=90)["id"] for _ in range(2)]
    assert proxy.left == 0
    assert len(set(made)) == 2
    assert count(wanda) == before + 2
