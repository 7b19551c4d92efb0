"""The log: one JSON object a line, one line a request, and never a secret in it."""

from __future__ import annotations

import asyncio
import io
import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from pydantic import SecretStr

from jobroom import logs, tokens
from jobroom.bootstrap import create_app
from jobroom.service.queue import JobQueue
from jobroom.settings import JobLibSettings
from jobroom.store.lane import Work

SECRET = "a secret of the tests, long enough"
JOB = "r1:modifiers:Rotate"
TASKS = f"/v1/joblib/rooms/r1/tasks/{JOB}"
CLAIM = "/v1/joblib/tasks/claim"
ALWAYS = {
    "timestamp",
    "level",
    "logger",
    "event",
    "method",
    "route",
    "status",
    "duration_ms",
    "bytes",
    "request_id",
}


def bearer(sub: str, **claims: Any) -> dict[str, str]:
    return {"authorization": f"Bearer {tokens.issue_token(SECRET, sub=sub, **claims)}"}


class Stage:
    """An application, and what it logs."""

    def __init__(self, settings: JobLibSettings, runner: asyncio.Runner, written: io.StringIO):
        self.app = create_app(settings)
        self._runner = runner
        self._written = written
        self._http = httpx.AsyncClient(
            transport=httpx.ASGITransport(self.app), base_url="http://jobroom.test", trust_env=False
        )
        self.by_wanda = bearer("wanda")
        answer = self.send(
            "PUT",
            "/v1/joblib/rooms/r1/jobs",
            headers=self.by_wanda,
            json={"category": "modifiers", "name": "Rotate"},
        )
        assert answer.status_code == 201, answer.text
        self.lines()

    def send(self, method: str, path: str, **more: Any) -> httpx.Response:
        return self._runner.run(self._http.request(method, path, **more))

    def submit(self, **more: Any) -> str:
        answer = self.send("POST", TASKS, headers=self.by_wanda, **more)
        assert answer.status_code == 202, answer.text
        task_id: str = answer.json()["id"]
        return task_id

    def text(self) -> str:
        """What was written since it was last asked."""
        text = self._written.getvalue()
        self._written.seek(0)
        self._written.truncate()
        return text

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.text().splitlines()]

    def line(self) -> dict[str, Any]:
        [line] = self.lines()
        return line


@pytest.fixture
def written() -> Iterator[io.StringIO]:
    """Where the logger of this package writes JSON, for the time of a test."""
    log = logging.getLogger("jobroom")
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(logs.JsonFormatter())
    level = log.level
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    yield stream
    log.removeHandler(handler)
    log.setLevel(level)


@pytest.fixture
def stage(settings: JobLibSettings, written: io.StringIO) -> Iterator[Stage]:
    wanted = {"jwt_secret": SecretStr(SECRET), "log_format": "json"}
    with asyncio.Runner() as runner:
        stage = Stage(settings.model_copy(update=wanted), runner, written)
        yield stage
        stage.app.state.door.close()


def test_each_request_writes_one_line_with_who_what_and_how_long(stage: Stage) -> None:
    task_id = stage.submit(json={"payload": {"angle": 1}})
    line = stage.line()
    assert set(line) == ALWAYS | {"sub", "task_ids"}
    assert line["event"] == "http.request"
    assert (line["method"], line["status"], line["sub"]) == ("POST", 202, "wanda")
    assert line["route"] == "/v1/joblib/rooms/{room_id}/tasks/{full_name}"
    assert line["task_ids"] == [task_id]
    assert line["duration_ms"] > 0
    assert line["bytes"] > 0


def test_a_claim_names_its_worker_and_the_tasks_that_it_got(stage: Stage) -> None:
    ids = [stage.submit(), stage.submit()]
    stage.lines()
    stage.send("POST", CLAIM, headers=stage.by_wanda, json={"limit": 5})
    line = stage.line()
    assert (line["task_ids"], line["worker_id"]) == (ids, "wanda")


def test_a_claim_that_waited_names_what_came_in_the_end(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def both() -> list[httpx.Response]:
        loop, parked = asyncio.get_running_loop(), asyncio.Event()
        queue: JobQueue = stage.app.state.door.queue
        park = queue.park

        def told(work: Work) -> bool:
            loop.call_soon_threadsafe(parked.set)
            return park(work)

        monkeypatch.setattr(queue, "park", told)
        claim = stage._http.post(CLAIM, headers={**stage.by_wanda, "prefer": "wait=30"})
        waiting = asyncio.ensure_future(claim)
        await parked.wait()
        submitted = await stage._http.post(TASKS, headers=stage.by_wanda)
        return [submitted, await waiting]

    submitted, _ = stage._runner.run(both())
    by_route = {line["route"]: line for line in stage.lines()}
    line = by_route[CLAIM]
    assert (line["task_ids"], line["worker_id"]) == ([submitted.json()["id"]], "wanda")
    assert 0 < line["waited_seconds"] < 30


def test_a_report_names_the_task_and_the_one_claimed_with_it(stage: Stage) -> None:
    ids = [stage.submit(), stage.submit()]
    stage.send("POST", CLAIM, headers=stage.by_wanda, json={"start": True})
    stage.lines()
    body = {"status": "completed", "result": 1, "claim_next": True}
    stage.send("PATCH", f"/v1/joblib/tasks/{ids[0]}", headers=stage.by_wanda, json=body)
    line = stage.line()
    assert (line["task_ids"], line["worker_id"]) == (ids, "wanda")


def test_a_refusal_names_its_problem_and_the_task_that_it_was_about(stage: Stage) -> None:
    task_id = stage.submit()
    stage.lines()
    path = f"/v1/joblib/tasks/{task_id}"
    stage.send("PATCH", path, headers=stage.by_wanda, json={"status": "completed"})
    line = stage.line()
    assert line["problem"] == "forbidden"
    assert line["task_ids"] == [task_id]
    assert "worker_id" not in line


def test_a_heartbeat_names_its_worker(stage: Stage) -> None:
    stage.send("PATCH", "/v1/joblib/workers/wanda", headers=stage.by_wanda)
    assert stage.line()["worker_id"] == "wanda"


def test_a_long_poll_tells_how_long_it_waited(stage: Stage) -> None:
    task_id = stage.submit()
    stage.lines()
    headers = {**stage.by_wanda, "prefer": "wait=1"}
    stage.send("GET", f"/v1/joblib/tasks/{task_id}", headers=headers)
    assert stage.line()["waited_seconds"] >= 0.9


def test_who_reads_a_task_is_not_taken_for_its_worker(stage: Stage) -> None:
    task_id = stage.submit()
    stage.send("POST", CLAIM, headers=stage.by_wanda)
    stage.lines()
    stage.send("GET", f"/v1/joblib/tasks/{task_id}", headers=bearer("alice"))
    assert "worker_id" not in stage.line()


def test_the_id_that_the_client_sent_is_logged_and_answered(stage: Stage) -> None:
    headers = {"x-request-id": "abc-1"}
    answer = stage.send("GET", "/v1/me", headers=headers)
    assert stage.line()["request_id"] == answer.json()["instance"] == "abc-1"


def test_an_id_made_here_is_the_same_in_the_log_and_in_the_problem(stage: Stage) -> None:
    answer = stage.send("GET", "/v1/me")
    line = stage.line()
    assert line["request_id"] == answer.json()["instance"]
    assert line["problem"] == "unauthorized"
    assert "sub" not in line


def test_an_unknown_address_is_logged_without_it(stage: Stage) -> None:
    stage.send("GET", "/secret-address?token=secret-query")
    assert "secret" not in (text := stage.text())
    assert json.loads(text)["route"] == "(none)"


def test_a_method_that_nobody_knows_is_not_repeated(stage: Stage) -> None:
    stage.send("SECRET", "/v1/me")
    assert "SECRET" not in (text := stage.text())
    assert json.loads(text)["method"] == "(other)"


def test_a_client_that_has_gone_is_logged_as_such(stage: Stage) -> None:
    async def gone() -> dict[str, Any]:
        return {"type": "http.disconnect"}

    async def send(_message: object) -> None:
        pytest.fail("nobody is there to be answered")

    scope = {
        "type": "http",
        "method": "POST",
        "path": CLAIM,
        "query_string": b"",
        "headers": [(name.encode(), value.encode()) for name, value in stage.by_wanda.items()],
    }
    stage._runner.run(stage.app(scope, gone, send))
    assert stage.line()["status"] == 499


def test_a_request_that_the_server_takes_away_at_its_end_is_logged_and_counted(
    stage: Stage,
) -> None:
    async def never() -> dict[str, Any]:
        await asyncio.Event().wait()
        return {}

    async def send(_message: object) -> None:
        pytest.fail("the server answers by itself")

    headers = [(name.encode(), value.encode()) for name, value in stage.by_wanda.items()]
    scope = {
        "type": "http",
        "method": "POST",
        "path": CLAIM,
        "query_string": b"",
        "headers": headers,
    }

    async def cut() -> None:
        task = asyncio.ensure_future(stage.app(scope, never, send))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    stage._runner.run(cut())
    assert stage.line()["status"] == 499
    assert stage.app.state.door.traffic.requests["POST", CLAIM, 499] == 1


def test_of_many_tasks_the_first_are_named_and_all_are_counted(stage: Stage) -> None:
    body = {"tasks": [{"job": JOB} for _ in range(30)]}
    answer = stage.send("POST", "/v1/joblib/rooms/r1/tasks", headers=stage.by_wanda, json=body)
    assert answer.status_code == 202, answer.text
    line = stage.line()
    assert line["tasks"] == 30
    assert line["task_ids"] == [each["id"] for each in answer.json()["items"]][:20]


def test_as_text_no_line_is_written_for_a_request(
    settings: JobLibSettings, written: io.StringIO
) -> None:
    """The server has an access log of its own."""
    with asyncio.Runner() as runner:
        plain = settings.model_copy(update={"jwt_secret": SecretStr(SECRET)})
        stage = Stage(plain, runner, written)
        stage.submit()
        assert stage.text() == ""
        stage.app.state.door.close()


SECRETS = st.text(
    st.characters(codec="utf-8", exclude_categories=("Cs", "Cc")), min_size=6, max_size=40
).map(lambda text: f"s3cr3t{text}")


@hypothesis_settings(
    max_examples=60,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(secret=SECRETS, where=st.integers(0, 9))
def test_nothing_that_a_client_sends_can_bring_a_secret_into_the_log(
    stage: Stage, secret: str, where: int
) -> None:
    """No token, query, payload, result, error or message, whether the request is taken or not."""
    in_header = secret.encode().decode("latin-1")
    in_path = quote(secret, safe="")
    requests: tuple[tuple[str, str, dict[str, Any]], ...] = (
        ("POST", TASKS, {"json": {"payload": {"angle": secret, secret: 1}}}),
        ("POST", TASKS, {"json": {secret: secret}}),
        ("POST", TASKS, {"content": secret.encode()}),
        ("GET", f"/v1/joblib/rooms/r1/tasks?job={in_path}&{in_path}=1", {}),
        ("GET", f"/v1/joblib/tasks/{in_path}", {}),
        ("PATCH", f"/v1/joblib/workers/{in_path}", {}),
        ("GET", f"/v1/joblib/rooms/{in_path}/jobs/{in_path}", {}),
        ("GET", "/v1/me", {"headers": {"authorization": f"Bearer {in_header}"}}),
        ("POST", TASKS, {"headers": {"idempotency-key": in_header, "cookie": in_header}}),
        ("POST", CLAIM, {"json": {"worker_id": secret, "request_id": secret}}),
    )
    method, path, more = requests[where]
    headers = {**stage.by_wanda, **more.pop("headers", {})}
    raw = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
    stage.send(method, path, headers=raw, **more)
    text = stage.text()
    assert [line["event"] for line in map(json.loads, text.splitlines())] == ["http.request"]
    assert "s3cr3t" not in text
    assert stage.by_wanda["authorization"].removeprefix("Bearer ") not in text


def test_what_a_worker_reports_is_not_in_the_log(stage: Stage) -> None:
    for body in (
        {"progress": 0.5, "message": "s3cr3t"},
        {"status": "completed", "result": {"s3cr3t": "s3cr3t"}},
        {"status": "failed", "error": "s3cr3t"},
    ):
        task_id = stage.submit(json={"payload": {"s3cr3t": "s3cr3t"}})
        stage.send("POST", CLAIM, headers=stage.by_wanda, json={"start": True})
        path = f"/v1/joblib/tasks/{task_id}"
        assert stage.send("PATCH", path, headers=stage.by_wanda, json=body).status_code == 200
        stage.send("GET", path, headers=stage.by_wanda)
        stage.send("GET", f"{path}/result", headers=stage.by_wanda)
    assert "s3cr3t" not in stage.text()


def test_each_field_is_on_the_page() -> None:
    page = (Path(__file__).parents[2] / "joblib/docs/observe.md").read_text()
    more = {"sub", "worker_id", "task_ids", "tasks", "waited_seconds", "problem"}
    assert [name for name in sorted(ALWAYS | more) if f"`{name}`" not in page] == []
