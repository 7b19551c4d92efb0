"""An answer of another shape than the contract's is told as such, whatever the verb."""

from __future__ import annotations

import json

import httpx
import pytest
from verbs_room import JOB, NOBODY

from jobroom.cli import exits

VERBS = [
    f"submit {JOB} angle=1",
    f"run {JOB} angle=1",
    f"watch {NOBODY}",
    "watch r1",
    f"wait {NOBODY}",
    "list r1",
    f"show {NOBODY}",
    f"show {NOBODY} --result",
    f"log {NOBODY}",
    f"why {NOBODY}",
    f"cancel {NOBODY}",
    f"retry {NOBODY}",
    f"retry {NOBODY} --dry-run",
    "jobs r1",
    f"jobs {JOB}",
    "workers",
    "workers r1",
    "rooms",
    "stats r1",
    "schedule list r1",
    "schedule show r1 nightly",
    "schedule pause r1 nightly",
    f"schedule put nightly {JOB} --every 60",
]
ALL = [
    "id",
    "status",
    "name",
    "full_name",
    "schema",
    "reason",
    "text",
    "next_offset",
    "ended",
    "attempt",
    "tasks",
    "jobs",
    "job",
    "items",
    "total",
    "payload",
    "created_at",
    "job_name",
    "room_id",
    "alive_workers",
    "created_by_id",
    "upcoming",
    "paused",
]
SHAPES = {
    "one other member": {"x": 1},
    "an empty list of nothing": {"items": [{}], "total": 1, "next_cursor": None},
    "items that are a text": {"items": "none", "total": 0},
    "numbers": dict.fromkeys(ALL, 1),
    "texts": dict.fromkeys(ALL, "x"),
    "nulls": dict.fromkeys(ALL),
    "lists": {name: [1] for name in ALL},
    "objects": {name: {} for name in ALL},
    "lone surrogates": dict.fromkeys(ALL, "\ud800"),
    "figures that are none": dict.fromkeys(ALL, float("nan")),
    "an unknown status": {**dict.fromkeys(ALL, "x"), "created_at": "2026-01-01T00:00:00Z"},
}


@pytest.fixture
def answered(typed, monkeypatch):
    """A function that types a verb to a server that answers all with this document."""

    def run(words, document):
        def answer(self, method, url, **_):
            return httpx.Response(
                200,
                text=json.dumps(document),
                headers={"content-type": "application/json"},
                request=httpx.Request(method, url),
            )

        monkeypatch.setattr(httpx.Client, "request", answer)
        return typed(*words.split())

    return run


@pytest.mark.parametrize("words", VERBS)
@pytest.mark.parametrize("shape", SHAPES)
def test_an_answer_of_another_shape_is_not_the_job_queue(answered, monkeypatch, words, shape):
    monkeypatch.setattr("jobroom.cli.server.BRIEF_SECONDS", 0.0)
    monkeypatch.setattr("jobroom.cli.server.LONG_SECONDS", 0.0)
    code, out, err = answered(words, SHAPES[shape])
    assert (code, out) == (exits.Code.AWAY, "")
    # One that looks like somebody else's page is asked once more, which is told before.
    *tries, end = err.splitlines()
    assert all(one.startswith("jobroom: the server ") for one in tries), err
    assert end.startswith("jobroom: ")
    assert "check the server's address" in end


MENDED = {
    "type": 5,
    "properties": {"a": {"enum": 1, "anyOf": 2, "description": [3]}, "b": {"allOf": True}, "c": 4},
    "required": [["a"]],
    "oneOf": "none",
    "$defs": None,
}


@pytest.mark.parametrize("schema", [MENDED, {"required": 7}, [1], 5, "x", None])
def test_what_is_no_schema_allows_anything(answered, schema):
    """Whoever registers a job through another door may write what he likes."""
    job = {"name": "Rotate", "full_name": JOB, "alive_workers": 0, "schema": schema}
    code, out, err = answered(f"jobs {JOB}", job)
    assert (code, err) == (0, "")
    assert out.startswith(JOB)


@pytest.mark.parametrize("typed_field", ["a=1", "c=x", "other=[1]"])
def test_a_payload_for_what_is_no_schema_is_sent_as_it_was_typed(answered, typed_field):
    job = {"name": "Rotate", "full_name": JOB, "alive_workers": 0, "schema": MENDED}
    code, _, err = answered(f"submit {JOB} --unchecked {typed_field}", job)
    # The same document comes for the task as well.
    assert code == exits.Code.AWAY
    assert "it has no 'id'" in err


def test_a_dry_run_says_how_many_more_it_may_not_name(answered):
    code, out, err = answered(f"retry {NOBODY} --dry-run", {"tasks": [NOBODY], "hidden": 2})
    assert (code, out) == (0, f"{NOBODY}\n")
    assert err == "jobroom: and 2 more, in rooms that this token does not see\n"
