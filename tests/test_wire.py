"""The bodies of requests and answers (contract: workers, jobs, tasks)."""

from __future__ import annotations

import contextlib
import json
from datetime import UTC, datetime

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from jobroom import wire
from jobroom.domain.lifecycle import TaskStatus
from jobroom.errors import ValidationFailed

REQUESTS = (
    wire.RegisterJob,
    wire.CreateWorker,
    wire.SubmitTask,
    wire.SubmitTasks,
    wire.BulkTask,
    wire.ClaimTasks,
    wire.UpdateTask,
)
JOB = {"category": "modifiers", "name": "Rotate"}
NEEDED = {
    wire.RegisterJob: JOB,
    wire.SubmitTasks: {"tasks": [{"job": "lab:modifiers:Rotate"}]},
    wire.BulkTask: {"job": "lab:modifiers:Rotate"},
}
"""What must be said; everything else may be left out."""
TEXT = st.text(alphabet="a1é/~ \0", max_size=3)
ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)


def faults(model: type[BaseModel], values: object) -> dict[str, str]:
    with pytest.raises(ValidationFailed) as caught:
        wire.validate(model, values)
    return {fault.pointer: fault.message for fault in caught.value.errors}


def test_a_registration_needs_category_and_name_alone():
    job = wire.validate(wire.RegisterJob, JOB)
    assert (job.job_schema, job.order, job.on_worker_lost) == ({}, "fifo", "fail")
    assert (job.max_attempts, job.check_payload, job.replace) == (None, True, False)


def test_schema_and_validate_keep_their_names_on_the_wire():
    sent = {**JOB, "schema": {"type": "object"}, "validate": False}
    job = wire.validate(wire.RegisterJob, sent)
    assert job.job_schema == {"type": "object"}
    assert job.check_payload is False
    assert job.model_dump(exclude_unset=True) == sent


def test_an_empty_submission_has_an_empty_payload_and_priority_0():
    task = wire.validate(wire.SubmitTask, {})
    assert (task.payload, task.priority, task.run_at, task.id) == ({}, 0, None, None)


def test_a_claim_without_body_asks_for_one_task():
    claim = wire.validate(wire.ClaimTasks, {})
    assert (claim.limit, claim.start, claim.worker_id) == (1, False, None)


@pytest.mark.parametrize("model", REQUESTS)
def test_unknown_members_are_ignored(model):
    """Contract: additions never break a client written for 0.1.7."""
    known = NEEDED.get(model, {})
    sent = {**known, "metadata": {"client": "0.1.7"}, "job_schema": 3, "check_payload": 3}
    assert wire.validate(model, sent) == wire.validate(model, known)


@pytest.mark.parametrize("model", REQUESTS)
def test_null_is_the_same_as_absent_in_an_optional_member(model):
    """Contract: 0.1.7 sends null for what it leaves open."""
    known = NEEDED.get(model, {})
    names = [field.alias or name for name, field in model.model_fields.items()]
    nulls = {name: None for name in names if name not in known}
    assert wire.validate(model, {**known, **nulls}) == wire.validate(model, known)


def test_null_for_a_required_member_is_a_missing_one():
    assert faults(wire.RegisterJob, {**JOB, "category": None}) == {"/category": "is required"}


@pytest.mark.parametrize("value", ["1", True, 1.5, [], 2**31, -(2**31) - 1, 10**400])
def test_priority_is_a_32_bit_integer(value):
    assert list(faults(wire.SubmitTask, {"priority": value})) == ["/priority"]


@pytest.mark.parametrize("value", [2**31 - 1, -(2**31), 7.0])
def test_an_integral_number_in_range_is_a_priority(value):
    assert wire.validate(wire.SubmitTask, {"priority": value}).priority == int(value)


@pytest.mark.parametrize(
    ("model", "member", "low", "high"),
    [
        (wire.RegisterJob, "max_attempts", 1, 1000),
        (wire.SubmitTask, "max_attempts", 1, 1000),
        (wire.ClaimTasks, "limit", 1, 100),
        (wire.UpdateTask, "progress", 0, 1),
        (wire.UpdateTask, "attempt", 0, 2**31 - 1),
    ],
)
def test_numbers_have_bounds(model, member, low, high):
    known = NEEDED.get(model, {})
    for value in (low, high):
        assert getattr(wire.validate(model, {**known, member: value}), member) == value
    for value in (low - 1, high + 1, True, "1"):
        assert list(faults(model, {**known, member: value})) == [f"/{member}"]


@pytest.mark.parametrize(
    "member", ["timeout_seconds", "claim_timeout_seconds", "result_ttl_seconds"]
)
def test_a_span_is_over_zero_and_at_most_ten_years(member):
    assert getattr(wire.validate(wire.RegisterJob, {**JOB, member: 0.5}), member) == 0.5
    for value in (0, -1, 400_000_000, float("inf"), float("nan"), 10**400, "1", False):
        assert list(faults(wire.RegisterJob, {**JOB, member: value})) == [f"/{member}"]


def test_a_retry_may_come_without_delay():
    job = wire.validate(wire.RegisterJob, {**JOB, "retry_delay_seconds": 0})
    assert job.retry_delay_seconds == 0
    assert faults(wire.RegisterJob, {**JOB, "retry_delay_seconds": -1})


@pytest.mark.parametrize("member", ["run_at", "expires_at"])
@pytest.mark.parametrize("value", ["2030-01-31T12:00:00", "tomorrow", 1_900_000_000, "", "2030"])
def test_a_time_without_an_offset_is_refused(member, value):
    """Rules, *Time fields*: times without an offset are 422."""
    assert "offset" in faults(wire.SubmitTask, {member: value})[f"/{member}"]


def test_a_time_is_read_to_microseconds_and_written_as_rfc_3339():
    task = wire.validate(wire.SubmitTask, {"run_at": "2030-01-31T13:00:00.5+01:00"})
    noon = datetime(2030, 1, 31, 12, tzinfo=UTC)
    assert task.run_at == int(noon.timestamp()) * 1_000_000 + 500_000
    assert task.model_dump(exclude_unset=True) == {"run_at": "2030-01-31T12:00:00.500000Z"}


@pytest.mark.parametrize(
    "spelling",
    [
        "01890a5d-ac96-774b-bcce-b302099a8057",
        "01890A5D-AC96-774B-BCCE-B302099A8057",
        "01890a5dac96774bbcceb302099a8057",
    ],
)
def test_any_spelling_of_a_uuid_is_an_id(spelling):
    """Contract: any UUID spelling accepted on input, lower case on output."""
    task = wire.validate(wire.SubmitTask, {"id": spelling})
    assert task.id == "01890a5d-ac96-774b-bcce-b302099a8057"


@pytest.mark.parametrize("value", ["first", "", 7, "01890a5d-ac96-774b-bcce-b302099a805"])
def test_an_id_that_is_no_uuid_is_refused(value):
    assert "UUID" in faults(wire.SubmitTask, {"id": value})["/id"]


ID = "01890a5d-ac96-774b-bcce-b302099a8057"


@pytest.mark.parametrize(
    "said", [ID, ID.upper(), {"id": ID}, {"id": f"{{{ID}}}", "condition": None}]
)
def test_a_dependency_is_an_id_or_an_object_with_one(said):
    """Contract, *Tasks*: it must have completed, unless another condition is said."""
    [found] = wire.validate(wire.SubmitTask, {"depends_on": [said]}).depends_on
    assert (found.id, found.condition) == (ID, "afterok")


@pytest.mark.parametrize("condition", ["afterok", "afternotok", "afterany"])
def test_a_dependency_may_say_how_it_must_end(condition):
    said = {"depends_on": [{"id": ID, "condition": condition}]}
    assert wire.validate(wire.SubmitTask, said).depends_on[0].condition == condition


@pytest.mark.parametrize(
    ("value", "place"),
    [
        ([None], "/0"),
        ([5], "/0"),
        (["first"], "/0"),
        ([ID, {}], "/1/id"),
        ([{"id": "first"}], "/0/id"),
        ([{"id": ID, "condition": "done"}], "/0/condition"),
        ([ID] * 1001, ""),
        (ID, ""),
    ],
)
def test_what_is_no_dependency_is_refused_at_its_place(value, place):
    assert list(faults(wire.SubmitTask, {"depends_on": value})) == [f"/depends_on{place}"]


@pytest.mark.parametrize("value", ["", "first", 7, []])
def test_a_parent_is_an_id(value):
    assert "UUID" in faults(wire.SubmitTask, {"parent": value})["/parent"]


@pytest.mark.parametrize("said", ["first", {"key": "first"}, {"id": ID}, "x" * 255])
def test_a_dependency_in_bulk_is_a_key_or_an_id(said):
    task = {"job": "lab:modifiers:Rotate", "depends_on": [said]}
    [found] = wire.validate(wire.SubmitTasks, {"tasks": [task]}).tasks[0].depends_on
    assert (found.id or found.key) == (said if isinstance(said, str) else next(iter(said.values())))


@pytest.mark.parametrize(
    ("said", "place"),
    [
        ("", ""),
        (5, ""),
        ("x" * 256, ""),
        ({}, ""),
        ({"key": "a", "id": "b"}, ""),
        ({"key": ""}, "/key"),
    ],
)
def test_what_is_neither_a_key_nor_an_id_is_refused(said, place):
    task = {"job": "lab:modifiers:Rotate", "depends_on": [said]}
    assert list(faults(wire.SubmitTasks, {"tasks": [task]})) == [f"/tasks/0/depends_on/0{place}"]


def test_an_empty_list_of_dependencies_asks_for_nothing():
    assert wire.validate(wire.SubmitTask, {"depends_on": []}).depends_on == []


@pytest.mark.parametrize("value", [[], "{}", 3, True])
def test_a_payload_and_a_schema_are_objects(value):
    assert faults(wire.SubmitTask, {"payload": value}) == {"/payload": "must be a JSON object"}
    assert "/schema" in faults(wire.RegisterJob, {**JOB, "schema": value})


@pytest.mark.parametrize("member", ["error", "message", "worker_id"])
def test_texts_are_strings(member):
    assert list(faults(wire.UpdateTask, {member: 5})) == [f"/{member}"]


@pytest.mark.parametrize(
    ("model", "member"), [(wire.ClaimTasks, "request_id"), (wire.CreateWorker, "name")]
)
def test_a_label_has_1_to_255_characters_and_no_control_character(model, member):
    assert wire.validate(model, {member: "ä" * 255})
    for value in ("", "x" * 256, "a\x00b", "a\n"):
        assert list(faults(model, {member: value})) == [f"/{member}"]


@pytest.mark.parametrize("status", list(TaskStatus))
def test_a_report_may_name_any_status_for_the_core_to_judge(status):
    """Contract: a move that is not allowed is 409, so the body itself is good."""
    assert wire.validate(wire.UpdateTask, {"status": status.value}).status is status


@pytest.mark.parametrize("value", ["done", "COMPLETED", 1, [], {}, True])
def test_a_status_that_does_not_exist_is_refused(value):
    assert list(faults(wire.UpdateTask, {"status": value})) == ["/status"]


@pytest.mark.parametrize("result", [0, False, "", [], {}, 2**70, {"deep": [None]}])
def test_a_result_is_any_json(result):
    assert (
        wire.validate(wire.UpdateTask, {"status": "completed", "result": result}).result == result
    )


@pytest.mark.parametrize("body", [[], "text", 3, None])
def test_a_body_is_an_object(body):
    assert faults(wire.ClaimTasks, body) == {"": "must be a JSON object"}


def test_every_fault_has_its_place_and_the_first_is_in_the_sentence():
    with pytest.raises(ValidationFailed) as caught:
        wire.validate(wire.RegisterJob, {"category": 1, "order": "lifo"})
    assert [fault.pointer for fault in caught.value.errors] == ["/category", "/name", "/order"]
    assert str(caught.value) == (
        "The body does not fit the contract: /category must be a valid string (3 faults in all)."
    )


def test_pointers_escape_slash_and_tilde():
    """RFC 6901, 3."""

    class Odd(BaseModel):
        inner: dict[str, int]

    assert list(faults(Odd, {"inner": {"a/b~c": "x"}})) == ["/inner/a~1b~0c"]


def test_a_long_list_of_faults_is_cut():
    class Many(BaseModel):
        items: list[int]

    assert len(faults(Many, {"items": ["x"] * 1000})) == 20


@pytest.mark.parametrize(
    ("model", "values"),
    [
        (wire.SubmitTask, {"run_at": "s3cret", "id": "s3cret", "priority": "s3cret"}),
        (wire.SubmitTask, {"payload": "s3cret", "parent": "s3cret", "depends_on": ["s3cret"]}),
        (wire.UpdateTask, {"status": "s3cret", "progress": "s3cret", "claim_next": "s3cret"}),
        (wire.ClaimTasks, {"request_id": "s3cret\n", "limit": "s3cret"}),
    ],
)
def test_messages_do_not_echo_the_input_nor_name_the_library(model, values):
    with pytest.raises(ValidationFailed) as caught:
        wire.validate(model, values)
    text = str(caught.value) + str(caught.value.errors)
    assert "s3cret" not in text
    assert "pydantic" not in text
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


@pytest.mark.parametrize("model", REQUESTS)
@given(data=st.data())
def test_any_json_is_read_or_refused_and_nothing_else(model, data):
    names = [field.alias or name for name, field in model.model_fields.items()]
    values = data.draw(st.dictionaries(st.sampled_from(names), ANY_JSON, max_size=4))
    with contextlib.suppress(ValidationFailed):
        wire.validate(model, values)


@pytest.mark.parametrize("model", REQUESTS)
@given(data=st.data())
def test_what_the_published_schema_refuses_is_refused(model, data):
    """The schema in the OpenAPI document and the models tell the same story."""
    names = [field.alias or name for name, field in model.model_fields.items()]
    values = data.draw(st.dictionaries(st.sampled_from(names), ANY_JSON, max_size=4))
    known = {**NEEDED.get(model, {}), **values}
    published = jsonschema_rs.validator_for(model.model_json_schema())
    if not published.is_valid(known):
        assert faults(model, known)


@pytest.mark.parametrize("model", REQUESTS)
def test_every_request_has_a_valid_example_and_describes_each_member(model):
    schema = model.model_json_schema()
    assert wire.validate(model, schema["examples"][0])
    assert schema["description"]
    for member in schema["properties"].values():
        assert member["description"]


@pytest.mark.parametrize("model", REQUESTS)
def test_the_published_schema_takes_null_for_every_optional_member(model):
    schema = model.model_json_schema()
    published = jsonschema_rs.validator_for(schema)
    optional = set(schema["properties"]) - set(schema.get("required", ()))
    known = NEEDED.get(model, {})
    published.validate({**known, **dict.fromkeys(optional)})
    for name in known:
        assert not published.is_valid({**known, name: None})


def test_the_published_schema_states_the_bounds():
    priority = wire.SubmitTask.model_json_schema()["properties"]["priority"]
    assert priority["anyOf"][0] == {"type": "integer", "minimum": -(2**31), "maximum": 2**31 - 1}


def test_an_answer_with_unknown_members_is_read():
    body = {"id": "a", "last_heartbeat": "2030-01-31T12:00:00Z", "cancel": [], "new": 1}
    assert wire.validate(wire.HeartbeatBody, body).cancel == []


def test_an_answer_is_written_with_the_names_of_the_wire():
    assert "schema" in wire.JobBody.model_json_schema(mode="serialization")["properties"]
    assert "validate" in wire.JobBody.model_json_schema(mode="serialization")["properties"]


def test_a_problem_is_read_with_and_without_errors():
    bare = {"type": "t", "title": "T", "status": 404, "detail": "d", "instance": "i"}
    assert wire.validate(wire.Problem, bare).errors == []
    full = {**bare, "errors": [{"pointer": "/a", "message": "m"}]}
    assert json.loads(wire.validate(wire.Problem, full).model_dump_json()) == full
