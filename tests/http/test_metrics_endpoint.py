"""``GET /metrics``: what Prometheus reads, who may read it, and that it is exact."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families
from pydantic import SecretStr

from jobroom import tokens
from jobroom.bootstrap import create_app
from jobroom.errors import StoreUnavailable
from jobroom.http import metrics
from jobroom.service import gauging
from jobroom.service.gauging import Backlog, Gauges
from jobroom.service.use_case import reads
from jobroom.settings import JobLibSettings

SECRET = "a secret of the tests, long enough"
JOB = "r1:modifiers:Rotate"
TASKS = f"/v1/joblib/rooms/r1/tasks/{JOB}"
CLAIM = "/v1/joblib/tasks/claim"

PAGE = Path(__file__).parents[2] / "joblib/docs/observe.md"
LABELS = ("method", "route", "room", "job", "state", "status", "what")

Samples = dict[str, dict[tuple[str, ...], float]]


def bearer(sub: str, **claims: Any) -> dict[str, str]:
    return {"authorization": f"Bearer {tokens.issue_token(SECRET, sub=sub, **claims)}"}


class Stage:
    """An application, a worker of it, and an admin who reads the metrics."""

    def __init__(self, settings: JobLibSettings, runner: asyncio.Runner) -> None:
        self.app = create_app(settings.model_copy(update={"jwt_secret": SecretStr(SECRET)}))
        self.door = self.app.state.door
        self.runner = runner
        self.http = httpx.AsyncClient(
            transport=httpx.ASGITransport(self.app), base_url="http://jobroom.test", trust_env=False
        )
        self.wanda = bearer("wanda")
        self.admin = bearer("prometheus", is_admin=True)
        self.register("r1", "Rotate")

    def send(self, method: str, path: str, **more: Any) -> httpx.Response:
        return self.runner.run(self.http.request(method, path, **more))

    def register(self, room: str, name: str) -> None:
        body = {"category": "modifiers", "name": name}
        path = f"/v1/joblib/rooms/{room}/jobs"
        assert self.send("PUT", path, headers=self.wanda, json=body).status_code == 201

    def submit(self, **more: Any) -> str:
        answer = self.send("POST", TASKS, headers=self.wanda, **more)
        assert answer.status_code == 202, answer.text
        task_id: str = answer.json()["id"]
        return task_id

    def claim(self) -> dict[str, Any] | None:
        answer = self.send("POST", CLAIM, headers=self.wanda, json={"start": True})
        found: dict[str, Any] | None = answer.json()["task"]
        return found

    def report(self, task_id: str, **body: Any) -> None:
        path = f"/v1/joblib/tasks/{task_id}"
        assert self.send("PATCH", path, headers=self.wanda, json=body).status_code == 200

    def read(self) -> Samples:
        self.door.gauges = metrics.GaugeCache()
        answer = self.send("GET", "/metrics", headers=self.admin)
        assert answer.status_code == 200, answer.text
        return parsed(answer.text)


def parsed(text: str) -> Samples:
    """The samples by name and by the values of their labels."""
    found: Samples = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = [sample.labels[name] for name in LABELS if name in sample.labels]
            found.setdefault(sample.name, {})[tuple(labels)] = sample.value
    return found


@pytest.fixture
def stage(settings: JobLibSettings) -> Iterator[Stage]:
    with asyncio.Runner() as runner:
        stage = Stage(settings, runner)
        yield stage
        stage.door.close()


def test_it_is_for_admins_with_a_token(stage: Stage) -> None:
    assert stage.send("GET", "/metrics").status_code == 401
    assert stage.send("GET", "/metrics", headers=stage.wanda).status_code == 403
    answer = stage.send("GET", "/metrics", headers=stage.admin)
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain; version=")


def test_a_life_of_a_task_is_counted_step_by_step(stage: Stage) -> None:
    done, failed, cancelled, waiting = (stage.submit() for _ in range(4))
    for task_id, status in ((done, "completed"), (failed, "failed")):
        assert (task := stage.claim()) is not None
        assert task["id"] == task_id
        stage.report(task_id, status=status)
    stage.report(cancelled, status="cancelled")
    assert (task := stage.claim()) is not None
    assert task["id"] == waiting
    assert stage.claim() is None
    found = stage.read()
    assert found["jobroom_tasks_submitted_total"] == {(): 4}
    assert found["jobroom_tasks_claimed_total"] == {(): 3}
    assert found["jobroom_claims_empty_total"] == {(): 1}
    assert found["jobroom_tasks_ended_total"] == {
        ("completed",): 1,
        ("failed",): 1,
        ("cancelled",): 1,
    }
    assert found["jobroom_queue_seconds_count"] == {(): 3}
    assert found["jobroom_tasks"] == {
        ("pending",): 0,
        ("delayed",): 0,
        ("blocked",): 0,
        ("held",): 1,
    }


def test_requests_are_counted_by_route_and_status(stage: Stage) -> None:
    stage.submit()
    stage.send("GET", "/v1/joblib/tasks/1", headers=stage.wanda)
    stage.send("GET", "/nowhere")
    stage.send("BREW", "/nowhere")
    route = "/v1/joblib/rooms/{room_id}/tasks/{full_name}"
    found = stage.read()["jobroom_requests_total"]
    assert found["POST", route, "202"] == 1
    assert found["GET", "/v1/joblib/tasks/{task_id}", "404"] == 1
    assert found["GET", "(none)", "404"] == 1
    assert found["(other)", "(none)", "404"] == 1


def test_what_goes_back_is_requeued_and_a_wait_in_vain_is_an_empty_claim(stage: Stage) -> None:
    task_id = stage.submit()
    assert stage.send("POST", CLAIM, headers=stage.wanda).json()["task"]["id"] == task_id
    stage.report(task_id, status="pending")
    assert stage.claim() is not None
    headers = {**stage.wanda, "prefer": "wait=1"}
    assert stage.send("POST", CLAIM, headers=headers).json()["task"] is None
    found = stage.read()
    assert found["jobroom_tasks_requeued_total"] == {(): 1}
    assert found["jobroom_claims_empty_total"] == {(): 1}
    assert found["jobroom_wait_seconds_count"] == {(): 1}
    assert found["jobroom_wait_seconds_sum"][()] >= 0.9
    assert found["jobroom_waiting_requests"] == {(): 0}


def test_a_task_that_fails_with_its_dependency_is_counted(stage: Stage) -> None:
    first = stage.submit()
    second = stage.submit(json={"depends_on": [first]})
    stage.submit(json={"depends_on": [second]})
    stage.report(first, status="cancelled")
    assert stage.read()["jobroom_tasks_ended_total"] == {
        ("completed",): 0,
        ("failed",): 2,
        ("cancelled",): 1,
    }


def test_a_sweep_is_counted_with_what_it_did(stage: Stage) -> None:
    stage.submit()
    stage.claim()
    stage.send("POST", "/v1/joblib/sweep", headers=stage.admin)
    stage.door.queue.clock_offset += 61 * 1_000_000
    stage.send("POST", "/v1/joblib/sweep", headers=stage.admin)
    found = stage.read()
    assert found["jobroom_sweeps_total"] == {(): 2}
    assert found["jobroom_swept_total"]["lost_workers",] == 1
    assert found["jobroom_swept_total"]["failed_tasks",] == 1
    assert found["jobroom_tasks_ended_total"]["failed",] == 1


def test_what_waits_is_told_per_room_and_job(stage: Stage) -> None:
    stage.register("r2", "Rotate")
    stage.submit()
    stage.submit()
    stage.submit(json={"run_at": "2100-01-01T00:00:00Z"})
    path = "/v1/joblib/rooms/r2/tasks/r2:modifiers:Rotate"
    stage.send("POST", path, headers=stage.wanda)
    stage.door.queue.clock_offset += 90 * 1_000_000
    found = stage.read()
    both = {("r1", JOB), ("r2", "r2:modifiers:Rotate")}
    assert found["jobroom_pending_tasks"] == dict(zip(sorted(both), (2, 1), strict=True))
    assert found["jobroom_delayed_tasks"]["r1", JOB] == 1
    oldest = found["jobroom_oldest_pending_seconds"]
    assert oldest.keys() == both
    assert all(90 <= age < 150 for age in oldest.values())


def test_an_admin_of_some_rooms_may_not_read_what_is_of_all(stage: Stage) -> None:
    """Rules, *Who sees what*: ``rooms`` in the token binds admins too."""
    bound = bearer("root", is_admin=True, rooms=["r1"])
    assert stage.send("GET", "/metrics", headers=bound).status_code == 403


NASTY = [
    'a"b',
    "back\\slash",
    "line\nbreak",
    "ünï ☃ \U0001f600",
    "a{b}=\u2028",
    "",
    "}\n# HELP x y\nx 1\n",
]


def test_a_name_of_any_text_comes_through_as_it_is(stage: Stage) -> None:
    backlogs = [Backlog(name, name + "!", 1, 2, 3.5) for name in NASTY]

    class Cached(metrics.GaugeCache):
        async def read(self, _call: object) -> Gauges:
            return Gauges(backlogs, 7, 1, 2, 3, 4, 3.5)

    stage.door.gauges = Cached()
    found = parsed(stage.send("GET", "/metrics", headers=stage.admin).text)
    names = {(name, name + "!") for name in NASTY}
    assert found["jobroom_pending_tasks"].keys() == names | {("(others)", "(others)")}
    assert found["jobroom_pending_tasks"]["(others)", "(others)"] == 7
    assert found["jobroom_oldest_pending_seconds"] == dict.fromkeys(names, 3.5)
    assert "x" not in found


def test_many_scrapes_are_one_reading_of_the_store(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    readings = 0
    read: Callable[[Any], Gauges] = gauging.read_gauges.rule

    def counted(tx: Any) -> Gauges:
        nonlocal readings
        readings += 1
        return read(tx)

    monkeypatch.setattr(gauging, "read_gauges", reads(counted))

    async def scrapes() -> list[httpx.Response]:
        asked = [stage.http.get("/metrics", headers=stage.admin) for _ in range(20)]
        return await asyncio.gather(*asked)

    assert {answer.status_code for answer in stage.runner.run(scrapes())} == {200}
    stage.send("GET", "/metrics", headers=stage.admin)
    assert readings == 1


def test_while_the_store_is_away_the_counts_are_told_and_no_gauge_that_is_old(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.submit()
    assert stage.read()["jobroom_tasks"][("pending",)] == 1

    @reads
    def refuse(_tx: object) -> Gauges:
        raise StoreUnavailable("The store is away.")

    monkeypatch.setattr(gauging, "read_gauges", refuse)
    monkeypatch.setattr(metrics, "GAUGE_SECONDS", -1)
    for _ in range(2):
        answer = stage.send("GET", "/metrics", headers=stage.admin)
        assert answer.status_code == 200, answer.text
        found = parsed(answer.text)
        assert found["jobroom_tasks_submitted_total"][()] == 1
        assert "jobroom_tasks" not in found


def test_a_store_that_does_not_answer_holds_up_no_scrape(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    never: asyncio.Future[Gauges] = stage.runner.get_loop().create_future()
    monkeypatch.setattr(metrics.GaugeCache, "_shared", lambda _self, _call: never)
    monkeypatch.setattr(metrics, "ANSWER_SECONDS", 0.01)
    answer = stage.send("GET", "/metrics", headers=stage.admin)
    assert answer.status_code == 200
    assert "jobroom_tasks_submitted_total" in answer.text


def test_a_scrape_that_is_given_up_takes_nothing_from_the_others(stage: Stage) -> None:
    async def both() -> httpx.Response:
        left = asyncio.ensure_future(stage.http.get("/metrics", headers=stage.admin))
        stays = asyncio.ensure_future(stage.http.get("/metrics", headers=stage.admin))
        for _ in range(5):  # turns of the loop: both have come, and the store has not answered
            await asyncio.sleep(0)
        left.cancel()
        return await stays

    assert stage.runner.run(both()).status_code == 200


def test_without_prometheus_client_it_says_what_to_install(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client.exposition", None)
    answer = stage.send("GET", "/metrics", headers=stage.admin)
    assert answer.status_code == 404
    assert "jobroom[server]" in answer.json()["detail"]


def test_prometheus_client_is_imported_by_a_scrape_alone() -> None:
    """Design, *Serverless*: cold start is a feature."""
    program = (
        "import sys, jobroom.bootstrap, jobroom.http.routes;"
        " sys.exit('prometheus_client' in sys.modules)"
    )

    async def run() -> int:
        child = await asyncio.create_subprocess_exec(sys.executable, "-c", program)
        return await child.wait()

    assert asyncio.run(run()) == 0


def test_each_metric_is_on_the_page_and_no_other(stage: Stage) -> None:
    stage.submit()
    text = stage.send("GET", "/metrics", headers=stage.admin).text
    told = {
        f"{family.name}_total" if family.type == "counter" else family.name
        for family in text_string_to_metric_families(text)
    }
    written = set(re.findall(r"^\| `(jobroom_\w+)`", PAGE.read_text(), re.MULTILINE))
    assert told == written
