"""The OpenAPI links: from a good answer to the requests that it makes possible."""

from __future__ import annotations

from jobroom.http.routespec import Link

_IN_ROOM = {"room_id": "$request.path.room_id"}
_OF_JOB = {**_IN_ROOM, "full_name": "$request.path.full_name"}
_JOB = {"room_id": "$response.body#/room_id", "full_name": "$response.body#/full_name"}
_ID = "$response.body#/id"
_CLAIMED = "$response.body#/task/id"


def _of_task(task_id: str) -> tuple[Link, ...]:
    named = {"task_id": task_id}
    return (
        Link("ShowTask", "get_task", "See how it goes, or wait for its end.", named),
        Link("ReportOnTask", "update_task", "Report on it, as the one who holds it.", named),
        Link("CancelTask", "update_task", "Call it off.", named, {"status": "cancelled"}),
        Link("ShowGraph", "get_graph", "See what it waits for, and what waits for it.", named),
        Link("ReadLog", "get_log", "Read what it has written while it ran.", named),
    )


def _after_the_end(task_id: str) -> tuple[Link, ...]:
    named = {"task_id": task_id}
    return (
        Link("GetResult", "get_result", "Take the result, once it is completed.", named),
        Link("RetryTask", "retry_task", "Run it again, if it failed or was cancelled.", named),
    )


def _next_page(operation_id: str, **parameters: str) -> tuple[Link, ...]:
    cursor = {**parameters, "cursor": "$response.body#/next_cursor"}
    return (Link("NextPage", operation_id, "The part after this one, if there is one.", cursor),)


OF_A_SUBMISSION = _of_task(_ID)
OF_A_CLAIM = (
    Link(
        "StartTask",
        "update_task",
        "Start it, unless the claim did.",
        {"task_id": _CLAIMED},
        {"status": "running"},
    ),
    *_of_task(_CLAIMED),
)
OF_A_REPORT = _after_the_end(_ID)
OF_A_TASK = (*_of_task(_ID)[1:], *_after_the_end(_ID))
OF_A_RETRY = _of_task(_ID)
OF_A_GRAPH = _next_page("get_graph", task_id="$request.path.task_id")
OF_A_LOG = (
    Link(
        "NextPart",
        "get_log",
        "What comes behind this part, unless it was the last.",
        {
            "task_id": "$request.path.task_id",
            "attempt": "$response.body#/attempt",
            "offset": "$response.body#/next_offset",
        },
    ),
)
OF_A_NEW_WORKER = (
    Link("Heartbeat", "heartbeat", "Keep it alive.", {"worker_id": _ID}),
    Link("RegisterJob", "register_job", "Say what it can do; name it as worker_id.", {}),
    Link("ClaimTasks", "claim_tasks", "Take something to do; name it as worker_id.", {}),
    Link("DeleteWorker", "delete_worker", "Let it leave.", {"worker_id": _ID}),
)
OF_A_JOB = (
    Link("SubmitTask", "submit_task", "Give it something to do.", _JOB),
    Link("ShowJob", "get_job", "See its schema and its workers.", _JOB),
    Link("ListTasks", "list_job_tasks", "See its tasks.", _JOB),
)
OF_WORKERS = _next_page("list_workers")
OF_ROOM_WORKERS = _next_page("list_room_workers", **_IN_ROOM)
OF_ROOMS = _next_page("list_rooms")
OF_ROOM = (
    Link("ListTasks", "list_tasks", "See the room's tasks.", _IN_ROOM),
    Link("ListJobs", "list_jobs", "See the room's jobs.", _IN_ROOM),
)
OF_JOBS = _next_page("list_jobs", **_IN_ROOM)
OF_SCHEDULES = _next_page("list_schedules", **_IN_ROOM)
_SCHEDULE = {"room_id": "$response.body#/room_id", "schedule_name": "$response.body#/name"}
OF_A_SCHEDULE = (
    Link("ShowSchedule", "get_schedule", "See when it fires next.", _SCHEDULE),
    Link("RemoveSchedule", "delete_schedule", "Take it away.", _SCHEDULE),
    Link(
        "ShowLastTask",
        "get_task",
        "See the newest of its tasks.",
        {"task_id": "$response.body#/last_task_id"},
    ),
)
OF_JOB_TASKS = _next_page("list_job_tasks", **_OF_JOB)
OF_TASKS = _next_page("list_tasks", **_IN_ROOM)
