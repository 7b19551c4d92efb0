"""Registering jobs and submitting tasks: contract *Jobs*, *Tasks*; cases C14, C20, C22."""

from __future__ import annotations

from datetime import UTC, datetime
from enum import Enum, StrEnum
from typing import Any, ClassVar
from urllib.parse import unquote

import pytest
from pydantic import BaseModel, Field, create_model

from jobroom.client.extension import Category, Extension, category_of
from jobroom.errors import (
    Forbidden,
    InvalidCategory,
    InvalidRoomId,
    JobNotFound,
    PayloadInvalid,
    SchemaConflict,
    ValidationFailed,
)

AWKWARD = ["A?B", "A#B", "é", "名前", "100%", "A%2FB", "A+B", "a b", "A&B=C", "x" * 255, "%", "~"]


class Rotate(BaseModel):
    angle: float = 0.0


class Kind(Enum):
    SELECTION = "selections"


def test_a_decorator_without_arguments_registers_for_all_rooms(server, jobs):
    assert jobs.register(Rotate) is Rotate
    assert jobs["@global:modifiers:Rotate"] is Rotate
    assert server.jobs["@global:modifiers:Rotate"]["schema"] == Rotate.model_json_schema()


def test_a_decorator_with_a_room_registers_for_that_room(server, jobs):
    assert jobs.register(room="room_123")(Rotate) is Rotate
    assert (len(jobs), list(jobs)) == (1, ["room_123:modifiers:Rotate"])
    assert "room_123:modifiers:Rotate" in jobs


def test_a_plain_call_may_name_the_policy(server, jobs):
    jobs.register(Rotate, room="r1", on_worker_lost="requeue", max_attempts=2, order="fair")
    job = server.jobs["r1:modifiers:Rotate"]
    assert (job["on_worker_lost"], job["max_attempts"], job["order"]) == ("requeue", 2, "fair")


def test_all_jobs_of_a_manager_have_one_instance_worker(server, jobs):
    jobs.register(Rotate, room="r1")
    jobs.register(Rotate, room="r2")
    assert list(server.workers) == [jobs.worker.id]
    assert {seen.body["worker_id"] for seen in server.asked("PUT", "jobs")} == {jobs.worker.id}


def test_two_managers_on_one_token_are_two_workers(server, connect):  # C14
    first, second = connect(), connect()
    first.register(Rotate, room="r1")
    second.register(Rotate, room="r1")
    assert len(server.workers) == 2
    first.disconnect()
    assert list(server.workers) == [second.worker.id]


def test_two_managers_are_never_equal(jobs, connect):
    other = connect()
    assert jobs != other
    assert len({jobs, other, jobs}) == 2


def test_another_schema_under_the_same_name_raises(server, jobs, connect):
    jobs.register(Rotate, room="r1")
    other = create_model("Rotate", angle=(str, "z"))
    second = connect()
    with pytest.raises(SchemaConflict, match="/properties"):
        second.register(other, room="r1")
    assert len(second) == 0


def test_a_global_job_without_the_right_to_it_raises(server, connect):
    with pytest.raises(Forbidden, match="@global"):
        connect("alice").register(Rotate)


@pytest.mark.parametrize("what", [int, len, lambda vis: None, Rotate(), "Rotate", 5, [Rotate]])
def test_what_is_no_pydantic_class_is_refused_before_anything_is_sent(server, jobs, what):
    for register in (jobs.register, jobs.register(room="r1")):
        with pytest.raises(TypeError, match="A job is a pydantic class"):
            register(what)
    assert server.seen == []


@pytest.mark.parametrize(
    ("option", "nearest"),
    [("max_attempt", "max_attempts"), ("on_worker_loss", "on_worker_lost"), ("rom", "room")],
)
def test_an_option_that_there_is_not_names_the_nearest_one(server, jobs, option, nearest):
    with pytest.raises(TypeError, match=f"'{option}'; did you mean '{nearest}'"):
        jobs.register(**{option: 3})
    with pytest.raises(TypeError, match="no option 'xyz'; there are: room, description"):
        jobs.register(Rotate, xyz=1)
    assert server.seen == []


@pytest.mark.parametrize("room", ["a/b", "a:b", "", " a", "..", "@local", "x" * 256])
def test_a_room_that_cannot_be_is_refused_before_anything_is_sent(server, jobs, room):
    with pytest.raises(InvalidRoomId):
        jobs.register(room=room)
    with pytest.raises(TypeError, match="A room is a str"):
        jobs.register(room=5)
    assert server.seen == []


def test_a_name_or_category_that_cannot_be_is_refused_before_anything_is_sent(server, jobs):
    with pytest.raises(ValidationFailed):
        jobs.register(create_model("A/B"), room="r1")
    with pytest.raises(InvalidCategory):
        jobs.register(create_model("A", category=(str, "b:c")), room="r1")
    assert server.seen == []


@pytest.mark.parametrize("name", AWKWARD)
def test_a_name_reaches_the_server_as_it_is_written(server, jobs, name):  # C20
    cls = create_model(name, angle=(float, 0.0))
    jobs.register(cls, room=name)
    full_name = f"{name}:modifiers:{name}"
    assert full_name in server.jobs
    task = jobs.submit(full_name, {"angle": 3})
    assert (task["job_name"], task["room_id"]) == (full_name, name)
    path = server.asked("POST", "/tasks/")[0].path
    assert path.split("/")[4:] == [path.split("/")[4], "tasks", path.split("/")[6]]
    assert unquote(path.split("/")[6]) == full_name
    assert jobs.worker.api.job(name, full_name)["full_name"] == full_name


@pytest.mark.parametrize(
    ("body", "category"),
    [
        ({"category": "selections", "__annotations__": {"category": ClassVar[str]}}, "selections"),
        ({"category": "analysis", "__annotations__": {"category": str}}, "analysis"),
        ({"category": Category.SELECTION, "__annotations__": {"category": ClassVar}}, "selections"),
        ({"category": Category.ANALYSIS, "__annotations__": {"category": Category}}, "analysis"),
        ({"category": Kind.SELECTION, "__annotations__": {"category": Kind}}, "selections"),
        ({"category": Field("analysis"), "__annotations__": {"category": str}}, "analysis"),
        ({"__annotations__": {"category": str}}, "modifiers"),
        ({}, "modifiers"),
    ],
)
def test_the_category_is_the_class_variable_or_the_fields_default(body, category):
    for base in (BaseModel, Extension):
        if base is Extension and body.get("__annotations__", {}).get("category") is Kind:
            continue
        cls = type(base)("Some", (base,), {"__module__": __name__, **body})
        assert category_of(cls) == category
        assert type(category_of(cls)) is str


def test_the_categories_are_the_servers_default_ones():
    assert issubclass(Category, StrEnum)
    assert {str(one) for one in Category} == {"modifiers", "selections", "analysis"}


class TestSubmit:
    @pytest.fixture(autouse=True)
    def job(self, jobs):
        jobs.register(Rotate, room="r1")

    @pytest.mark.parametrize(
        ("args", "fields"),
        [
            (("r1:modifiers:Rotate", {"angle": 9.0}), {}),
            (("r1:modifiers:Rotate",), {"angle": 9.0}),
            ((Rotate,), {"angle": 9.0}),
            ((Rotate, {"angle": 9.0}), {}),
            ((Rotate(angle=9.0),), {}),
        ],
    )
    def test_a_job_is_named_by_its_name_its_class_or_an_instance(self, jobs, args, fields):
        task = jobs.submit(*args, **fields)
        assert (task["job_name"], task["payload"]) == ("r1:modifiers:Rotate", {"angle": 9.0})

    def test_every_submit_has_a_key_and_a_request_id_of_its_own(self, server, jobs):  # C22
        jobs.submit(Rotate)
        jobs.submit(Rotate)
        sent = [seen.headers for seen in server.asked("POST", "/tasks/")]
        assert len({one["idempotency-key"] for one in sent}) == 2
        assert len({one["x-request-id"] for one in sent}) == 2

    def test_a_lost_answer_is_asked_for_again_with_the_same_key(self, server, jobs):  # C22
        server.fail_next("POST", "/tasks/", act=True)
        task = jobs.submit(Rotate)
        assert list(server.tasks) == [task["id"]]
        first, second = server.asked("POST", "/tasks/")
        assert first.headers["idempotency-key"] == second.headers["idempotency-key"]

    def test_a_key_may_be_given(self, server, jobs):
        first = jobs.submit(Rotate, idempotency_key="k1")
        assert jobs.submit(Rotate, idempotency_key="k1")["id"] == first["id"]

    @pytest.mark.parametrize("key", ["", "é", "a\nb", "x" * 256])
    def test_a_key_that_no_header_can_carry_is_refused(self, jobs, key):
        with pytest.raises(ValidationFailed):
            jobs.submit(Rotate, idempotency_key=key)

    def test_times_and_priority_go_along(self, jobs):
        at = datetime(2026, 5, 4, 3, 2, 1, tzinfo=UTC)
        task = jobs.submit(Rotate, priority=3, run_at=at, expires_at=at)
        assert task["sent"]["priority"] == 3
        assert task["sent"]["run_at"] == task["sent"]["expires_at"] == "2026-05-04T03:02:01+00:00"

    @pytest.mark.parametrize("at", [datetime(2026, 5, 4), "tomorrow", 17])  # noqa: DTZ001
    def test_what_is_no_time_with_an_offset_is_refused(self, jobs, at):
        with pytest.raises(ValidationFailed, match="run_at"):
            jobs.submit(Rotate, run_at=at)

    @pytest.mark.parametrize("value", [float("nan"), {1, 2}, object()])
    def test_a_payload_that_is_no_json_is_refused_before_it_is_sent(self, jobs, value):
        with pytest.raises(ValidationFailed, match=f"{type(value).__name__} at /payload/angle"):
            jobs.submit("r1:modifiers:Rotate", {"angle": value})

    def test_an_instance_that_has_no_json_is_refused_before_it_is_sent(self, jobs):
        loose = create_model("Loose", angle=(Any, None))
        with pytest.raises(ValidationFailed, match="Loose has no JSON"):
            jobs.submit(loose(angle=object()))

    def test_a_class_of_several_rooms_needs_the_room(self, jobs):
        jobs.register(Rotate, room="r2")
        with pytest.raises(JobNotFound, match="several rooms"):
            jobs.submit(Rotate)
        assert jobs.submit(Rotate, room="r2")["job_name"] == "r2:modifiers:Rotate"

    def test_a_room_without_the_class_says_where_it_is_registered(self, server, jobs):
        with pytest.raises(JobNotFound, match="not registered in room 'new', only in r1"):
            jobs.submit(Rotate, room="new")
        jobs.register(Rotate, room="r2")
        with pytest.raises(JobNotFound, match="only in r1, r2"):
            jobs.submit(Rotate, room="new")
        assert server.asked("POST", "/tasks/") == []

    def test_a_room_that_cannot_be_is_refused_before_anything_is_sent(self, server, jobs):
        with pytest.raises(InvalidRoomId):
            jobs.submit(Rotate, room="a/b")
        with pytest.raises(TypeError, match="A room is a str"):
            jobs.submit(Rotate, room=5)
        assert server.asked("POST", "/tasks/") == []

    def test_a_room_without_the_class_sees_the_global_one(self, jobs):
        jobs.register(Rotate)
        task = jobs.submit(Rotate, room="new")
        assert (task["job_name"], task["room_id"]) == ("@global:modifiers:Rotate", "new")

    def test_an_unregistered_class_is_looked_for_among_the_global_ones(self, jobs):
        with pytest.raises(JobNotFound):
            jobs.submit(create_model("Unknown"), room="r1")

    def test_the_faults_of_a_payload_come_with_their_places(self, server, jobs):
        server.on_request = lambda seen: (seen.body or {}).update(payload=[])
        with pytest.raises(PayloadInvalid) as refusal:
            jobs.submit(Rotate)
        assert [(one.pointer, one.message) for one in refusal.value.errors] == [
            ("/payload", "no object")
        ]

    def test_a_wait_ends_with_the_task(self, server, jobs):
        task = jobs.submit(Rotate)
        polled = []

        def finish_at_the_second_look(seen):
            if seen.method == "GET":
                polled.append(seen.headers["prefer"])
                if len(polled) == 2:
                    server.tasks[task["id"]]["status"] = "completed"

        server.on_request = finish_at_the_second_look
        assert jobs.wait(task["id"])["status"] == "completed"
        assert polled == ["wait=20", "wait=20"]

    def test_a_wait_outlives_an_outage(self, server, jobs):
        """As that of ``Client`` does: a page of a gateway is no end of it."""
        task = jobs.submit(Rotate)
        server.tasks[task["id"]]["status"] = "completed"
        server.fail_next("GET", "/tasks/", times=3, status=504, text="upstream request timeout")
        assert jobs.wait(task["id"])["status"] == "completed"

    def test_a_wait_gives_up_after_its_timeout(self, jobs):
        task = jobs.submit(Rotate)
        assert jobs.wait(task["id"], timeout=0.05)["status"] == "pending"
