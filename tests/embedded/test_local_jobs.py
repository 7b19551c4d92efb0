"""What a job of the embedded queue may be (graph contract, ``JobWithContext``)."""

from __future__ import annotations

import functools
import pickle
from uuid import UUID, uuid4

import jobmaker
import pytest
from pydantic import ValidationError

from jobroom.embedded import (
    GetJobReturn,
    JobReturn,
    JobsReport,
    JobStatus,
    JobWithContext,
    PendingReturn,
)
from jobroom.embedded.jobs import written
from jobroom.embedded.returns import counted_later
from jobroom.testing import do_nothing


class Holder:
    def method(self, parameters, submit):
        return True

    @staticmethod
    def static(parameters, submit):
        return True

    def __call__(self, parameters, submit):
        return True


def test_a_job_has_the_defaults_of_the_contract() -> None:
    made = JobWithContext(function=jobmaker.NOP, parameters={})
    assert UUID(made.job_id).version == 4
    assert made.model_dump(exclude={"job_id"}) == {
        "depends_on": None,
        "parameters": {},
        "strict": False,
        "name": None,
        "function": jobmaker.NOP,
        "num_attempted_runs": 0,
        "timeout_seconds": None,
        "max_retries": 0,
        "dependency_type": "afterok",
        "virtual": False,
        "variables": None,
    }


def test_a_job_cannot_be_changed() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        jobmaker.job("a").name = "other"  # type: ignore[misc]  # that is the point


def test_a_function_is_kept_as_its_path() -> None:
    assert jobmaker.job("a", function=do_nothing).function == "jobroom.testing.do_nothing"
    assert jobmaker.job("a", function=Holder.static).function == f"{__name__}.Holder.static"
    assert jobmaker.job("a", function=print).function == "builtins.print"


def _inside():
    def function(parameters, submit):
        return True

    return function


def _renamed(parameters, submit):
    return True


_other, _renamed = _renamed, do_nothing


@pytest.mark.parametrize(
    ("function", "why"),
    [
        (lambda parameters, submit: True, "lambda"),
        (_inside(), "inside another"),
        (Holder().method, "belongs to an object"),
        (Holder(), "no name"),
        (functools.partial(do_nothing, {}), "no name"),
        (_other, "not what was given"),
        ("do_nothing", "no dotted path"),
        ("a..b", "no dotted path"),
        ("a.b:c", "no dotted path"),
        ("a.b c", "no dotted path"),
        ("", "no dotted path"),
        (f"a.{'b' * 254}", "at most 255"),
        (7, "valid string"),
    ],
)
def test_a_function_that_nobody_else_would_find_is_refused(function, why) -> None:
    with pytest.raises(ValidationError, match=why):
        jobmaker.job("a", function=function)


@pytest.mark.parametrize(
    "wrong",
    [
        {"job_id": ""},
        {"job_id": "\ud800"},
        {"depends_on": {""}},
        {"timeout_seconds": 0},
        {"timeout_seconds": float("inf")},
        {"max_retries": -1},
        {"num_attempted_runs": -1},
        {"dependency_type": "after"},
        {"virtual": True},
        {"parameters": None},
    ],
)
def test_what_no_job_can_have_is_refused(wrong) -> None:
    with pytest.raises(ValidationError):
        JobWithContext(**{"function": jobmaker.NOP, "parameters": {}, **wrong})


def test_uuids_are_taken_for_their_text() -> None:
    one, other = uuid4(), uuid4()
    made = JobWithContext(job_id=one, depends_on={other}, function=jobmaker.NOP, parameters={})
    assert (made.job_id, made.depends_on) == (str(one), {str(other)})


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_a_number_that_json_has_not_is_refused_and_not_changed(queue, number) -> None:
    with pytest.raises(ValueError, match="JSON cannot"):
        jobmaker.add(queue, "a", parameters={"deep": [number]})
    assert jobmaker.counts(queue) == {}


def test_a_text_that_only_looks_like_such_a_number_is_kept(queue) -> None:
    assert jobmaker.add(queue, "a", parameters={"said": "NaN and Infinity"})
    assert queue.get_job().payload.job.parameters == {"said": "NaN and Infinity"}


@pytest.mark.parametrize("value", [object(), "\ud800", b"\xff"])
def test_a_parameter_that_json_cannot_hold_is_refused(queue, value) -> None:
    with pytest.raises(ValueError, match="cannot be written as JSON"):
        jobmaker.add(queue, "a", parameters={"it": value})


def test_a_config_comes_back_as_it_was(queue) -> None:
    """Graph contract: large configs round-trip exactly, multi-byte ones too."""
    parameters = {
        "text": 'é漢😀\\"\0\x7f' * 1000,
        "numbers": [2**70, -(2**70), 0.1, 1e-320, 1.7976931348623157e308, -0.0],
        "nested": {"": [None, True, {}]},
    }
    given = jobmaker.job(
        "é\0x",
        parameters=parameters,
        variables={"a": [1]},
        name="n",
        strict=True,
        num_attempted_runs=3,
        timeout_seconds=0.1,
        max_retries=4,
    )
    assert queue.add_job(given, None)
    assert queue.get_job().payload.job == given
    assert jobmaker.status(queue, "é\0x") == "RUNNING"


def test_a_config_of_five_megabytes_comes_back_as_it_was(queue) -> None:
    big = 'é漢😀"\\' * 420_000
    given = jobmaker.job("big", parameters={"big": big})
    assert len(written(given).encode()) > 5_000_000
    assert queue.add_job(given, None)
    assert queue.get_job().payload.job == given


def test_a_report_is_counted_when_it_is_first_looked_at() -> None:
    asked = []

    def count() -> JobsReport:
        asked.append(1)
        return JobsReport(total=1, success=0, error=0, pending=0, ready=0, running=1)

    result = GetJobReturn(payload=PendingReturn(jobs_report=counted_later(count)))
    assert isinstance(result.payload.jobs_report, JobsReport)
    assert not asked
    assert result.payload.jobs_report == count()
    assert asked == [1, 1]
    assert type(result.payload.jobs_report) is JobsReport
    assert result.payload.jobs_report.running == 1
    assert asked == [1, 1]


def _pickled(report: JobsReport) -> object:
    return pickle.loads(pickle.dumps(report))  # noqa: S301 - made on the line


@pytest.mark.parametrize("look", [repr, _pickled, JobsReport.model_dump, JobsReport.model_copy])
def test_a_report_that_was_not_looked_at_yet_is_whole_however_it_is_looked_at(look) -> None:
    plain = JobsReport(total=0, success=0, error=0, pending=0, ready=0, running=0)
    later = counted_later(plain.model_copy)
    looked = look(later)
    assert looked == look(plain)
    assert later.model_fields_set == plain.model_fields_set


def test_a_report_inside_an_answer_is_whole_in_its_json() -> None:
    plain = JobsReport(total=0, success=0, error=0, pending=0, ready=0, running=0)
    answers = [
        GetJobReturn(payload=PendingReturn(jobs_report=report))
        for report in (counted_later(plain.model_copy), plain)
    ]
    assert answers[0].model_dump_json() == answers[1].model_dump_json()
    assert GetJobReturn.model_validate_json(answers[0].model_dump_json()) == answers[0]


def test_all_succeeded_says_that_nothing_failed_and_nothing_is_left() -> None:
    none = dict.fromkeys(("total", "success", "error", "pending", "ready", "running"), 0)
    assert JobsReport(**none).all_succeeded
    assert JobsReport(**{**none, "total": 1, "success": 1}).all_succeeded
    for name in ("error", "pending", "ready", "running"):
        assert not JobsReport(**{**none, "total": 1, name: 1}).all_succeeded


def test_the_statuses_have_the_numbers_of_the_contract() -> None:
    assert {status.name: int(status) for status in JobStatus} == {
        "READY": 0,
        "PENDING": 1,
        "RUNNING": 2,
        "ERROR": 3,
        "SUCCESS": 4,
    }


def test_the_kinds_of_answers_are_told_apart_by_their_type() -> None:
    answer = GetJobReturn(payload=JobReturn(job=jobmaker.job("a", "b")))
    assert GetJobReturn.model_validate_json(answer.model_dump_json()) == answer
