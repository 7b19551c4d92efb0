"""``jobroom submit``: what is typed becomes a task, or is told field by field."""

from __future__ import annotations

import io
import json
import re

import live_server
import pytest
from verbs_room import JOB

from jobroom.cli import exits


def test_submit_prints_the_id_of_a_task_with_the_payload_that_was_typed(room, good):
    typed = ["angle=90", "name=x", 'tags=["a"]', "flag:=true", "cell.a=1"]
    task_id = good("submit", JOB, *typed).strip()
    assert room.ended(task_id)["payload"] == {
        "angle": 90,
        "name": "x",
        "tags": ["a"],
        "flag": True,
        "cell": {"a": 1},
    }


def test_submit_passes_on_how_a_task_is_to_be_run(room, good):
    first = room.unserved("Later")
    before = room.submit(first)
    options = ["--priority", "3", "--run-at", "2099-01-01T00:00:00Z", "--max-attempts", "2"]
    options += ["--timeout-seconds", "9", "--expires-at", "2099-01-02T00:00:00Z"]
    task = json.loads(good("submit", first, "--json", "--depends-on", before, *options))
    assert (task["priority"], task["max_attempts"], task["timeout_seconds"]) == (3, 2, 9)
    assert task["run_at"] == "2099-01-01T00:00:00.000000Z"
    assert task["depends_on"] == [before]
    assert task["status"] == "blocked"


def test_submitting_twice_with_one_key_makes_one_task(room, good):
    job = room.unserved("Keyed")
    ids = {good("submit", job, "--key", "one").strip() for _ in range(2)}
    assert len(ids) == 1


def test_a_global_job_is_submitted_in_the_room_that_is_named(room, good):
    body = {"category": "modifiers", "name": "Anywhere"}
    with room.server.client() as admin:
        assert admin.put(f"{live_server.BASE}/rooms/@global/jobs", json=body).is_success
    task = json.loads(good("submit", "@global:modifiers:Anywhere", "--room", "r1", "--json"))
    assert task["room_id"] == "r1"


def test_a_mistyped_and_a_missing_field_are_told_before_anything_is_sent(room, typed):
    code, out, err = typed("submit", JOB, "anlge=90")
    assert (code, out) == (exits.Code.USAGE, "")
    what = "jobroom: Nothing was submitted: 2 fields are not as the job's schema wants."
    assert err.splitlines() == [
        f"{what} Its fields: jobroom jobs {JOB}",
        "  angle: is missing (Degrees.)",
        "  anlge: is no field of this job; did you mean angle?",
    ]


def test_what_only_the_server_can_judge_comes_back_field_by_field(room, typed):
    schema = {"properties": {"n": {"type": "array", "items": {"multipleOf": 3}}}}
    job = room.unserved("Threes", schema=schema)
    code, _, err = typed("submit", job, "n=[3, 4]")
    assert code == exits.Code.USAGE
    assert err.splitlines()[1].startswith("  n[1]: ")
    assert "multiple of 3" in err


def test_unchecked_leaves_the_judgement_to_the_server(room, typed):
    code, _, err = typed("submit", JOB, "--unchecked", "name=5")
    assert code == exits.Code.USAGE
    assert "angle" in err
    assert re.search(r"^  .*required", err, re.MULTILINE)


def test_a_job_without_validation_takes_any_field(room, good):
    schema = {"required": ["angle"], "properties": {"angle": {"type": "number"}}}
    job = room.unserved("Free", schema=schema, validate=False)
    task = json.loads(good("submit", job, "other=1", "--json"))
    assert task["payload"] == {"other": 1}


def test_an_unknown_job_is_told_with_the_one_that_was_meant(typed):
    code, _, err = typed("submit", "r1:modifiers:Rotat", "angle=1")
    assert code == exits.Code.NOT_FOUND
    assert err.strip().endswith(f"did you mean {JOB}?")


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b'{"angle": NaN}', "stdin: angle: NaN is not JSON; send null or a number."),
        (b'{"cell": {"a": 1, "a": 2}}', "stdin: cell: The name 'a' appears twice in one object."),
        (b"", "stdin: The body is empty; send a JSON object."),
    ],
)
def test_a_fault_of_stdin_is_told_once_with_its_place(typed, monkeypatch, body, said):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(body)))
    code, out, err = typed("submit", JOB, "-")
    assert (code, out) == (exits.Code.USAGE, "")
    assert err.splitlines() == [f"jobroom: {said}"]


def test_the_one_fault_that_the_server_finds_is_told_once(typed):
    code, _, err = typed("submit", JOB, "angle=1", "--run-at", "tomorrow")
    assert code == exits.Code.USAGE
    (line,) = err.splitlines()
    assert line.startswith("jobroom: The body does not fit the contract: /run_at must be an RFC")


def test_bad_json_is_told_with_its_place(typed):
    code, _, err = typed("submit", JOB, '{"angle": 1,}')
    assert code == exits.Code.USAGE
    assert "the payload: " in err
    assert "line 1" in err
