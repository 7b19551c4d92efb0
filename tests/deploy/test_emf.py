"""Metrics for CloudWatch: JSON lines by the embedded metric format, each count told once."""

from __future__ import annotations

import asyncio
import io
import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from desk import Desk
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from pydantic import SecretStr

from jobroom import tokens
from jobroom.aws import emf
from jobroom.bootstrap import create_app
from jobroom.domain.records import Caller, SweepReport
from jobroom.http.door import Door
from jobroom.http.traffic import Traffic
from jobroom.service import gauging
from jobroom.service.counting import Counts
from jobroom.service.gauging import Backlog, Gauges
from jobroom.service.queue import JobQueue
from jobroom.service.use_case import reads
from jobroom.settings import JobLibSettings

SECRET = "a secret of the tests, long enough"
PAGE = Path(__file__).parents[2] / "joblib/docs/observe.md"
ALARMS = {"Sweeps", "OldestPendingSeconds", "Pending", "Delayed", "Blocked", "Held"}
"""What alarms of the template go by, told by each sweep, were it 0."""

Line = dict[str, Any]


class Printed:
    """A reporter, and what it has printed since last asked."""

    def __init__(self) -> None:
        self.stream = io.StringIO()
        self.reporter = emf.Reporter("jobroom/test", self.stream)

    def lines(self) -> list[Line]:
        text = self.stream.getvalue()
        self.stream.seek(0)
        self.stream.truncate()
        return [checked(json.loads(line)) for line in text.splitlines()]

    def values(self) -> Line:
        """The metrics without dimensions, of the one line that has them."""
        [found] = [values(line) for line in self.lines() if not dimensions(line)]
        return found


def checked(line: Line) -> Line:
    """A line, if it is by the format's specification."""
    assert isinstance(line["_aws"]["Timestamp"], int)
    [directive] = line["_aws"]["CloudWatchMetrics"]
    assert directive.keys() == {"Namespace", "Dimensions", "Metrics"}
    assert directive["Namespace"] == "jobroom/test"
    assert 1 <= len(directive["Metrics"]) <= 100
    [names] = directive["Dimensions"]
    assert all(isinstance(line[name], str) and line[name] for name in names)
    for metric in directive["Metrics"]:
        assert metric["Unit"] in {"Count", "Seconds"}
        assert isinstance(line[metric["Name"]], (int, float))
    told = {"_aws", *names, *(metric["Name"] for metric in directive["Metrics"])}
    assert line.keys() == told
    return line


def dimensions(line: Line) -> dict[str, str]:
    [names] = line["_aws"]["CloudWatchMetrics"][0]["Dimensions"]
    return {name: line[name] for name in names}


def values(line: Line) -> Line:
    metrics = line["_aws"]["CloudWatchMetrics"][0]["Metrics"]
    return {metric["Name"]: line[metric["Name"]] for metric in metrics}


@pytest.fixture
def printed() -> Printed:
    return Printed()


class Stage:
    """An application whose requests are invocations."""

    def __init__(self, settings: JobLibSettings, runner: asyncio.Runner) -> None:
        app = create_app(settings.model_copy(update={"jwt_secret": SecretStr(SECRET)}))
        self.door: Door = app.state.door
        self._runner = runner
        token = tokens.issue_token(SECRET, sub="wanda")
        self._http = httpx.AsyncClient(
            transport=httpx.ASGITransport(app),
            base_url="http://jobroom.test",
            headers={"authorization": f"Bearer {token}"},
            trust_env=False,
        )

    def send(self, method: str, path: str, **more: Any) -> httpx.Response:
        return self._runner.run(self._http.request(method, path, **more))


@pytest.fixture
def stage(settings: JobLibSettings) -> Iterator[Stage]:
    with asyncio.Runner() as runner:
        stage = Stage(settings, runner)
        yield stage
        stage.door.close()


def test_each_invocation_tells_what_it_did_and_no_more(stage: Stage, printed: Printed) -> None:
    job = {"category": "modifiers", "name": "Rotate"}
    stage.send("PUT", "/v1/joblib/rooms/r1/jobs", json=job)
    printed.reporter.flush(stage.door)
    assert printed.values() == {"Requests": 1}
    task = stage.send("POST", "/v1/joblib/rooms/r1/tasks/r1:modifiers:Rotate").json()
    printed.reporter.flush(stage.door)
    assert printed.values() == {"Requests": 1, "Submitted": 1}
    stage.send("POST", "/v1/joblib/tasks/claim", json={"start": True})
    stage.send("POST", "/v1/joblib/tasks/claim", json={"start": True})
    printed.reporter.flush(stage.door)
    found = printed.values()
    assert 0 <= found.pop("QueueSeconds") < 60
    assert found == {"Requests": 2, "Claimed": 1, "EmptyClaims": 1}
    stage.send("PATCH", f"/v1/joblib/tasks/{task['id']}", json={"status": "completed"})
    stage.send("GET", "/v1/joblib/tasks/none")
    printed.reporter.flush(stage.door)
    assert printed.values() == {"Requests": 2, "Completed": 1, "ClientErrors": 1}


def test_an_invocation_that_did_nothing_prints_nothing(stage: Stage, printed: Printed) -> None:
    printed.reporter.flush(stage.door)
    assert printed.lines() == []
    assert stage.door._queue is None, "nothing is opened to be counted"


def test_a_fault_of_ours_is_a_server_error(stage: Stage, printed: Printed) -> None:
    """An alarm goes by it: the function itself does not fail."""
    stage.door.authenticate = None  # type: ignore[method-assign,assignment]  # whatever breaks
    assert stage.send("GET", "/v1/me").status_code == 500
    printed.reporter.flush(stage.door)
    assert printed.values() == {"Requests": 1, "ServerErrors": 1}


def test_a_long_poll_tells_how_long_it_waited(stage: Stage, printed: Printed) -> None:
    job = {"category": "modifiers", "name": "Rotate"}
    stage.send("PUT", "/v1/joblib/rooms/r1/jobs", json=job)
    stage.send("POST", "/v1/joblib/tasks/claim", headers={"prefer": "wait=1"})
    printed.reporter.flush(stage.door)
    assert 0.9 <= printed.values()["WaitSeconds"] < 60


def test_a_sweep_tells_what_alarms_go_by_even_if_it_is_nothing(
    queue: JobQueue, printed: Printed
) -> None:
    printed.reporter.flush_sweep(queue, queue.sweep())
    assert printed.values() == {**dict.fromkeys(ALARMS, 0), "Sweeps": 1}


def test_a_sweep_tells_what_it_did_and_what_waits_where(
    queue: JobQueue, printed: Printed, alice: Caller
) -> None:
    desk = Desk(queue)
    desk.submit_many(alice, desk.job(alice), 3)
    desk.claim_one(alice, start=True)
    queue.sweep()
    printed.reporter.flush_sweep(queue, SweepReport())
    printed.lines()
    desk.wait(61)
    printed.reporter.flush_sweep(queue, queue.sweep())
    total, one = printed.lines()
    assert dimensions(one) == {"Room": "r1", "Job": "r1:modifiers:Rotate"}
    assert values(one)["Pending"] == 2
    assert values(one)["OldestPendingSeconds"] >= 61
    found = values(total)
    assert found["OldestPendingSeconds"] >= 61
    done = {name: found[name] for name in ("LostWorkers", "SweptFailed", "Failed", "Pending")}
    assert done == {"LostWorkers": 1, "SweptFailed": 1, "Failed": 1, "Pending": 2}


def test_of_many_backlogs_the_oldest_are_told(
    queue: JobQueue, printed: Printed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each pair of dimensions is a metric that is paid for."""
    backlogs = [Backlog(f"r{n}", "r:c:n", 1, 0, float(n)) for n in range(40)]
    backlogs.append(Backlog("later", "r:c:n", 0, 9, None))
    told = reads(lambda _tx: Gauges(backlogs, 0, 40, 9, 0, 0, 39.0))
    monkeypatch.setattr(gauging, "read_gauges", told)
    printed.reporter.flush_sweep(queue, SweepReport())
    rooms = [line["Room"] for line in printed.lines() if dimensions(line)]
    assert rooms == [f"r{n}" for n in range(39, 39 - emf.MOST_BACKLOGS, -1)]


@given(room=st.text(), job=st.text(max_size=2000))
@hypothesis_settings(max_examples=150, derandomize=True)
def test_a_name_of_any_text_is_a_dimension_that_cloudwatch_takes(room: str, job: str) -> None:
    printed = Printed()
    printed.reporter._print({"Pending": 1}, {"Room": room, "Job": job})
    assert len(printed.stream.getvalue().splitlines()) == 1
    [line] = printed.lines()
    for told in (line["Room"], line["Job"]):
        assert told.isascii()
        assert told.isprintable()
        assert 1 <= len(told) <= 1024
        assert told.strip()


def test_a_fault_in_telling_is_logged_and_no_invocation_fails_of_it(
    queue: JobQueue, printed: Printed, caplog: pytest.LogCaptureFixture
) -> None:
    printed.stream.close()
    with caplog.at_level(logging.ERROR, "jobroom"):
        printed.reporter.flush_sweep(queue, SweepReport())
    assert [record.getMessage() for record in caplog.records] == ["metrics.failed"]


def test_it_prints_to_stdout(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    stage.send("GET", "/v1/me")
    emf.Reporter("jobroom/test").flush(stage.door)
    shown = capsys.readouterr()
    assert values(checked(json.loads(shown.out))) == {"Requests": 1}
    assert shown.err == ""


def test_each_metric_is_on_the_page() -> None:
    text = PAGE.read_text()
    names = {*emf._of_tasks(Counts()), *emf._of_requests(Traffic()), *ALARMS, *emf._SWEPT.values()}
    written = {name for name in names if f"`{name}`" in text}
    assert {name for name in names if not name.endswith(emf._COUNT)} == written
