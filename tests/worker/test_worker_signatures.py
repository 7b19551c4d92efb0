"""``@job`` on what is no plain function, on odd annotations, and on each name that there is."""

from __future__ import annotations

import asyncio
import functools
import inspect
import keyword
import re
import sys
import types
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final

import pytest
from pydantic import AliasChoices, BaseModel, Field

from jobroom import job
from jobroom.worker import finding, functions

HERE = Path(__file__).name
OWN_NAMES = {"self", "cls", "category", "run", "job", "job_function", "job_result", "room"}
USUAL_NAMES = {"copy", "_copy", "__copy", "json", "schema", "validate", "_", "__", "model_", "type"}
NAMES = sorted(
    name
    for name in {*dir(BaseModel), *dir(type(BaseModel)), *dir(functions._Payload)}
    | OWN_NAMES
    | USUAL_NAMES
    | {"p_copy_of_payload", "match", "id", "vis", "größe"}
    if name.isidentifier() and not keyword.iskeyword(name)
)


def model_of(function):
    return functions.job_of(function).model


def run(function, **payload):
    return model_of(function).model_validate(payload).run(None)


def taking(*names):
    """A function of so many parameters, which returns what they are."""
    scope: dict[str, Any] = {}
    listed = ", ".join(f"{name}: int" for name in names)
    exec(f"def taker({listed}):\n    return [{', '.join(names)}]", scope)  # noqa: S102
    return job(scope["taker"])


# Names


@pytest.mark.parametrize("name", NAMES)
def test_each_name_of_a_parameter_is_the_payloads_name(name):
    taker = taking(name)
    assert list(model_of(taker).model_json_schema()["properties"]) == [name]
    assert run(taker, **{name: 5}) == [5]


def test_all_names_at_once_are_the_payloads_names():
    taker = taking(*NAMES)
    payload = {name: n for n, name in enumerate(NAMES)}
    assert set(model_of(taker).model_json_schema()["properties"]) == set(NAMES)
    assert run(taker, **payload) == list(payload.values())


@pytest.mark.parametrize(
    "names",
    [
        ("copy", "_copy"),
        ("_copy", "copy", "__copy", "p_copy_of_payload"),
        ("_", "__", "___"),
        ("p_copy_of_payload", "copy"),
    ],
)
def test_names_that_differ_in_underscores_alone_are_all_there(names):
    taker = taking(*names)
    assert list(model_of(taker).model_json_schema()["properties"]) == list(names)
    assert run(taker, **dict(zip(names, range(9), strict=False))) == list(range(len(names)))


# What is called


class Scaler:
    def __init__(self, factor):
        self.factor = factor

    def scale(self, x: float, *, more: float = 0.0) -> float:
        """Scale a number."""
        return self.factor * x + more

    @classmethod
    def named(cls, x: int) -> str:
        return f"{cls.__name__}{x}"

    async def later(self, x: int) -> int:
        return self.factor * x

    def all_of(self, x: int):
        yield x

    def __call__(self, x: float) -> float:
        return self.factor * x


def scale(x: float, factor: float = 1.0) -> float:
    """Scale a number."""
    return factor * x


def test_a_bound_method_is_a_job_of_its_name():
    made = job(Scaler(3).scale)
    assert (run(made, x="2"), made(2, more=1)) == (6.0, 7)
    assert functions.registration_of(functions.job_of(made), "r1").full_name == "r1:modifiers:scale"
    assert functions.registration_of(functions.job_of(made)).job["description"] == "Scale a number."


def test_a_class_method_is_a_job():
    assert run(job(Scaler.named), x=1) == "Scaler1"


def test_a_bound_method_that_is_async_is_awaited():
    assert asyncio.run(run(job(Scaler(3).later), x=2)) == 6


def test_a_partial_is_a_job_of_what_is_left_to_give():
    made = job(name="triple")(functools.partial(scale, factor=3.0))
    assert model_of(made).__name__ == "triple"
    assert (run(made, x=2), run(made, x=2, factor=1), made(2)) == (6.0, 2.0, 6.0)
    assert list(model_of(job(functools.partial(scale, 1.0))).model_fields) == ["factor"]


def test_a_partial_of_a_bound_method_is_a_job():
    assert run(job(functools.partial(Scaler(3).scale, more=1.0)), x=2) == 7.0


def test_a_callable_object_is_a_job_of_its_types_name():
    made = job(Scaler(3))
    assert (model_of(made).__name__, run(made, x=2)) == ("Scaler", 6.0)


def test_a_cached_function_is_a_job():
    assert run(job(functools.cache(scale)), x=2.0) == 2.0


def test_a_worker_finds_what_its_module_has_made_of_methods_and_partials():
    module = types.ModuleType("shop_of_methods")
    text = """
import functools, jobroom
from test_worker_signatures import Scaler, scale
method = jobroom.job(Scaler(3).scale)
part = jobroom.job(name="part")(functools.partial(scale, factor=2.0))
"""
    sys.modules[module.__name__] = module
    try:
        exec(text, vars(module))  # noqa: S102
        found = finding.find_jobs(module.__name__, room="r1")
    finally:
        del sys.modules[module.__name__]
    assert [one.full_name for one in found] == ["r1:modifiers:scale", "r1:modifiers:part"]


@pytest.mark.parametrize(
    ("thing", "why"),
    [
        (Scaler, "The class Scaler cannot be a job: only functions can"),
        (BaseModel, "needs no @jobroom.job"),
        (vars(Scaler)["named"], "put @jobroom.job on a function outside of a class"),
        (staticmethod(scale), "put @jobroom.job on a function outside of a class"),
        (Scaler.scale, "'self' is a method's own; make the method of an object the job"),
        (Scaler(1).all_of, "it yields; return one result instead"),
        (functools.partial(Scaler.all_of, Scaler(1)), "it yields"),
        ("scale", "of the type str, cannot be a job: it cannot be called"),
        (5, "it cannot be called"),
        (property(scale), "it cannot be called"),
        (iter, "it tells no parameters; write a function with types that calls it"),
        (len, "'obj' is positional-only"),
    ],
)
def test_what_can_be_no_job_is_refused_in_one_sentence(thing, why):
    for decorate in (job, job(name="named")):
        with pytest.raises(TypeError) as refused:
            decorate(thing)
        assert why in str(refused.value)
        assert re.search(r" \([^()]+\)$", str(refused.value)), refused.value
        assert "\n" not in str(refused.value)


# Annotations


class Raising:
    @classmethod
    def __get_pydantic_core_schema__(cls, *_):
        message = "no schema for this one"
        raise ValueError(message)


def of_type(annotation, **more):
    """A function with one good parameter and one of such a type."""

    def odd(good: int, bad, other: str = ""):
        return bad

    odd.__annotations__.update({"bad": annotation, **more})
    return odd


@pytest.mark.parametrize(
    ("annotation", "why"),
    [
        ("1/0", "ZeroDivisionError: division by zero; write a type"),
        ("1 +", "SyntaxError: "),
        ("re.nope", "AttributeError: module 're' has no attribute 'nope'; write a type"),
        ("", "cannot be evaluated"),
        ("Nope", "its annotation 'Nope' is not defined"),
        (5, "(parameter 'bad', "),
        ([int], "(parameter 'bad', "),
        ({"a": int}, "(parameter 'bad', "),
        (Raising, "ValueError: no schema for this one (parameter 'bad', "),
        (Annotated[int, Field(ge="x")], "(parameter 'bad', "),
        (Annotated[str, Field(pattern="(")], "(parameter 'bad', "),
        (range, "Unable to generate pydantic-core schema for <class 'range'> (parameter 'bad', "),
        (ClassVar[int], "the type of its parameter 'bad' keeps it out of every payload"),
        (Annotated[int, Field(exclude=True)], "keeps it out of every payload"),
        (Annotated[int, Field(alias="y")], "its parameter 'bad' has an alias"),
        (Annotated[int, Field(validation_alias="y")], "its parameter 'bad' has an alias"),
        (Annotated[int, Field(validation_alias=AliasChoices("y"))], "has an alias"),
        (Annotated[int, Field(serialization_alias="y")], "its parameter 'bad' has an alias"),
    ],
)
def test_an_odd_annotation_is_refused_with_its_place(annotation, why):
    function = of_type(annotation)
    with pytest.raises(TypeError) as refused:
        job(function)
    message = str(refused.value)
    assert message.startswith(f"The function {function.__qualname__} cannot be a job: ")
    assert why in message
    assert message.endswith(f"{HERE}:{function.__code__.co_firstlineno})")
    assert "\n" not in message
    assert refused.value.__cause__ is None
    assert refused.value.__suppress_context__


def test_a_return_annotation_that_has_no_schema_is_refused_with_its_place():
    with pytest.raises(TypeError, match=rf"range'> \(what it returns, .*{HERE}:\d+\)$"):
        job(of_type(int, **{"return": range}))


def test_a_final_parameter_has_a_place_in_the_payload():
    assert run(job(of_type(Final[int])), good=1, bad=2) == 2


def test_a_worker_tells_an_odd_annotation_and_the_line_it_stands_in(tmp_path):
    file = tmp_path / "odd_annotation_shop.py"
    file.write_text('import jobroom\n\n\n@jobroom.job\ndef odd(x: "1/0"): ...\n')
    with pytest.raises(finding.CannotImport) as refused:
        finding.find_jobs(str(file))
    assert f"{file}:4)" in str(refused.value)
    assert [line for line in refused.value.frames if "typing" in line] == []


def test_the_function_around_a_method_has_its_signature():
    made = job(Scaler(3).scale)
    assert list(inspect.signature(made).parameters) == ["x", "more"]
