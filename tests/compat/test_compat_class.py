"""The class for pyantz, with stand-ins for its types; real runs are checked in ``tests/pyantz``."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any
from uuid import UUID

import pytest
import stand_in
import tables
from stand_in import (
    CompleteReturn,
    GetJobReturn,
    JobReturn,
    JobsReport,
    JobStatus,
    JobStatusReport,
    JobWithContext,
    PendingReturn,
)

from jobroom.embedded import SqliteQueue as Embedded
from jobroom.errors import ConfigurationError
from jobroom.testing import do_nothing

NAME = "jobroom.compat.pyantz"


@pytest.fixture
def compat(monkeypatch) -> Iterator[ModuleType]:
    """The module, imported where pyantz's types can be."""
    for name, module in stand_in.modules().items():
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.delitem(sys.modules, NAME, raising=False)
    yield import_module(NAME)
    sys.modules.pop(NAME)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The name that pyantz gives its file."""
    return tmp_path / "queue.db"


@pytest.fixture
def queue(compat, path: Path) -> Any:
    """A queue on a new file."""
    return compat.SqliteQueue(path)


def job(job_id: str, *needs: str, **more: Any) -> JobWithContext:
    """A job that does nothing."""
    more = {"parameters": {}, "depends_on": set(needs) or None, **more}
    return JobWithContext(job_id=job_id, function=do_nothing, **more)


def test_what_comes_out_is_of_pyantz_s_own_classes(queue) -> None:
    """Graph contract, *The real client*: pyantz matches by class."""
    one, two = job("one", parameters={"x": ["é", 1.0]}), job("two", "one")
    assert queue.add_job(one, None) is True
    assert queue.add_job(two, None) is True
    assert queue.add_job(one, None) is False
    got = queue.get_job()
    assert (type(got), type(got.payload)) == (GetJobReturn, JobReturn)
    assert got.payload.job == one
    assert type(got.payload.job) is JobWithContext
    waiting = queue.get_job().payload
    assert (type(waiting), type(waiting.jobs_report)) == (PendingReturn, JobsReport)
    assert (waiting.jobs_report.running, waiting.jobs_report.pending) == (1, 1)
    queue.update_job_status("one", JobStatus.ERROR, "no")
    ended = queue.get_job().payload
    assert (type(ended), ended.jobs_report.error) == (CompleteReturn, 2)
    found = queue.get_job_status("one")
    assert (type(found), type(found.status)) == (JobStatusReport, JobStatus)
    assert (found.status, found.status_details) == (JobStatus.ERROR, "no")
    failed = queue.get_failed_jobs()
    assert [each.job_id for each in failed] == ["one", "two"]
    assert {type(each) for each in failed} == {JobStatusReport}


def test_it_is_a_queue_of_pyantz_s(compat) -> None:
    assert stand_in.QueueInterface in compat.SqliteQueue.__mro__


def test_a_child_holds_up_what_waits_for_its_parent(queue) -> None:
    parent = "0190163d-8694-739b-aea5-966c26f8ad91"
    for each in (job(parent), job("after", parent)):
        queue.add_job(each, None)
    queue.get_job()
    assert queue.add_job(job("child"), UUID(parent)) is True
    queue.update_job_status(UUID(parent), JobStatus.SUCCESS)
    assert queue.get_job_ids_with_status(JobStatus.PENDING) == ["after"]
    assert queue.get_job().payload.job.job_id == "child"


def test_a_retry_as_pyantz_does_it(queue) -> None:
    queue.add_job(job("one", max_retries=1), None)
    taken = queue.get_job().payload.job
    queue.change_config_in_place(taken.model_copy(update={"num_attempted_runs": 1}))
    queue.update_job_status("one", JobStatus.PENDING)
    assert queue.get_job().payload.job.num_attempted_runs == 1


def test_the_jobs_of_a_worker_that_died_and_deadlocks_fail(queue) -> None:
    for each in (job("one"), job("after", "one"), job("stuck", "ghost")):
        queue.add_job(each, None)
    queue.get_job()
    queue.set_job_worker("one", 4711)
    assert queue.fail_jobs_of_worker(4711) == ["one"]
    assert queue.fail_deadlocked_jobs() == ["stuck"]
    report = queue.get_jobs_report()
    assert (type(report), report.total, report.error) == (JobsReport, 3, 3)


def test_what_is_no_job_or_no_status_is_an_error(queue) -> None:
    queue.add_job(job("one"), None)
    for call in (
        lambda: queue.get_job_status("ghost"),
        lambda: queue.update_job_status("ghost", JobStatus.SUCCESS),
        lambda: queue.change_config_in_place(job("ghost")),
        lambda: queue.set_job_worker("ghost", 1),
    ):
        with pytest.raises(KeyError):
            call()
    with pytest.raises(ValueError, match="77"):
        queue.update_job_status("one", 77)


def test_a_job_that_cannot_be_loaded_is_an_error_with_the_reason(queue, path: Path) -> None:
    """Graph contract: and the next one is returned."""
    queue.add_job(job("bad"), None)
    queue.add_job(job("good"), None)
    gone = "replace(payload, 'do_nothing', 'is_no_more')"
    with Embedded(path) as ours:
        tables.write(
            ours._jobs.queue(),
            f"UPDATE task SET payload = {gone} WHERE key = 'bad'",  # noqa: S608 - ours
        )
    assert queue.get_job().payload.job.job_id == "good"
    found = queue.get_job_status("bad")
    assert found.status == JobStatus.ERROR
    assert found.status_details.startswith("The stored config of this job cannot be loaded: ")
    assert "is_no_more" in found.status_details


def test_a_job_is_loaded_before_it_is_taken(compat, queue, monkeypatch) -> None:
    """Loading imports its function: what others have ready must not overtake it meanwhile."""
    queue.add_job(job("one"), None)
    seen = []
    load = compat._load

    def watched(config: str) -> Any:
        seen.append(queue.get_job_status("one").status.name)
        return load(config)

    monkeypatch.setattr(compat, "_load", watched)
    assert queue.get_job().payload.job.job_id == "one"
    assert seen == ["READY"]


def test_what_another_has_taken_meanwhile_is_no_loss(compat, queue, monkeypatch) -> None:
    for each in (job("one"), job("two")):
        queue.add_job(each, None)
    other = compat.SqliteQueue(queue.database_file)
    load = compat._load
    monkeypatch.setattr(compat, "_load", lambda config: (other._jobs.take(), load(config))[1])
    assert queue.get_job().payload.job == job("two")
    assert queue.get_jobs_report().running == 2


def test_a_file_that_was_removed_and_made_anew_is_another_queue(compat, queue, path: Path) -> None:
    """pyantz removes these three before each run, whoever still has the queue of the one before."""
    queue.add_job(job("old"), None)
    for suffix in ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
    new = compat.SqliteQueue(path)
    new.add_job(job("new"), None)
    assert queue.get_job_ids_with_status(JobStatus.READY) == ["new"]
    assert queue.get_job().payload.job.job_id == "new"
    assert new.get_job_status("new").status == JobStatus.RUNNING
    assert queue.add_job(job("old"), None) is True


def test_a_file_that_was_removed_is_made_again(queue, path: Path) -> None:
    queue.add_job(job("old"), None)
    for suffix in ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
    assert queue.get_jobs_report().total == 0
    assert path.exists()


def test_it_is_pickled_by_its_path(queue, path: Path, monkeypatch, tmp_path: Path) -> None:
    queue.add_job(job("one"), None)
    there = pickle.dumps(queue)
    monkeypatch.chdir(tmp_path.parent)
    again = pickle.loads(there)  # noqa: S301 - ours
    assert again.database_file == path
    assert again.get_job().payload.job.job_id == "one"
    assert str(path) in repr(again)


def test_the_files_are_those_that_pyantz_removes(queue, path: Path) -> None:
    queue.add_job(job("one"), None)
    assert {each.name for each in path.parent.iterdir()} <= {
        "queue.db",
        "queue.db-wal",
        "queue.db-shm",
    }


def test_a_file_that_cannot_be_used_is_a_clear_error(compat, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="does not exist; make it first"):
        compat.SqliteQueue(tmp_path / "no" / "queue.db")


def test_the_embedded_queue_shows_the_same_jobs(queue, path: Path) -> None:
    queue.add_job(job("one", max_retries=2), None)
    with Embedded(path) as ours:
        assert ours.get_jobs_report().ready == 1
        assert ours.get_job().payload.job.max_retries == 2
