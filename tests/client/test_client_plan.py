"""Tasks that depend on others, by the SDK (issue 4; contract *Tasks*, bulk submit)."""

from __future__ import annotations

import json

import httpx
import pytest
from pydantic import BaseModel

from jobroom.client.connection import Connection
from jobroom.client.manager import JobManager
from jobroom.client.plan import LARGEST_PLAN, when
from jobroom.errors import InvalidRoomId, ValidationFailed


class Rotate(BaseModel):
    angle: float = 0.0


class Recorder:
    """A server that accepts everything, page by page, and remembers what came."""

    def __init__(self):
        self.asked = []
        self.answers = []

    def __call__(self, request):
        self.asked.append(request)
        body = json.loads(request.content or b"{}")
        if self.answers:
            return httpx.Response(200, json=self.answers.pop(0))
        if "tasks" in body:
            items = [{"id": f"id of {each['key']}"} for each in body["tasks"]]
            return httpx.Response(202, json={"items": items})
        return httpx.Response(202, json={"id": "t", "tasks": ["t"]})

    @property
    def bodies(self):
        return [json.loads(request.content or b"null") for request in self.asked]


@pytest.fixture
def recorder():
    return Recorder()


@pytest.fixture
def jobs(recorder):
    http = httpx.Client(transport=httpx.MockTransport(recorder))
    with http, JobManager(Connection("http://queue.example", "token", http=http)) as manager:
        yield manager


def test_a_plan_is_one_request_in_the_order_of_its_tasks(jobs, recorder):
    plan = jobs.plan(room="r1")
    first = plan.add(Rotate(angle=1))
    plan.add("r1:modifiers:Turn", {"by": 2}, depends_on=[first], priority=3)
    assert [task["id"] for task in plan.submit()] == ["id of 1", "id of 2"]
    (body,) = recorder.bodies
    assert recorder.asked[0].url.path == "/v1/joblib/rooms/r1/tasks"
    assert body["tasks"] == [
        {"job": "@global:modifiers:Rotate", "key": "1", "payload": {"angle": 1.0}},
        {
            "job": "r1:modifiers:Turn",
            "key": "2",
            "payload": {"by": 2},
            "priority": 3,
            "depends_on": ["1"],
        },
    ]


def test_a_plan_is_sent_with_a_key_so_that_a_lost_answer_makes_nothing_twice(jobs, recorder):
    plan = jobs.plan(room="r1")
    plan.add(Rotate())
    plan.submit()
    plan.submit(idempotency_key="mine")
    made, given = (request.headers["idempotency-key"] for request in recorder.asked)
    assert len(made) == 32
    assert given == "mine"


def test_a_key_of_a_plan_is_given_once(jobs):
    plan = jobs.plan(room="r1")
    plan.add(Rotate(), key="turn")
    with pytest.raises(ValidationFailed, match="'turn' already"):
        plan.add(Rotate(), key="turn")


def test_a_plan_without_tasks_asks_nobody(jobs, recorder):
    assert jobs.plan(room="r1").submit() == []
    assert recorder.asked == []


def test_a_plan_that_is_too_large_says_so_before_it_is_sent(jobs, recorder):
    plan = jobs.plan(room="r1")
    for _ in range(LARGEST_PLAN + 1):
        plan.add("r1:modifiers:Turn")
    with pytest.raises(ValidationFailed, match="at most 1000"):
        plan.submit()
    assert recorder.asked == []


def test_a_plan_of_a_room_that_cannot_be_is_refused(jobs):
    with pytest.raises(InvalidRoomId):
        jobs.plan(room="a/b")


def test_a_task_may_be_named_by_its_id_or_by_itself_or_with_a_condition(jobs, recorder):
    task = {"id": "t1", "status": "pending"}
    jobs.submit(Rotate(), room="r1", depends_on=["t0", task, when(task, "afterany")], parent=task)
    (body,) = recorder.bodies
    assert body["depends_on"] == ["t0", "t1", {"id": "t1", "condition": "afterany"}]
    assert body["parent"] == "t1"


@pytest.mark.parametrize("wrong", ["t1", {"id": "t1"}])
def test_one_task_without_brackets_is_a_clear_error(jobs, wrong):
    with pytest.raises(TypeError, match="into brackets"):
        jobs.submit(Rotate(), room="r1", depends_on=wrong)


@pytest.mark.parametrize("wrong", [1, None, {}, {"id": 1}])
def test_what_is_no_task_is_a_clear_error(jobs, wrong):
    with pytest.raises(TypeError, match="task's id"):
        jobs.submit(Rotate(), room="r1", depends_on=[wrong])


def test_a_graph_is_read_to_its_end(jobs, recorder):
    recorder.answers = [
        {"items": [1], "edges": [2], "next_cursor": "a=", "total": 2},
        {"items": [3], "edges": [], "next_cursor": None, "total": 2},
    ]
    graph = jobs.graph("t")
    assert graph == {"items": [1, 3], "edges": [2], "next_cursor": None, "total": 2}
    assert [dict(request.url.params).get("cursor") for request in recorder.asked] == [None, "a="]


def test_a_retry_may_ask_first_what_it_would_do(jobs, recorder):
    jobs.retry("t", dry_run=True)
    jobs.retry("t")
    asked = [request.url.raw_path.decode() for request in recorder.asked]
    assert asked == ["/v1/joblib/tasks/t/retry?dry_run=true", "/v1/joblib/tasks/t/retry"]
