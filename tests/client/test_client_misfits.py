"""A payload of another version of the schema is handed back; rules, *Jobs*, ``replace``."""

from __future__ import annotations

import pytest
from pydantic import create_model, field_validator

from jobroom.client import misfits
from jobroom.client.extension import Extension

NAME = "r1:modifiers:Rotate"


class Rotate(Extension):
    angle: float

    def run(self, vis, **kwargs):
        return self.angle


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch):
    monkeypatch.setattr(misfits, "FIRST_PAUSE_SECONDS", 0.001)


@pytest.fixture
def stream(vis):
    vis.jobs.register(Rotate, room="r1")
    return vis.jobs.listen(0.05)


def test_it_is_handed_back_before_it_starts(server, vis, stream, caplog):
    task = server.add_task(NAME, {"axis": "z"}, schema_version=2)
    next(stream).run(vis)
    assert task["status"] == "pending"
    assert [one["status"] for one in task["reports"]] == ["pending"]
    (line,) = (one.getMessage() for one in caplog.records)
    assert line.startswith(f"task.handed_back task={task['id']} job={NAME} reason='It is of ver")


def test_a_worker_that_it_fits_runs_it(server, vis, connect, stream):
    new = connect()
    axis = create_model("Rotate", __base__=Extension, axis=(str, ...))
    axis.run = lambda self, vis, **kwargs: self.axis
    new.register(axis, room="r1", replace=True)
    task = server.add_task(NAME, {"axis": "z"}, schema_version=2)
    next(stream).run(vis)
    next(new.listen(0.05)).run()
    assert (task["status"], task["result"]) == ("completed", "z")


def test_it_fails_when_nobody_took_it(server, vis, stream, caplog):
    task = server.add_task(NAME, {"axis": "z"}, schema_version=2)
    for claimed in stream:
        claimed.run(vis)
        if task["status"] == "failed":
            break
    statuses = [one["status"] for one in task["reports"]]
    assert statuses == ["pending"] * misfits.MOST_HAND_BACKS + ["failed"]
    assert task["reports"][-1]["final"] is True
    assert "version 2, served here is 1" in task["error"]
    assert "angle" in task["error"]
    logged = [one.getMessage().split()[0] for one in caplog.records]
    assert logged == ["task.handed_back", "task.failed"]


def test_another_version_that_fits_is_run(server, vis, stream):
    task = server.add_task(NAME, {"angle": 2}, schema_version=2)
    next(stream).run(vis)
    assert (task["status"], task["result"]) == ("completed", 2.0)


@pytest.mark.parametrize("version", [1, None])
def test_a_misfit_of_the_same_or_an_unknown_version_fails_at_once(server, vis, stream, version):
    task = server.add_task(NAME, {"axis": "z"}, schema_version=version)
    next(stream).run(vis)
    assert task["status"] == "failed"


def test_a_validator_that_breaks_fails_the_task_alone(server, vis):
    class Broken(Extension):
        angle: float = 0.0

        @field_validator("angle")
        @classmethod
        def look(cls, value):
            raise LookupError("no table")

    vis.jobs.register(Broken, room="r1")
    task = server.add_task("r1:modifiers:Broken", {"angle": 1}, schema_version=2)
    next(vis.jobs.listen(0.05)).run(vis)
    assert task["error"].startswith("LookupError: no table")


def test_a_hand_back_that_is_refused_is_no_exception(server, vis, stream, caplog):
    task = server.add_task(NAME, {"axis": "z"}, schema_version=2)
    claimed = next(stream)
    task["attempt"] = 7
    claimed.run(vis)
    assert "report.refused" in caplog.text
    assert claimed.cancelled


def test_the_pauses_grow_to_some_seconds(monkeypatch):
    slept = []
    monkeypatch.undo()
    monkeypatch.setattr(misfits.time, "sleep", slept.append)
    for times in range(1, misfits.MOST_HAND_BACKS + 1):
        misfits.pause(times)
    assert slept == [0.5, 1.0, 2.0, 4.0, 8.0, 10.0, 10.0, 10.0]
