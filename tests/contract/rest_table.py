"""The REST contract as data: every route with a good request, and one for each refusal it lists."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

UUID = r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
HERE = {
    "room_id": "r1",
    "full_name": "r1:modifiers:Rotate",
    "task_id": "{pending}",
    "worker_id": "wanda",
    "slug": "task-not-found",
    "schedule_name": "nightly",
}
REGISTER = {
    "category": "modifiers",
    "name": "Rotate",
    "schema": {
        "type": "object",
        "properties": {"angle": {"type": "number"}},
        "required": ["angle"],
    },
}
SUBMIT = {"payload": {"angle": 90}}
SCHEDULE = {"name": "nightly", "job": "r1:modifiers:Rotate", "cron": "0 3 * * *", **SUBMIT}
AN_ID = "01890a5d-ac96-774b-bcce-b302099a8057"


def _bulk(**more: Any) -> dict[str, Any]:
    return {"tasks": [{"job": "r1:modifiers:Rotate", **SUBMIT, **more}]}


@dataclass(frozen=True)
class Row:
    """A request of the table, and the answer that the contract promises.

    ``{pending}`` and its like, as a path's part or a member of a body, stand for the id of the
    stage's task of that status; ``answer``
    maps names of headers to patterns; None means that the header must be absent.
    """

    operation: str
    path: dict[str, str] = field(default_factory=dict)
    body: Any = None
    who: str = "alice"
    headers: dict[str, str] = field(default_factory=dict)
    query: str = ""
    status: int = 200
    slug: str | None = None
    answer: Mapping[str, str | None] = field(default_factory=dict)
    setting: dict[str, Any] = field(default_factory=dict)
    missing: str = ""  # a module that shall not be installed

    @property
    def id(self) -> str:
        """How pytest names the row."""
        return f"{self.operation}-{self.slug or self.status}"


# Operation: method and path as contract-rest.md writes them, below /v1/joblib where not absolute.
CONTRACT = {
    "create_worker": "POST /workers",
    "list_workers": "GET /workers",
    "list_room_workers": "GET /rooms/{room}/workers",
    "heartbeat": "PATCH /workers/{id}",
    "delete_worker": "DELETE /workers/{id}",
    "register_job": "PUT /rooms/{room}/jobs",
    "list_jobs": "GET /rooms/{room}/jobs",
    "get_job": "GET /rooms/{room}/jobs/{full_name}",
    "list_job_tasks": "GET /rooms/{room}/jobs/{full_name}/tasks",
    "submit_task": "POST /rooms/{room}/tasks/{full_name}",
    "submit_tasks": "POST /rooms/{room}/tasks",
    "claim_tasks": "POST /tasks/claim",
    "get_task": "GET /tasks/{id}",
    "update_task": "PATCH /tasks/{id}",
    "get_result": "GET /tasks/{id}/result",
    "get_log": "GET /tasks/{id}/log",
    "get_graph": "GET /tasks/{id}/graph",
    "explain_task": "GET /tasks/{id}/why",
    "list_rooms": "GET /rooms",
    "show_stats": "GET /rooms/{room}/stats",
    "retry_task": "POST /tasks/{id}/retry",
    "list_tasks": "GET /rooms/{room}/tasks",
    "put_schedule": "PUT /rooms/{room}/schedules",
    "list_schedules": "GET /rooms/{room}/schedules",
    "get_schedule": "GET /rooms/{room}/schedules/{name}",
    "delete_schedule": "DELETE /rooms/{room}/schedules/{name}",
    "sweep": "POST /sweep",
    "metrics": "GET /metrics",
    "me": "GET /v1/me",
    "explain_problem": "GET /v1/problems/{slug}",
    "healthz": "GET /healthz",
    "readyz": "GET /readyz",
}

JSON = {"content-type": "application/json"}
WHOLE = {**JSON, "accept-ranges": "bytes", "etag": r'"\d+"'}

GOOD = (
    Row("create_worker", body={"name": "node-7"}, status=201, answer=JSON),
    Row("list_workers", who="wanda", answer=JSON),
    Row("list_room_workers", answer=JSON),
    Row("heartbeat", who="wanda", answer=JSON),
    Row("delete_worker", who="wanda", status=204, answer={"content-type": None}),
    Row("register_job", body={**REGISTER, "name": "Turn"}, status=201, answer=JSON),
    Row("register_job", body=REGISTER, answer=JSON),
    Row("list_jobs", answer=JSON),
    Row("get_job", answer=JSON),
    Row("list_job_tasks", answer=JSON),
    Row(
        "submit_task",
        body=SUBMIT,
        status=202,
        answer={
            **JSON,
            "location": f"/v1/joblib/tasks/{UUID}",
            "retry-after": "1",
            "idempotency-replayed": None,
        },
    ),
    Row(
        "submit_tasks",
        body=_bulk(),
        status=202,
        answer={**JSON, "retry-after": "1", "idempotency-replayed": None, "location": None},
    ),
    Row("claim_tasks", who="wanda", answer={**JSON, "preference-applied": None}),
    Row("get_task", answer={**JSON, "etag": 'W/"1"', "preference-applied": None}),
    Row("get_task", headers={"if-none-match": 'W/"1"'}, status=304, answer={"etag": 'W/"1"'}),
    Row("update_task", {"task_id": "{claimed}"}, {"status": "running"}, "wanda", answer=JSON),
    Row("get_result", {"task_id": "{completed}"}, answer={**WHOLE, "content-range": None}),
    Row(
        "get_result",
        {"task_id": "{completed}"},
        headers={"range": "bytes=1-"},
        status=206,
        answer={**WHOLE, "content-range": "bytes 1-1/2"},
    ),
    Row(
        "get_result",
        {"task_id": "{completed}"},
        headers={"if-none-match": "*"},
        status=304,
        answer={"etag": WHOLE["etag"]},
    ),
    Row("get_log", {"task_id": "{running}"}, answer={**JSON, "preference-applied": None}),
    Row("get_graph", answer=JSON),
    Row("explain_task", answer=JSON),
    Row("list_rooms", answer=JSON),
    Row("show_stats", answer=JSON),
    Row("retry_task", {"task_id": "{failed}"}, answer=JSON),
    Row("list_tasks", answer=JSON),
    Row("put_schedule", body={**SCHEDULE, "name": "weekly"}, status=201, answer=JSON),
    Row("put_schedule", body=SCHEDULE, answer=JSON),
    Row("list_schedules", answer=JSON),
    Row("get_schedule", answer=JSON),
    Row("delete_schedule", status=204, answer={"content-type": None}),
    Row("sweep", who="admin", answer=JSON),
    Row("metrics", who="admin", answer={"content-type": r"text/plain; version=[\d.]+;.*"}),
    Row("me", answer=JSON),
    Row(
        "explain_problem",
        who="nobody",
        headers={"accept": "text/html"},
        answer={"content-type": "text/html.*", "content-security-policy": ".+"},
    ),
    Row("healthz", who="nobody", answer=JSON),
    Row("readyz", who="nobody", answer=JSON),
)

GLOBAL = {"room_id": "@global"}
UNSEEN = {"room_id": "hidden"}
RESERVED = {"room_id": "@internal"}
UNKNOWN_TASK = {"task_id": "01890a5d-ac96-774b-bcce-b302099a8057"}
UNKNOWN_JOB = {"full_name": "r1:modifiers:None"}
UNKNOWN_WORKER = {"worker_id": "nobody"}
NO_ROOM = {"max_waiters": 0}
WAIT = {"prefer": "wait=5"}
SMALL_ANSWERS = {"max_answer_bytes": 64 * 1024}
VAST = "r2:modifiers:Vast"


def _refusal(slug: str, operation: str, path: dict[str, str] | None = None, **more: Any) -> Row:
    return Row(operation, path or {}, slug=slug, **more)


def _of_rooms(operation: str, **more: Any) -> tuple[Row, ...]:
    """What every route below a room answers."""
    return (
        _refusal("not-found", operation, UNSEEN, who="fenced", **more),
        _refusal("invalid-room-id", operation, RESERVED, **more),
    )


REFUSALS = (
    *_of_rooms("submit_task", body=SUBMIT),
    _refusal("forbidden", "submit_task", {**GLOBAL, "full_name": "@global:modifiers:Align"}),
    _refusal("job-not-found", "submit_task", UNKNOWN_JOB),
    _refusal("payload-invalid", "submit_task", body={"payload": {"angle": "wide"}}),
    _refusal(
        "idempotency-key-reused",
        "submit_task",
        body={"payload": {"angle": 1}},
        headers={"idempotency-key": "key of pending"},
    ),
    _refusal("task-exists", "submit_task", body={**SUBMIT, "id": "{pending}"}),
    _refusal("dependency-not-found", "submit_task", body={**SUBMIT, "depends_on": [AN_ID]}),
    _refusal(
        "dependency-cycle", "submit_task", body={**SUBMIT, "id": AN_ID, "depends_on": [AN_ID]}
    ),
    _refusal(
        "invalid-task-transition", "submit_task", body={**SUBMIT, "parent": "{failed}"}, who="wanda"
    ),
    *_of_rooms("submit_tasks", body=_bulk()),
    _refusal("forbidden", "submit_tasks", GLOBAL, body=_bulk(job="@global:modifiers:Align")),
    _refusal("job-not-found", "submit_tasks", body=_bulk(job="r1:modifiers:None")),
    _refusal("payload-invalid", "submit_tasks", body=_bulk(payload={"angle": "wide"})),
    _refusal(
        "idempotency-key-reused",
        "submit_tasks",
        body=_bulk(),
        headers={"idempotency-key": "key of pending"},
    ),
    _refusal("task-exists", "submit_tasks", body=_bulk(id="{pending}")),
    _refusal("dependency-not-found", "submit_tasks", body=_bulk(depends_on=["first"])),
    _refusal("dependency-cycle", "submit_tasks", body=_bulk(key="a", depends_on=["a"])),
    _refusal("invalid-task-transition", "submit_tasks", body=_bulk(parent="{failed}"), who="wanda"),
    _refusal("worker-not-found", "claim_tasks", body=UNKNOWN_WORKER),
    _refusal("forbidden", "claim_tasks", body={"worker_id": "wanda"}),
    _refusal("too-many-requests", "claim_tasks", who="wanda", headers=WAIT, setting=NO_ROOM),
    _refusal("answer-too-large", "claim_tasks", who="bob", setting=SMALL_ANSWERS),
    _refusal("task-not-found", "update_task", UNKNOWN_TASK, body={}),
    _refusal("forbidden", "update_task", {"task_id": "{running}"}, body={"status": "completed"}),
    _refusal("invalid-task-transition", "update_task", body={"status": "completed"}, who="admin"),
    _refusal("task-not-found", "get_task", {"task_id": "not-a-uuid"}),
    _refusal("too-many-requests", "get_task", headers=WAIT, setting=NO_ROOM),
    _refusal("worker-not-found", "heartbeat", UNKNOWN_WORKER),
    _refusal("forbidden", "heartbeat"),
    _refusal("worker-not-found", "delete_worker", UNKNOWN_WORKER),
    _refusal("forbidden", "delete_worker"),
    *_of_rooms("list_room_workers"),
    *_of_rooms("register_job", body=REGISTER),
    _refusal("invalid-category", "register_job", body={**REGISTER, "category": "painting"}),
    _refusal("forbidden", "register_job", GLOBAL, body=REGISTER),
    _refusal("worker-not-found", "register_job", body={**REGISTER, **UNKNOWN_WORKER}),
    _refusal("schema-conflict", "register_job", body={**REGISTER, "schema": {}}),
    *_of_rooms("list_jobs"),
    *_of_rooms("get_job"),
    _refusal("job-not-found", "get_job", {"full_name": "Rotate"}),
    _refusal(
        "answer-too-large",
        "get_job",
        {"room_id": "r2", "full_name": VAST},
        setting=SMALL_ANSWERS,
    ),
    *_of_rooms("list_job_tasks"),
    _refusal("job-not-found", "list_job_tasks", UNKNOWN_JOB),
    _refusal("forbidden", "list_job_tasks", {**GLOBAL, "full_name": "@global:modifiers:Align"}),
    *_of_rooms("list_tasks"),
    _refusal("job-not-found", "list_tasks", query="job=r1:modifiers:None"),
    _refusal("forbidden", "list_tasks", GLOBAL),
    _refusal("task-not-found", "get_result", UNKNOWN_TASK),
    _refusal("not-found", "get_result"),
    _refusal("answer-too-large", "get_result", {"task_id": "{large}"}, setting=SMALL_ANSWERS),
    _refusal(
        "range-not-satisfiable",
        "get_result",
        {"task_id": "{completed}"},
        headers={"range": "bytes=2-"},
    ),
    _refusal("task-not-found", "get_log", UNKNOWN_TASK),
    _refusal("not-found", "get_log", {"task_id": "{running}"}, query="attempt=2"),
    _refusal("too-many-requests", "get_log", headers=WAIT, setting=NO_ROOM),
    _refusal("task-not-found", "get_graph", UNKNOWN_TASK),
    _refusal("task-not-found", "explain_task", UNKNOWN_TASK),
    *_of_rooms("show_stats"),
    _refusal("forbidden", "show_stats", GLOBAL),
    _refusal("task-not-found", "retry_task", UNKNOWN_TASK),
    _refusal("forbidden", "retry_task", {"task_id": "{failed}"}, who="bob"),
    _refusal("invalid-task-transition", "retry_task", {"task_id": "{completed}"}),
    *_of_rooms("put_schedule", body=SCHEDULE),
    _refusal("forbidden", "put_schedule", body=SCHEDULE, who="bob"),
    _refusal("job-not-found", "put_schedule", body={**SCHEDULE, "job": "r1:modifiers:None"}),
    _refusal("payload-invalid", "put_schedule", body={**SCHEDULE, "payload": {"angle": "wide"}}),
    *_of_rooms("list_schedules"),
    _refusal("forbidden", "list_schedules", GLOBAL),
    *_of_rooms("get_schedule"),
    _refusal("forbidden", "get_schedule", GLOBAL),
    *_of_rooms("delete_schedule"),
    _refusal("forbidden", "delete_schedule", who="bob"),
    _refusal("forbidden", "sweep"),
    _refusal("forbidden", "metrics"),
    _refusal("not-found", "metrics", who="admin", missing="prometheus_client.exposition"),
    _refusal("not-found", "explain_problem", {"slug": "bad-luck"}, who="nobody"),
)

# Kinds that no route of today gives: a host may raise them.
RESERVED_SLUGS = {"conflict", "not-acceptable"}
