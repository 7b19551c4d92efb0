"""What a platform leaves a request bounds all that the request waits for, the store too."""

from __future__ import annotations

import contextlib
import math
import subprocess
import sys
import time

import artifact
import environments
import httpx
import lambda_events as events
import live_server
import psycopg
import pytest
from gateway import Gateway
from lambda_function import ROTATE, Function
from proxies import Proxy

from jobroom.aws import deadline
from jobroom.errors import StoreUnavailable
from jobroom.service import sweeping
from jobroom.settings import JobLibSettings
from jobroom.store.hrana.http import HranaHttp
from jobroom.store.hrana.transport import Step

LEFT = 3.0
"""What the platform leaves; an answer that takes longer is none."""
SUBMIT = ("POST", f"/rooms/r1/tasks/{ROTATE}", {"payload": {"n": 1}})
WAIT = [("prefer", "wait=20")]
ASKED = {
    "submit": (*SUBMIT, ()),
    "read": ("GET", "/rooms/r1/tasks", None, ()),
    "claim and wait": ("POST", "/tasks/claim", {}, WAIT),
    "register": ("PUT", "/rooms/r1/jobs", {"category": "modifiers", "name": "New"}, ()),
    "sweep": ("POST", "/sweep", None, ()),
}
NETWORK = ["libsql", "libsql+client", "postgresql"]


def asked_in_time(function, method, path, body, headers=(), *, seconds=LEFT):
    """The answer, which came before the platform would have ended the function."""
    began = time.monotonic()
    answer = function.send(method, path, body, headers=headers, seconds=seconds)
    took = time.monotonic() - began
    assert took < seconds, f"{method} {path}: {answer.status} after {took:.2f} s"
    return answer


def assert_is_refused(answer):
    """The contract's 503, which every client may answer by asking again."""
    assert (answer.status, answer.json()["type"]) == (503, "/v1/problems/store-unavailable"), answer
    assert answer.header("retry-after") == "1"


class Place:
    """A store across a network, what stands in front of it, and its own URL."""

    def __init__(self, kind, stores, tmp_path):
        self.kind = kind
        self._stores = stores
        self.made = stores.fresh(kind.partition("+")[0], tmp_path, at_root=kind == "libsql+client")
        server = stores.postgres if kind == "postgresql" else stores.sqld
        protocol = {"libsql": "http", "libsql+client": "tcp"}.get(kind, "postgresql")
        self.proxy = Proxy(server.port, protocol=protocol)
        self.url = self.proxy.in_front_of(self.made)
        if kind == "libsql+client":
            self.url = f"libsql+client://{self.url.removeprefix('http://')}?tls=0"

    def close(self):
        self.proxy.close()
        self._stores.release(self.made)


@pytest.fixture(params=NETWORK)
def place(request, stores, tmp_path):
    with contextlib.closing(Place(request.param, stores, tmp_path)) as made:
        yield made


@pytest.fixture
def function(settings, place):
    with Function(settings, database_url=place.url) as made:
        made.register()
        yield made
        place.proxy.heal()


@pytest.mark.parametrize("name", ASKED)
def test_a_store_that_hangs_is_a_503_before_the_platform_ends_the_function(function, place, name):
    method, path, body, headers = ASKED[name]
    place.proxy.stall()
    assert_is_refused(asked_in_time(function, method, path, body, headers))


@pytest.mark.parametrize("name", ["submit", "claim and wait"])
def test_a_store_that_refuses_connections_is_a_503_in_time(function, place, name):
    method, path, body, headers = ASKED[name]
    place.proxy.cut()
    assert_is_refused(asked_in_time(function, method, path, body, headers))


def test_the_store_that_hangs_at_a_cold_start_is_a_503_in_time(settings, place):
    place.proxy.stall()
    with Function(settings, database_url=place.url) as cold:
        assert_is_refused(asked_in_time(cold, *SUBMIT))
        place.proxy.heal()
        assert cold.send("GET", "/rooms/r1/tasks").status == 200


def test_the_next_request_finds_the_store_again_and_what_was_taken(function, place):
    """A refused submission is kept or not, as ever; with its key it is there once."""
    key = [("idempotency-key", "k1")]
    place.proxy.stall()
    assert_is_refused(asked_in_time(function, *SUBMIT, key))
    place.proxy.heal(deliver=True)
    again = function.send(*SUBMIT, headers=key)
    assert again.status == 202, again
    assert function.send("GET", "/rooms/r1/tasks").json()["total"] == 1


def test_a_sweep_whose_last_step_hangs_fails_in_its_time_and_says_so(
    function, place, monkeypatch, caplog
):
    last = sweeping.finish_sweep.rule

    def hang_and_finish(tx):
        place.proxy.stall()
        last(tx)

    monkeypatch.setattr(sweeping, "finish_sweep", sweeping.writes(hang_and_finish))
    began = time.monotonic()
    with pytest.raises(StoreUnavailable):
        function.sweep({}, events.Context(LEFT))
    assert time.monotonic() - began < LEFT
    assert "sweep.failed reason=" in caplog.text


@contextlib.contextmanager
def locked_postgres(url):
    with psycopg.connect(url) as other:
        other.execute("LOCK TABLE task, worker IN ACCESS EXCLUSIVE MODE")
        yield
        other.rollback()


@contextlib.contextmanager
def locked_libsql(url):
    """sqld itself lets nobody hold its lock for longer than five seconds."""
    with contextlib.closing(HranaHttp(url, None)) as other:
        stream = other.stream(write=True)
        stream.run([Step("SELECT 1")])
        yield
        stream.rollback()


@contextlib.contextmanager
def locked_file(url):
    """By a process of its own."""
    program = (
        "import sqlite3, sys;"
        " other = sqlite3.connect(sys.argv[1], isolation_level=None);"
        " other.execute('BEGIN IMMEDIATE'); print('locked', flush=True); sys.stdin.read()"
    )
    path = url.removeprefix("sqlite:///")
    with subprocess.Popen(
        [sys.executable, "-c", program, path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as other:
        assert other.stdout.readline() == "locked\n"
        yield
        other.communicate("")


LOCKED = {"sqlite": locked_file, "libsql": locked_libsql, "postgresql": locked_postgres}


@pytest.fixture(params=LOCKED)
def crowded(request, stores, settings, tmp_path):
    """A function, and a store that another writer may keep to himself."""
    url = stores.fresh(request.param, tmp_path)
    with Function(settings, database_url=url) as made:
        made.register()
        yield made, LOCKED[request.param], url
    stores.release(url)


@pytest.mark.parametrize("name", ["submit", "claim and wait", "register", "sweep"])
def test_a_store_that_another_has_locked_is_a_503_in_time(crowded, name):
    """Nothing was done, and the refusal knows: whoever asks again doubles nothing.

    Not of libSQL, where what waits for the lock may still get it when nobody listens any more.
    """
    function, locked, url = crowded
    method, path, body, headers = ASKED[name]
    with locked(url):
        answer = asked_in_time(function, method, path, body, headers)
        assert_is_refused(answer)
        if locked is not locked_libsql:
            assert "nothing of it was kept" in answer.json()["detail"], answer
    if locked is not locked_libsql:
        assert function.send("GET", "/rooms/r1/tasks").json()["total"] == 0
    assert function.send(*SUBMIT).status == 202


@pytest.mark.parametrize("seconds", [0.5, 1.0])
def test_whatever_is_left_is_enough_to_refuse(crowded, seconds):
    function, locked, url = crowded
    with locked(url):
        assert_is_refused(asked_in_time(function, *SUBMIT, seconds=seconds))


def test_a_gateway_whose_clock_is_behind_is_served_all_the_same(crowded):
    """By our clock it gave up long ago: then only the function's own time counts."""
    function, _locked, _url = crowded
    assert function.send(*SUBMIT, received=time.time() - 3600).status == 202


class Clock:
    """The clocks of an environment, and the platform's of a function: they stand still."""

    def __init__(self, seconds):
        self.seconds = seconds

    def time(self):
        return 1_800_000_000.0

    def monotonic(self):
        return 5_000.0

    def get_remaining_time_in_millis(self):
        return int(self.seconds * 1000)


@pytest.mark.parametrize(
    ("age", "seconds", "changes", "expected"),
    [
        (0, 28, {}, (27.25, 27.625)),
        (0, 3, {}, (2.25, 2.625)),
        (0, 1, {}, (0.75, 0.875)),
        (27.5, 28, {}, (1.875, 2.1875)),
        (40, 28, {}, (27.25, 27.625)),
        (0, 28, {"gateway_reserve_seconds": 5}, (25.5, 26.75)),
        (0, 0, {"gateway_timeout_seconds": 0}, (math.inf, math.inf)),
    ],
)
def test_the_store_is_given_up_before_the_last_moment_and_that_is_before_the_end(
    monkeypatch, age, seconds, changes, expected
):
    clock = Clock(seconds)
    monkeypatch.setattr(deadline, "time", clock)
    event = events.http_api("GET", "/v1/me", received=clock.time() - age)
    limits = deadline.limits(event, clock, JobLibSettings(**changes))
    told = [each - clock.monotonic() for each in limits]
    assert told == pytest.approx(expected)


def test_the_built_function_answers_before_the_platform_kills_it(request, stores, tmp_path, tally):
    """The platform of the tests kills an execution whose time is up, as Lambda does."""
    built = artifact.prepare(request.config.cache.mkdir("lambda"))
    url = stores.fresh("libsql", tmp_path)
    with contextlib.closing(Proxy(stores.sqld.port)) as proxy:
        ours = {"DATABASE_URL": proxy.in_front_of(url), "JWT_SECRET": live_server.SECRET}
        variables = {f"ZNDRAW_JOBLIB_{name}": value for name, value in ours.items()}
        output = tmp_path / "output.txt"
        with (
            environments.Function(
                "app.handler", built, output, variables=variables, timeout=LEFT
            ) as function,
            Gateway(function) as front,
            httpx.Client(base_url=front.url, timeout=60, trust_env=False) as http,
        ):
            token = live_server.token_of("w", is_admin=True)
            asked = {"headers": {"authorization": f"Bearer {token}"}, "json": {}}
            assert http.get("/healthz").status_code == 200
            cold = http.post(f"{live_server.BASE}/tasks/claim", **asked)
            proxy.stall()
            began = time.monotonic()
            answer = http.post(f"{live_server.BASE}/tasks/claim", **asked)
            took = time.monotonic() - began
            assert (answer.status_code, answer.headers.get("retry-after")) == (503, "1"), (
                function.output
            )
            assert function.started == 1, function.output
        tally(cold=cold.status_code, seconds=round(took, 2), left=LEFT)
    stores.release(url)
