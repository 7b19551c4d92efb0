"""Records as the JSON of answers (contract, *Tasks*, *Jobs*, *Workers*)."""

from __future__ import annotations

import json
import timeit
from typing import Any

import orjson
import pytest

from jobroom import wire
from jobroom.domain.records import Job, JobView, SweepReport, Task, TaskView, Worker, WorkerView
from jobroom.http import render

NOON = 1_900_000_000_000_000
ELEVEN = {
    "id", "job_name", "room_id", "status", "created_at", "started_at", "completed_at",
    "worker_id", "error", "payload", "queue_position",
}  # fmt: skip
EXTRAS = {
    "created_by_id", "claimed_at", "attempt", "starts", "max_attempts", "priority", "run_at",
    "expires_at", "progress", "message", "result", "depends_on", "waiting_on",
    "lease_expires_at", "schema_version", "timeout_seconds", "key", "failed_by",
}  # fmt: skip


def make_task(**changes: Any) -> Task:
    fresh = Task(
        seq=1, id="01890a5d-ac96-774b-bcce-b302099a8057", job_seq=1, room_id="lab",
        created_by_id="alice", status="pending", ready=1, priority=0, turn=0,
        payload='{"angle":90}', schema_version=1, created_at=NOON, run_at=None, expires_at=None,
        claimed_at=None, started_at=None, completed_at=None, worker_id=None, attempt=0, starts=0,
        idle_claims=0, max_attempts=1, timeout_seconds=None, due_at=None, claim_request_id=None,
        idempotency_key=None, fingerprint=None, progress=None, message=None, error=None,
        result=None, key=None, has_dependencies=0, has_dependents=0, failed_by=None, version=7,
    )  # fmt: skip
    return fresh._replace(**changes)


def make_view(**changes: Any) -> TaskView:
    return TaskView(make_task(**changes), "lab:modifiers:Rotate")


DONE = {
    "status": "completed", "worker_id": "alice", "attempt": 1, "starts": 1,
    "claimed_at": NOON + 1, "started_at": NOON + 2, "completed_at": NOON + 3,
    "run_at": NOON, "expires_at": NOON + 9, "progress": 1.0, "message": "done",
    "result": '{"n": 1.0}', "timeout_seconds": 5.0,
}  # fmt: skip


def make_job(**changes: Any) -> JobView:
    job = Job(
        seq=1, id="01890a5d-ac96-774b-bcce-b302099a8058", room_id="lab", category="modifiers",
        name="Rotate", schema='{"type": "object"}', schema_version=2, version=3, hidden=0,
        description=None, max_attempts=3, on_worker_lost="requeue", claim_order="fair",
        retry_delay_seconds=None, timeout_seconds=60.0, claim_timeout_seconds=None,
        result_ttl_seconds=None, validate=1, created_at=NOON, last_seen=None,
    )  # fmt: skip
    return JobView(job._replace(**changes), ("alice", "bob"), NOON + 1)


def make_worker() -> WorkerView:
    worker = Worker("alice", "alice", "identity", "active", None, NOON, NOON + 1)
    return WorkerView(worker, alive=True, job_count=2, running_tasks=1)


def through_json(document: dict[str, Any]) -> dict[str, Any]:
    return json.loads(render.dump(document))


ID = "01890a5d-ac96-774b-bcce-b302099a8059"
EDGES = [
    [ID, "afterok", "waiting", "first", "lab:modifiers:Rotate", "running"],
    ["x", "afterany", "met", None, None, None],
]


def test_a_blocked_task_shows_what_it_waits_for():
    """Contract, *Tasks*: ``depends_on``, ``waiting_on``."""
    view = make_view(status="blocked")._replace(edges=json.dumps(EDGES))
    document = through_json(render.task_document(view))
    assert document["depends_on"] == [ID, "x"]
    assert document["waiting_on"] == [
        {
            "id": ID,
            "key": "first",
            "job_name": "lab:modifiers:Rotate",
            "status": "running",
            "condition": "afterok",
        }
    ]


@pytest.mark.parametrize("status", ["pending", "failed", "cancelled"])
def test_a_task_that_is_not_blocked_waits_for_nothing(status):
    ended = NOON if status != "pending" else None
    view = make_view(status=status, completed_at=ended)._replace(edges=json.dumps(EDGES))
    document = through_json(render.task_document(view))
    assert (document["depends_on"], document["waiting_on"]) == ([ID, "x"], [])


@pytest.mark.parametrize(
    "edges", ["", "{", "5", "[5]", "[[]]", '[["x"]]', '[{"a":1}]', b"\xff", 7, "null", "[null]"]
)
def test_damaged_edges_are_left_out(edges):
    document = through_json(render.task_document(make_view()._replace(edges=edges)))
    assert (document["depends_on"], document["waiting_on"]) == ([], [])


@pytest.mark.parametrize("changes", [{}, DONE])
def test_a_task_has_exactly_the_members_of_the_contract(changes):
    document = through_json(render.task_document(make_view(**changes)))
    assert set(document) == ELEVEN | EXTRAS
    assert (
        wire.validate(wire.TaskBody, document).model_dump(mode="json", exclude_unset=True).keys()
        == document.keys()
    )


def test_the_model_of_a_task_has_no_member_that_is_never_written():
    written = ELEVEN | EXTRAS | {"payload_bytes", "result_bytes", "dependency_count"}
    assert set(wire.TaskBody.model_fields) == written


def test_times_are_rfc_3339_in_utc_with_microseconds():
    document = through_json(render.task_document(make_view(**DONE)))
    assert document["created_at"] == "2030-03-17T17:46:40.000000Z"
    assert document["completed_at"] == "2030-03-17T17:46:40.000003Z"


@pytest.mark.parametrize(
    "text", ['{"n": 1.0}', '{"n":123456789012345678901234567890}', '{"s":"\\u0000 \\ud83d"}']
)
def test_payload_and_result_go_out_byte_for_byte(text):
    """Contract, *Errors*: numbers come back exactly as sent."""
    body = render.dump(render.task_document(make_view(**DONE | {"payload": text, "result": text})))
    assert b'"payload":' + text.encode() in body
    assert b'"result":' + text.encode() in body


def test_what_was_computed_beside_the_row_is_shown():
    view = TaskView(make_task(), "lab:modifiers:Rotate", lease_expires_at=NOON, queue_position=4)
    document = through_json(render.task_document(view))
    assert document["queue_position"] == 4
    assert document["lease_expires_at"] == "2030-03-17T17:46:40.000000Z"


def test_in_lists_a_payload_over_4_kib_is_null_and_its_size_is_told():
    """Contract, *Lists*: the store has not read the two, and says how large they are."""
    small = render.task_document(make_view(payload="{}", result="1"), in_list=True)
    assert "payload_bytes" not in small
    assert "result_bytes" not in small
    unread = make_view(payload="", result=None)._replace(payload_bytes=4097, result_bytes=9999)
    large = through_json(render.task_document(unread, in_list=True))
    assert (large["payload"], large["result"]) == (None, None)
    assert (large["payload_bytes"], large["result_bytes"]) == (4097, 9999)
    assert wire.validate(wire.TaskBody, large).payload_bytes == 4097


def test_alone_a_large_payload_is_shown():
    over = '{"a":"' + "a" * 5000 + '"}'
    document = render.task_document(make_view(payload=over))
    assert over.encode() in render.dump(document)


def test_a_claim_shows_its_first_task_and_all_of_them():
    body = through_json(render.claim_document([make_view(), make_view(attempt=2)]))
    assert body["task"] == body["tasks"][0]
    assert len(wire.validate(wire.ClaimBody, body).tasks) == 2


def test_an_empty_claim_is_null_and_an_empty_list():
    assert through_json(render.claim_document([])) == {"task": None, "tasks": []}
    assert wire.validate(wire.ClaimBody, {"task": None, "tasks": []}).task is None


@pytest.mark.parametrize("following", [None, make_view(attempt=2)])
def test_a_report_may_carry_the_next_task(following):
    body = through_json(render.report_document(make_view(**DONE), following))
    report = wire.validate(wire.TaskReport, body)
    assert (report.next_task is None) == (following is None)
    assert report.status == "completed"


def test_the_entity_tag_is_weak_and_is_the_rows_version():
    """Rules, *ETag*."""
    assert render.etag(make_task()) == 'W/"7"'


def test_a_job_shows_schema_policy_and_the_linked_worker():
    body = through_json(render.job_document(make_job(), worker_id="alice"))
    job = wire.validate(wire.JobBody, body)
    assert set(body) == {field.alias or name for name, field in wire.JobBody.model_fields.items()}
    assert (job.full_name, job.worker_id, job.workers) == (
        "lab:modifiers:Rotate", "alice", ["alice", "bob"],
    )  # fmt: skip
    assert (job.job_schema, job.order, job.check_payload) == ({"type": "object"}, "fair", True)


def test_a_schema_goes_out_byte_for_byte():
    body = render.dump(render.job_document(make_job(schema='{"maximum": 1.0}')))
    assert b'"schema":{"maximum": 1.0}' in body


def test_a_job_in_a_list_is_a_summary():
    body = through_json(render.job_summary(make_job()))
    assert set(body) == set(wire.JobSummary.model_fields)
    assert wire.validate(wire.JobSummary, body).alive_workers == 2


def test_a_worker_shows_what_the_contract_names():
    body = through_json(render.worker_document(make_worker()))
    assert set(body) == set(wire.WorkerBody.model_fields)
    assert wire.validate(wire.WorkerBody, body).alive is True


def test_a_heartbeat_names_the_tasks_to_stop():
    body = through_json(render.heartbeat_document("alice", last_heartbeat=NOON, cancel=["x"]))
    assert set(body) == set(wire.HeartbeatBody.model_fields)
    assert wire.validate(wire.HeartbeatBody, body).cancel == ["x"]


@pytest.mark.parametrize(
    ("model", "item"),
    [
        (wire.TaskPage, render.task_document(make_view(), in_list=True)),
        (wire.JobPage, render.job_summary(make_job())),
        (wire.WorkerPage, render.worker_document(make_worker())),
    ],
)
def test_a_page_says_where_it_stands(model, item):
    body = through_json(
        render.page([item], total=10_000, limit=1, offset=0, next_cursor="c", total_capped=True)
    )
    assert set(body) == set(model.model_fields)
    page = wire.validate(model, body)
    assert (page.total, page.total_capped, page.next_cursor) == (10_000, True, "c")


def test_a_sweep_shows_every_count():
    body = through_json(render.sweep_document(SweepReport(lost_workers=2)))
    assert set(body) == set(wire.SweepBody.model_fields)
    assert wire.validate(wire.SweepBody, body).lost_workers == 2


def test_a_task_is_written_without_decoding_its_payload():
    """A payload costs a copy: one of 100 KiB must not cost what reading it would."""
    payload = orjson.dumps({"numbers": list(range(20_000))}).decode()
    view = make_view(payload=payload)
    write = min(timeit.repeat(lambda: render.dump(render.task_document(view)), number=5, repeat=5))
    read = min(timeit.repeat(lambda: json.loads(payload), number=5, repeat=5))
    assert write < read
