"""``PayloadInvalid`` says which field is wrong, and why, wherever its traceback is shown."""

from __future__ import annotations

import copy
import pickle
import traceback
from concurrent.futures import ThreadPoolExecutor

import pytest

from jobroom import job
from jobroom.errors import FieldError, PayloadInvalid
from jobroom.testing import Jobroom


@job
def add(a: int, b: int = 1) -> int:
    return a + b


@pytest.fixture(scope="module")
def opened():
    with Jobroom(add, room="r1") as room:
        yield room


def refused(room, *args, **fields):
    with pytest.raises(PayloadInvalid) as raised:
        room.client.submit("r1:modifiers:add", *args, **fields)
    return raised.value


@pytest.mark.parametrize(
    ("payload", "words"),
    [
        ({"a": "x"}, ["/payload/a", "integer"]),
        ({"a": 2, "priorty": 3}, ["priorty"]),
        ({}, ['"a" is a required property']),
        ({"a": "x", "b": "y"}, ["/payload/a: ", "/payload/b: "]),
    ],
)
def test_a_traceback_says_which_field_and_why(opened, payload, words):
    error = refused(opened, payload)
    told = "".join(traceback.format_exception(error))
    for word in words:
        assert word in told


def test_a_mistyped_option_is_named(opened):
    error = refused(opened, {"a": 2}, priorty=3)
    assert "priorty" in "".join(traceback.format_exception(error))


def test_only_the_first_faults_are_told():
    faults = tuple(FieldError(f"/payload/{n}", f"is wrong {n}") for n in range(5))
    error = PayloadInvalid("It does not fit; errors says why.", errors=faults)
    assert error.__notes__ == [f"/payload/{n}: is wrong {n}" for n in range(3)]
    assert str(error) == "It does not fit; errors says why."


def test_what_the_message_says_already_is_not_said_twice():
    fault = FieldError("/payload/a", "is missing")
    assert not hasattr(PayloadInvalid("a: is missing", errors=(fault,)), "__notes__")
    assert not hasattr(PayloadInvalid("It does not fit."), "__notes__")
    whole = PayloadInvalid("It does not fit.", errors=(FieldError("", "is no object"),))
    assert whole.__notes__ == ["the whole: is no object"]


def test_a_copy_says_the_same():
    error = PayloadInvalid("It does not fit.", errors=(FieldError("/payload/a", "is missing"),))
    for other in (copy.copy(error), pickle.loads(pickle.dumps(error))):  # noqa: S301
        assert other.__notes__ == error.__notes__ == ["/payload/a: is missing"]
        assert other.errors == error.errors


def test_a_payload_that_is_set_aside_by_map_is_told_by_its_own_fields(opened):
    payloads = [{"a": 1}, {"a": "x"}, {"a": 2}, {"b": 3}, {"a": "y"}]
    with ThreadPoolExecutor() as beside:
        mapped = beside.submit(
            lambda: list(opened.client.map("r1:modifiers:add", payloads, return_exceptions=True))
        )
        while not mapped.done():
            opened.run_all()
    told = {n: one for n, one in enumerate(mapped.result()) if isinstance(one, PayloadInvalid)}
    assert sorted(told) == [1, 3, 4]
    for error in told.values():
        assert "/tasks/" not in f"{error} {error.errors} {error.__notes__}"
        assert all(fault.pointer.startswith("/payload") for fault in error.errors)
