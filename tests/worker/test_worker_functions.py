"""``@job``: a payload's model from a signature, and signatures that no payload can fill."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

import pytest
from pydantic import BaseModel, Field, ValidationError

from jobroom.client.extension import category_of
from jobroom.errors import InvalidRoomId
from jobroom.worker import functions
from jobroom.worker.functions import job

if TYPE_CHECKING:
    from decimal import Decimal


class Rotated(BaseModel):
    angle: float


@job
def rotate(angle: Annotated[float, Field(ge=0, description="In degrees.")], axis: str = "x"):
    """Rotate what is selected.

    About an axis.
    """
    return {"angle": angle, "axis": axis}


def model_of(function):
    return functions.job_of(function).model


def run(function, **payload):
    return model_of(function).model_validate(payload).run(None)


def test_the_function_stays_callable():
    assert rotate(1.0, axis="y") == {"angle": 1.0, "axis": "y"}


def test_the_schema_has_the_names_the_defaults_and_the_limits():
    schema = model_of(rotate).model_json_schema()
    assert schema["title"] == "rotate"
    assert schema["required"] == ["angle"]
    assert schema["additionalProperties"] is False
    assert schema["properties"]["axis"]["default"] == "x"
    described = {"type": "number", "minimum": 0, "description": "In degrees.", "title": "Angle"}
    assert schema["properties"]["angle"] == described


def test_a_payload_is_the_arguments():
    assert run(rotate, angle="2") == {"angle": 2.0, "axis": "x"}


@pytest.mark.parametrize("payload", [{}, {"angle": -1}, {"angle": 1, "axes": "x"}])
def test_what_a_call_would_refuse_the_payload_refuses(payload):
    with pytest.raises(ValidationError):
        model_of(rotate).model_validate(payload)


def test_the_registration_has_room_name_category_options_and_a_description():
    @job(room="r1", name="Turn", category="analysis", max_attempts=3, isolate="process")
    def turn(angle: float):
        pass

    made = functions.registration_of(functions.job_of(turn), "r2", source="m")
    assert made.full_name == "r1:analysis:Turn"
    assert made.job["max_attempts"] == 3
    assert (made.isolate, made.source) == ("process", "m")
    plain = functions.registration_of(functions.job_of(rotate), "r2")
    assert plain.full_name == "r2:modifiers:rotate"
    assert plain.job["description"] == "Rotate what is selected."
    assert functions.registration_of(functions.job_of(rotate)).room == "@global"


def test_a_result_is_serialized_by_the_return_annotation():
    @dataclass
    class Point:
        x: float

    @job
    def locate(x: float) -> list[Point]:
        return [Point(x)]

    assert run(locate, x=1) == [{"x": 1.0}]


def test_a_model_is_a_result_without_an_annotation():
    @job
    def make(angle: float):
        return Rotated(angle=angle)

    assert run(make, angle=1) == {"angle": 1.0}


def test_an_async_function_is_awaited_and_its_result_serialized():
    @job
    async def make(angle: float) -> Rotated:
        await asyncio.sleep(0)
        return Rotated(angle=angle)

    assert asyncio.run(run(make, angle=1)) == {"angle": 1.0}


def test_names_that_a_model_has_a_use_for_are_still_the_payloads_names():
    @job
    def odd(run: int, category: str, model_config: int, schema: int = 3, _hidden: int = 4):
        return [run, category, model_config, schema, _hidden]

    given = {"run": 1, "category": "c", "model_config": 2}
    assert set(model_of(odd).model_json_schema()["properties"]) == {*given, "schema", "_hidden"}
    assert run(odd, **given) == [1, "c", 2, 3, 4]
    assert category_of(model_of(odd)) == "modifiers"
    assert model_of(odd).model_validate(given).model_dump(mode="json")["run"] == 1


def test_keyword_only_parameters_and_literals_are_fine():
    @job
    def pick(*, axis: Literal["x", "y"] = "x") -> str:
        return axis

    assert run(pick) == "x"


def positional(a: int, /):
    pass


def many(*values: int):
    pass


def named(**values: int):
    pass


def bare(a, b: int):
    pass


def strange(a: object()):
    pass


def unknown(a: Decimal):
    pass


def default(a: int = Field(ge=0)):
    pass


@pytest.mark.parametrize(
    ("function", "why"),
    [
        (positional, "'a' is positional-only"),
        (many, "*values takes any number"),
        (named, "**values takes any names"),
        (bare, "'a' has no annotation; write its type"),
        (unknown, "'Decimal' is not defined"),
        (default, "'a' has Field(...)"),
    ],
)
def test_a_signature_that_no_payload_can_fill_is_refused_by_name(function, why):
    with pytest.raises(TypeError) as refused:
        job(function)
    message = str(refused.value)
    assert message.startswith(f"The function {function.__name__} cannot be a job: ")
    assert why in message
    assert "\n" not in message


def test_a_type_that_has_no_schema_is_refused_in_one_sentence():
    class Opaque:
        pass

    def take(a: Opaque):
        pass

    with pytest.raises(TypeError, match="cannot be a job: Unable to generate"):
        job(take)


def yielding(a: int):
    yield a


async def yielding_async(a: int):
    yield a


@pytest.mark.parametrize("function", [yielding, yielding_async])
def test_a_function_that_yields_is_refused_in_one_sentence(function):
    with pytest.raises(TypeError, match=r"cannot be a job: it yields; return one result[^\n]*$"):
        job(function)


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ({"isolate": "foo"}, "isolate='foo': write 'thread' or 'process'"),
        ({"isolate": ["process"]}, "write 'thread' or 'process'"),
        ({"memory_mb": -1}, "memory_mb=-1: write a number of MiB above 0"),
        ({"memory_mb": True}, "memory_mb=True: write a number"),
        ({"memory_mb": float("nan")}, "memory_mb=nan: write a number"),
        ({"memory_mb": "2G"}, "memory_mb='2G': write a number"),
        ({"memory_mb": 5, "isolate": "thread"}, "memory is watched in processes"),
    ],
)
def test_limits_that_nobody_could_keep_are_refused_at_once(how, why):
    with pytest.raises(ValueError, match=r"@jobroom\.job has") as refused:
        job(**how)
    assert why in str(refused.value)
    assert "\n" not in str(refused.value)


def test_an_option_and_a_room_that_cannot_be_are_refused_at_once():
    with pytest.raises(TypeError, match="did you mean 'max_attempts'"):
        job(max_atempts=1)
    with pytest.raises(InvalidRoomId):
        job(room="a/b")
