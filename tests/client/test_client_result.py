"""A result that JSON cannot carry fails its task for good, and the error says where it is."""

from __future__ import annotations

import ctypes
import math
import sys
from pathlib import Path

import pytest
from pydantic import BaseModel, ConfigDict, RootModel, model_serializer

from jobroom.client import result as results
from jobroom.client.extension import Extension


class Rotate(Extension):
    def run(self, vis, **kwargs):
        return vis.work()


class Loose(BaseModel):
    model_config = ConfigDict(arbitrary_types_allowed=True)

    e: object


class Typed(BaseModel):
    e: float


class Rude(BaseModel):
    @model_serializer
    def say(self):
        raise LookupError("not today")


class Stubborn(dict):
    def items(self):
        raise LookupError("no items")


class Deep:
    """A list that holds itself."""

    def __new__(cls):
        endless = []
        endless.append(endless)
        return endless


@pytest.fixture
def run(server, vis):
    def go(result):
        vis.work = lambda: result
        vis.jobs.register(Rotate, room="r1", max_attempts=3)
        task = server.add_task("r1:modifiers:Rotate")
        next(vis.jobs.listen(0.05)).run(vis)
        return task

    return go


@pytest.mark.parametrize(
    ("result", "error"),
    [
        ({"e": math.inf}, "float at /e is not finite"),
        (math.nan, "float at the top is not finite"),
        ({"e": [1, {"f": -math.inf}]}, "float at /e/1/f is not finite"),
        ({"e": ctypes.c_float(1.0)}, "c_float at /e is no JSON type"),  # as numpy's scalars are
        (b"abc", "bytes at the top is no JSON type"),
        ([{1, 2}], "set at /0 is no JSON type"),
        ((n for n in ()), "generator at the top is no JSON type"),
        ({"a": object()}, "object at /a is no JSON type"),
        ({"a": {"b/c": Path()}}, f"{type(Path()).__name__} at /a/b~1c is no JSON type"),
        ({"a": Loose(e=1)}, "Loose at /a is no JSON type"),
        ({"a": {None: 1, (1,): 2}}, "dict at /a has a key that is a tuple, not a str"),
        (Deep(), "too deep, or holds itself"),
        (Typed(e=math.inf), "float at /e is not finite"),
        (Loose(e=object()), "Loose has no JSON: "),
        (Rude(), "Rude has no JSON: "),
        (Stubborn(a=1), "LookupError: no items"),
        (10 ** (sys.get_int_max_str_digits() + 1), "ValueError: "),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_it_fails_for_good_naming_the_place_and_the_type(run, caplog, result, error):
    task = run(result)
    assert task["status"] == "failed"
    assert task["result"] is None
    assert task["error"].startswith("the result is not JSON: ")
    assert error in task["error"]
    assert "\n" not in task["error"]
    assert task["reports"][-1]["final"] is True
    assert [one.getMessage().split()[0] for one in caplog.records] == ["task.failed"]


@pytest.mark.parametrize(
    ("result", "kept"),
    [({1: (2, 3)}, {"1": [2, 3]}), ({"a": None}, {"a": None}), (RootModel[int](3), 3)],
)
def test_what_json_can_carry_is_kept(run, result, kept):
    task = run(result)
    assert (task["status"], task["result"]) == ("completed", kept)


def test_a_value_without_a_fault_has_none():
    assert results.fault_of({"a": [1, 2.5, None, True, "x", (1,)], 3: {}}) is None
