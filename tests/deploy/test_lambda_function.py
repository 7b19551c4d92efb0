"""The built function, run by AWS's own runtime client behind each gateway, on real stores."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import os
import time

import artifact
import httpx
import lambda_events as events
import live_server
import pytest
from environments import Function
from gateway import Gateway
from live_server import BASE, token_of
from servers import Proxy, Sqld

from jobroom.settings import JobLibSettings
from jobroom.store import dialect, migrate

NETWORK_SECONDS = 60


def upgrade(url):
    """Do what ``jobroom db upgrade`` does."""
    with contextlib.closing(dialect.open_database(JobLibSettings(database_url=url))) as database:
        migrate.upgrade(database)


@pytest.fixture(scope="module")
def built(request):
    return artifact.prepare(request.config.cache.mkdir("lambda"))


@pytest.fixture(scope="module")
def started(built, tmp_path_factory):
    """Starts a function of this module, under these settings; it ends with the module."""
    functions = []

    def start(url, *, handler="app.handler", platform=None, **settings):
        ours = {"database_url": url, "jwt_secret": live_server.SECRET, **settings}
        variables = {f"ZNDRAW_JOBLIB_{name.upper()}": str(value) for name, value in ours.items()}
        output = tmp_path_factory.mktemp("function") / "output.txt"
        functions.append(Function(handler, built, output, variables=variables, **(platform or {})))
        return functions[-1]

    yield start
    for function in functions:
        function.close()


@pytest.fixture(scope="module")
def url(stores, tmp_path_factory):
    """A database on the libSQL server."""
    url = stores.fresh("libsql", tmp_path_factory.mktemp("store"))
    yield url
    stores.release(url)


@pytest.fixture(scope="module")
def function(started, url):
    """The function that the tests share, as long as they leave it sound."""
    return started(url)


@pytest.fixture
def http(function):
    with Gateway(function) as front, Client(front) as opened:
        yield opened


class Client(httpx.Client):
    """Somebody with a token, by default an admin and worker, who has a room of his own."""

    def __init__(self, front, sub=None, **claims):
        self.sub = sub or f"w{next(NUMBERS)}"
        self.jobs = f"{BASE}/rooms/{self.sub}/jobs"
        self.tasks = f"{BASE}/rooms/{self.sub}/tasks/{self.sub}:modifiers:Rotate"
        token = token_of(self.sub, **({"is_admin": True} | claims))
        super().__init__(
            base_url=f"{front.url}/{front.stage}" if front.stage else front.url,
            headers={"authorization": f"Bearer {token}"},
            timeout=NETWORK_SECONDS,
            trust_env=False,
        )

    def register(self):
        answer = self.put(self.jobs, json={"category": "modifiers", "name": "Rotate"})
        assert answer.is_success, answer.text

    def submit(self, to=None, **body):
        answer = self.post((to or self).tasks, json=body)
        assert answer.status_code == 202, answer.text
        return answer.json()["id"]

    def claim(self):
        answer = self.post(f"{BASE}/tasks/claim", json={"start": True})
        assert answer.status_code == 200, answer.text
        return answer.json()["task"]


NUMBERS = itertools.count(1)


def is_problem(answer, status, slug):
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["type"] == f"/v1/problems/{slug}"
    return True


def work_one_off(http):
    """Submit, claim and report one task; as it is then."""
    http.register()
    id = http.submit(payload={"angle": 1.0})
    claimed = http.claim()
    assert claimed["id"] == id
    report = {"status": "completed", "attempt": claimed["attempt"], "result": {"turned": True}}
    answer = http.patch(f"{BASE}/tasks/{id}", json=report)
    assert answer.status_code == 200, answer.text
    return http.get(f"{BASE}/tasks/{id}").json()


def test_one_environment_answers_cold_and_then_warm(started, url, tally):
    function = started(url)
    with Gateway(function) as front, Client(front) as http:
        seconds = []
        for _ in range(5):
            began = time.monotonic()
            assert http.get("/healthz").json() == {"status": "ok"}
            seconds.append(round(time.monotonic() - began, 3))
    assert function.started == 1
    tally(cold_seconds=seconds[0], warm_seconds=min(seconds[1:]))


@pytest.mark.parametrize("kind", events.KINDS, ids=lambda kind: kind.__name__)
def test_a_task_is_submitted_claimed_and_reported_through_each_gateway(function, kind):
    with Gateway(function, kind=kind) as front, Client(front) as http:
        done = work_one_off(http)
        assert (done["status"], done["result"]) == ("completed", {"turned": True})
        assert http.get("/v1/me").json() == {"id": http.sub, "is_admin": True, "rooms": None}
        assert is_problem(http.get("/v1/nothing"), 404, "not-found")


@pytest.mark.parametrize("kind", [events.http_api, events.rest_api], ids=["http_api", "rest_api"])
def test_a_named_stage_is_no_part_of_our_paths(started, url, kind):
    function = started(url, gateway_base_path="/prod")
    with Gateway(function, kind=kind, stage="prod") as front, Client(front) as http:
        assert work_one_off(http)["status"] == "completed"
        answer = http.post(http.tasks, json={})
        assert answer.headers["location"] == f"/prod{BASE}/tasks/{answer.json()['id']}"
        answer = http.patch(
            answer.headers["location"].removeprefix("/prod"), json={"status": "cancelled"}
        )
        assert answer.json()["status"] == "cancelled"


def test_postgresql_serves_as_the_store(started, stores, tmp_path):
    url = stores.fresh("postgresql", tmp_path)
    function = started(url)
    with Gateway(function) as front, Client(front) as http:
        assert work_one_off(http)["status"] == "completed"
    function.close()
    stores.release(url)


def test_the_function_writes_nothing_into_its_folder(built, http):
    """On Lambda it could not: /var/task is read-only."""

    def state():
        files = sorted(path for path in built.folder.rglob("*") if path.is_file())
        listed = [f"{path} {path.stat().st_size} {path.stat().st_mtime_ns}" for path in files]
        return hashlib.sha256("\n".join(listed).encode()).hexdigest()

    before = state()
    assert work_one_off(http)["status"] == "completed"
    assert state() == before


def test_a_scheduled_sweep_that_comes_twice_at_once_and_late_is_done(started, url, tally):
    """Acceptance 9a: the counts come back as JSON, and whoever is second finds nothing to do."""
    function = started(url, handler="app.sweep", worker_timeout_seconds=1)
    counts = [each.result().json() for each in function.send(events.BY_SCHEDULER, copies=2)]
    counts += [each.result().json() for each in function.send(events.SCHEDULED, late=0.2)]
    assert all(each["finished"] for each in counts)
    assert function.failed == 0
    tally(sweeps=len(counts), environments=function.started)


def test_the_handler_sweeps_too_when_a_schedule_invokes_it(function):
    assert function.call(events.SCHEDULED)["finished"] is True


def test_an_event_of_nobody_we_know_fails_the_invocation(function):
    assert function.invoke({"Records": []}).result().error == "ValueError"


def test_a_function_with_no_key_for_tokens_lets_nobody_in_and_says_what_to_set(started, url):
    function = started(url, jwt_secret="")
    with Gateway(function) as front, Client(front) as http:
        answer = http.get("/v1/me")
        assert answer.status_code >= 500
    assert "ZNDRAW_JOBLIB_JWT_SECRET" in function.output


def test_no_token_is_printed(function, http):
    http.register()
    http.submit(payload={"angle": 1.0, "hush": "a payload"})
    token = http.headers["authorization"].removeprefix("Bearer ")
    for secret in (token, live_server.SECRET, "a payload"):
        assert secret not in function.output


class TestSizes:
    """C27 and what a platform that carries bodies in JSON takes and gives."""

    def test_a_payload_over_the_limit_is_413(self, http):
        answer = http.post(http.tasks, json={"payload": {"x": "x" * 1_048_600}})
        assert is_problem(answer, 413, "payload-too-large")

    def test_a_large_result_comes_back_as_it_was_sent(self, http):
        """In the function's own JSON its quotes take two bytes each, which base64 does not."""
        result = {"x": 'é"\\' * 500_000}
        sent = json.dumps({"status": "completed", "result": result}, ensure_ascii=False).encode()
        assert len(sent) > 3_000_000
        assert report(http, sent).status_code == 200
        id = http.get(f"{BASE}/rooms/{http.sub}/tasks").json()["items"][0]["id"]
        assert http.get(f"{BASE}/tasks/{id}/result").json() == result

    def test_a_result_over_our_limit_is_413_as_a_problem(self, http):
        sent = b'{"status": "completed", "result": {"x": "%s"}}' % (b"x" * 4_300_000)
        assert is_problem(report(http, sent), 413, "payload-too-large")

    def test_one_that_the_gateway_cannot_carry_is_413_too(self, http):
        """Its JSON is a string in the event's JSON; the gateway says so in its own words."""
        sent = b'{"status": "completed", "result": {"x": "%s"}}' % (rb"\"" * 1_900_000)
        assert len(sent) < 4 * 1024 * 1024
        assert report(http, sent).status_code == 413


def report(http, sent):
    """The answer to this report of a fresh task."""
    http.register()
    http.submit()
    headers = {"content-type": "application/json"}
    return http.patch(f"{BASE}/tasks/{http.claim()['id']}", content=sent, headers=headers)


class TestSeeing:
    """Acceptance 2 and 3."""

    def test_2_the_submitter_cancels_and_nobody_claims_it(self, function):
        with Gateway(function) as front, Client(front) as worker:
            worker.register()
            with (
                Client(front, "u1", is_admin=False) as one,
                Client(front, "u2", is_admin=False) as other,
            ):
                id = one.submit(worker, payload={"angle": 90})
                path = f"{BASE}/tasks/{id}"
                cancelled = {"status": "cancelled"}
                assert is_problem(other.patch(path, json=cancelled), 403, "forbidden")
                assert one.patch(path, json=cancelled).json()["status"] == "cancelled"
                assert one.patch(path, json=cancelled).status_code == 200
            assert worker.claim() is None

    def test_3_nothing_is_read_across_rooms(self, function):
        with Gateway(function) as front, Client(front) as worker:
            worker.register()
            with (
                Client(front, "u1", is_admin=False, rooms=[worker.sub]) as one,
                Client(front, "u2", is_admin=False, rooms=["u2"]) as other,
            ):
                path = f"{BASE}/tasks/{one.submit(worker)}"
                across = worker.tasks.replace(f"rooms/{worker.sub}", "rooms/u2")
                assert is_problem(other.post(across, json={}), 404, "job-not-found")
                assert is_problem(other.get(path), 404, "task-not-found")
                assert is_problem(httpx.get(front.url + path), 401, "unauthorized")
                assert other.get(worker.jobs).status_code == 404
                answer = other.get(path, headers={"prefer": "wait=20"})
                assert is_problem(answer, 404, "task-not-found")
                assert one.get(path).status_code == 200


class TestAway:
    """A store that is slow, or not there."""

    def test_a_store_that_is_slow_makes_us_slow_and_nothing_else(self, started, url, stores):
        with Proxy(stores.sqld.port) as proxy:
            function = started(proxy.in_front_of(url))
            with Gateway(function) as front, Client(front) as http:
                proxy.delay(0.2)
                assert work_one_off(http)["status"] == "completed"
            function.close()

    def test_a_store_that_was_killed_is_503_until_it_is_back(self, started, tally):
        """The environment that was warm when it went serves again when it is back."""
        with Sqld().start() as sqld:
            upgrade(sqld.url)
            function = started(sqld.url, database_busy_seconds=1)
            with Gateway(function) as front, Client(front) as http:
                assert work_one_off(http)["status"] == "completed"
                (pid,) = function.pids
                sqld.kill()
                for _ in range(2):
                    answer = http.post(http.tasks, json={})
                    assert is_problem(answer, 503, "store-unavailable")
                    assert int(answer.headers["retry-after"]) >= 1
                assert http.get("/healthz").status_code == 200
                sqld.start()
                assert work_one_off(http)["status"] == "completed"
                assert function.pids == [pid]
                tally(statuses=dict(sorted(front.statuses.items())), environments=function.started)
            function.close()


def test_when_the_tests_are_killed_the_frozen_environments_end(function, http):
    """They are of our session: the kernel wakes them then, with a hang-up that ends them."""
    assert http.get("/healthz").status_code == 200
    for pid in function.pids:
        assert os.getsid(pid) == os.getsid(0)
        assert os.getpgid(pid) != os.getpgid(0)
