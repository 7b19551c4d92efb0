"""What the jobs of a pyantz queue are in ours (graph contract: the table of statuses)."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import old_queue
import pytest
import tables
from old_queue import CASCADE, ERROR, NOP, PENDING, READY, RUNNING, SUCCESS, OldQueue

from jobroom.embedded import JobStatus, JobWithContext, SqliteQueue
from jobroom.service import importing, old_jobs
from jobroom.service.importing import Fault, Importing
from jobroom.service.old_jobs import Running
from jobroom.service.queue import JobQueue
from jobroom.store import pyantz_file


@pytest.fixture
def old(tmp_path: Path) -> OldQueue:
    """A file of pyantz's, open to be filled."""
    return OldQueue(tmp_path / "old.db")


@pytest.fixture
def bring(old: OldQueue, queue: JobQueue) -> Callable[..., Importing]:
    """Imports the file."""

    def bring(running: Running = "requeue") -> Importing:
        with pyantz_file.open_file(old.close()) as file:
            one = Importing(queue, file, running=running)
            list(one.run())
            assert one.cycle is None
        return one

    return bring


@pytest.fixture
def ours(queue: JobQueue) -> Iterator[SqliteQueue]:
    """The same database as the embedded queue shows it."""
    with SqliteQueue(Path(queue.database.location)) as opened:
        yield opened


def said(ours: SqliteQueue, *job_ids: str) -> list[tuple[str, str | None]]:
    """Status and details of jobs."""
    found = [ours.get_job_status(job_id) for job_id in job_ids]
    return [(each.status.name, each.status_details) for each in found]


def drain(ours: SqliteQueue) -> list[str]:
    """Run all that can be run; the ids in the order in which they were taken."""
    order = []
    while (payload := ours.get_job().payload).type_ == "job":
        order.append(payload.job.job_id)
        ours.update_job_status(payload.job.job_id, JobStatus.SUCCESS)
    return order


def columns(queue: JobQueue, job_id: str, names: str) -> tuple[Any, ...]:
    """Columns of a task."""
    [row] = tables.read(queue, f"SELECT {names} FROM task WHERE key = '{job_id}'")  # noqa: S608 - ours
    return row


def test_each_status_becomes_ours(old, bring, ours) -> None:
    old.add("ready", READY)
    old.add("done", SUCCESS, details="fine")
    old.add("broken", ERROR, details="ValueError: no")
    old.add("waits", PENDING, ["ready"])
    done = bring().done
    assert dict(done.statuses) == {"pending": 1, "completed": 1, "failed": 1, "blocked": 1}
    assert (done.jobs, done.edges, done.known, done.faults) == (4, 1, 0, [])
    assert said(ours, "ready", "done", "broken", "waits") == [
        ("READY", None),
        ("SUCCESS", "fine"),
        ("ERROR", "ValueError: no"),
        ("PENDING", None),
    ]
    assert ours.get_jobs_report().total == 4


def test_a_config_comes_back_as_it_was(old, bring, ours, queue) -> None:
    """Chunks of 2,000 characters, whatever is cut apart by them."""
    parameters = {"text": 'é漢😀\\"\x00' * 3000, "numbers": [1.0, 10**30]}
    text = old_queue.config("big", parameters=parameters, max_retries=4, timeout_seconds=2.5)
    assert len(text) > 4 * old_queue.CHUNKSIZE
    old.add("big", text=text)
    bring()
    assert columns(queue, "big", "payload, max_attempts, timeout_seconds") == (text, 5, 2.5)
    taken = ours.get_job().payload.job
    assert (taken.job_id, taken.parameters, taken.max_retries) == ("big", parameters, 4)


def test_a_job_is_named_by_its_function_and_known_by_its_id(old, bring, queue) -> None:
    """Ids as in the embedded queue: a UUID is the task's, of other text one is made."""
    as_uuid = "0190163D-8694-739B-AEA5-966C26F8AD91"
    old.add(as_uuid)
    old.add("text")
    bring()
    [names] = tables.read(queue, "SELECT room_id, category, name FROM job")
    assert names == ("@local", "functions", NOP)
    assert columns(queue, as_uuid, "id, created_by_id") == (as_uuid.lower(), "")
    assert uuid.UUID(columns(queue, "text", "id")[0]).version == 5


def test_they_are_taken_in_the_order_of_the_queue(old, bring, ours) -> None:
    for job_id in ("a", "b", "c", "d"):
        old.add(job_id)
    # As pyantz does with a job that is tried again: it was taken, and goes to the end.
    old.run("DELETE FROM job_queue WHERE job_id = 'b'")
    old.run("INSERT INTO job_queue (job_id) VALUES ('b')")
    bring()
    assert drain(ours) == ["a", "c", "d", "b"]


def test_one_that_waited_keeps_its_place(old, bring, ours) -> None:
    old.add("first", PENDING, ["last"])
    old.add("second")
    old.add("last")
    bring()
    ours.get_job()
    ours.update_job_status("last", JobStatus.SUCCESS)
    assert drain(ours) == ["first"]


@pytest.mark.parametrize("batch", [1, 2, 100])
def test_dependencies_may_come_behind_what_waits_for_them(old, bring, ours, monkeypatch, batch):
    """In whichever transaction: their end settles what was brought before."""
    monkeypatch.setattr(importing, "NEAR_BATCH", batch)
    old.add("on-done", PENDING, ["done"])
    old.add("on-failed", PENDING, ["failed"])
    old.add("on-that", PENDING, ["on-failed", "done"])
    old.add("on-open", PENDING, ["open", "done"])
    old.add("failed", ERROR, details="no")
    old.add("done", SUCCESS)
    old.add("open", READY)
    done = bring().done
    assert dict(+done.statuses) == {"pending": 2, "completed": 1, "failed": 3, "blocked": 1}
    assert said(ours, "on-done", "on-failed", "on-that", "on-open") == [
        ("READY", None),
        ("ERROR", CASCADE),
        ("ERROR", CASCADE),
        ("PENDING", None),
    ]
    assert drain(ours) == ["on-done", "open", "on-open"]


def test_what_pyantz_had_not_settled_yet_is_settled(old, bring, ours) -> None:
    """It goes one step down with each poll; a run that was killed has left the rest."""
    old.add("failed", ERROR, details="no")
    old.add("done", SUCCESS)
    for depth, needed in enumerate(["failed", "x0", "x1", "x2"]):
        old.add(f"x{depth}", PENDING, [needed])
    old.add("free", PENDING, ["done"])
    done = bring().done
    assert done.statuses["failed"] == 5
    assert said(ours, "x0", "x3", "free") == [
        ("ERROR", CASCADE),
        ("ERROR", CASCADE),
        ("READY", None),
    ]


def test_a_dependency_that_never_came_is_waited_for(old, bring, ours) -> None:
    old.add("stuck", PENDING, ["ghost"])
    bring()
    assert said(ours, "stuck") == [("PENDING", None)]
    ours.add_job(JobWithContext(job_id="ghost", function=NOP, parameters={}), None)
    assert drain(ours) == ["ghost", "stuck"]


def test_a_cascade_is_known_as_one(old, bring, ours, queue) -> None:
    """So that a retry over REST brings it again together with its cause."""
    old.add("cause", ERROR, details="no", worker_id=7)
    old.add("fell", ERROR, ["cause"], details=CASCADE)
    bring()
    cause = columns(queue, "cause", "id")[0]
    told = columns(queue, "fell", "failed_by, error, starts")
    assert told == (cause, f"dependency {cause} failed", 0)
    assert said(ours, "fell") == [("ERROR", CASCADE)]


def test_the_worker_is_kept_as_text(old, bring, queue) -> None:
    old.add("done", SUCCESS, worker_id=4711)
    bring()
    assert columns(queue, "done", "worker_id, attempt, starts") == ("4711", 1, 1)


@pytest.mark.parametrize(("condition", "status"), [("afterok", "ERROR"), ("afterany", "READY")])
def test_a_job_that_waits_does_so_by_its_own_condition(old, bring, ours, condition, status) -> None:
    """pyantz's local runner knows ``afterok`` alone; here the others work (graph contract)."""
    old.add("failed", ERROR)
    old.add("waits", PENDING, ["failed"], dependency_type=condition)
    bring()
    assert said(ours, "waits")[0][0] == status


def test_a_job_that_pyantz_let_run_stays_ready(old, bring, ours) -> None:
    old.add("done", SUCCESS)
    old.add("ready", READY, ["done"], dependency_type="afternotok")
    bring()
    assert said(ours, "ready") == [("READY", None)]


def test_one_that_was_running_is_queued_again_in_its_old_place(old, bring, ours) -> None:
    old.add("ran", RUNNING, worker_id=7, num_attempted_runs=1, max_retries=3)
    old.add("after", PENDING, ["ran"])
    old.add("other")
    done = bring().done
    assert (done.were_running, dict(done.statuses)) == (1, {"pending": 2, "blocked": 1})
    assert drain(ours) == ["ran", "after", "other"]


def test_or_failed_where_that_is_asked_for(old, bring, ours) -> None:
    old.add("ran", RUNNING, worker_id=7)
    old.add("after", PENDING, ["ran"])
    done = bring("fail").done
    assert (done.were_running, dict(done.statuses)) == (1, {"failed": 2})
    assert said(ours, "ran", "after") == [
        ("ERROR", old_jobs.WAS_RUNNING),
        ("ERROR", CASCADE),
    ]


DAMAGES = {
    "no chunks": ("DELETE FROM queue_items WHERE job_id = 'bad'", "no stored configuration"),
    "no first chunk": (
        "DELETE FROM queue_items WHERE job_id = 'bad' AND job_subindex = 0",
        "chunks of its configuration are missing",
    ),
    "a gap": (
        "DELETE FROM queue_items WHERE job_id = 'bad' AND job_subindex = 1",
        "chunks of its configuration are missing",
    ),
    "no last chunk": (
        "DELETE FROM queue_items WHERE job_id = 'bad' AND job_subindex = 2",
        "its configuration is no JSON",
    ),
    "no UTF-8": (
        "UPDATE queue_items SET job_config_content = CAST(x'ff' AS TEXT) WHERE job_subindex = 1",
        "its configuration is no UTF-8",
    ),
    "an unknown status": (
        "UPDATE job_status SET job_status = 9 WHERE job_id = 'bad'",
        "its status 9 is none of pyantz's",
    ),
    "no status": (
        "DELETE FROM job_status WHERE job_id = 'bad'",
        "its status None is none of pyantz's",
    ),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_job_is_imported_as_failed_with_the_reason(old, bring, ours, damage) -> None:
    sql, reason = DAMAGES[damage]
    old.add("bad", parameters={"x": "y" * 5000})
    old.add("after", PENDING, ["bad"])
    old.add("good")
    old.run(sql)
    [fault] = bring().done.faults
    assert fault.job_id == "bad"
    assert reason in fault.reason
    assert said(ours, "bad", "after") == [
        ("ERROR", f"could not be imported: {fault.reason}"),
        ("ERROR", CASCADE),
    ]
    assert drain(ours) == ["good"]


@pytest.mark.parametrize(
    "text",
    ["[]", "{}", '{"function": 7}', '{"function": "a:b"}', '{"function": "a.b", "x": NaN}', "["],
)
def test_a_config_that_is_no_job_is_imported_as_failed(old, bring, ours, text) -> None:
    old.add("bad", text=text)
    [fault] = bring().done.faults
    assert fault.reason.startswith("its configuration ")
    assert said(ours, "bad") == [("ERROR", f"could not be imported: {fault.reason}")]


def test_one_that_had_ended_keeps_its_end_without_its_config(old, bring, ours) -> None:
    """Nobody runs it again, and others may have been let run by it."""
    old.add("done", SUCCESS, details="fine")
    old.add("waits", PENDING, ["done"])
    old.run("DELETE FROM queue_items WHERE job_id = 'done'")
    assert bring().done.faults == [Fault("done", "it has no stored configuration")]
    assert said(ours, "done", "waits") == [("SUCCESS", "fine"), ("READY", None)]


def test_a_dependency_may_be_spelled_as_another_uuid(old, bring, ours) -> None:
    """Here it is the same job, whose end is waited for."""
    job_id = "0190163d-8694-739b-aea5-966c26f8ad91"
    old.add(job_id)
    old.add("waits", PENDING, [job_id.upper()])
    bring()
    assert drain(ours) == [job_id, "waits"]


def test_two_spellings_of_one_uuid_are_told_of(old, bring) -> None:
    first = "0190163d-8694-739b-aea5-966c26f8ad91"
    old.add(first)
    old.add(first.upper())
    done = bring().done
    [fault] = done.faults
    assert (done.jobs, fault.job_id) == (1, first.upper())
    assert fault.reason.startswith("not imported: its id is the same UUID")


def test_jobs_that_wait_for_each_other_are_named(old, queue) -> None:
    """pyantz lets them in, and they never run."""
    for job_id, needed in {"a": "c", "b": "a", "c": "b", "d": "a"}.items():
        old.add(job_id, PENDING, [needed])
    with pyantz_file.open_file(old.close()) as file:
        one = Importing(queue, file, running="requeue")
        list(one.run())
        assert one.cycle == ["a", "c", "b", "a"]
    assert one.done.statuses["blocked"] == 4


def test_a_second_import_brings_nothing_and_changes_nothing(old, bring, ours, queue) -> None:
    old.add("a")
    old.add("b", PENDING, ["a"])
    old.add("bad", text="{}")
    bring()
    ours.get_job()
    ours.update_job_status("a", JobStatus.SUCCESS, "since then")
    before = tables.read(queue, "SELECT * FROM task ORDER BY seq")
    with pyantz_file.open_file(old.path) as file:
        again = Importing(queue, file, running="requeue")
        assert list(again.run()) == [3]
    assert (again.done.jobs, again.done.known, again.done.faults) == (0, 3, [])
    assert tables.read(queue, "SELECT * FROM task ORDER BY seq") == before


def test_one_that_was_cut_off_goes_on_where_it_was(old, bring, ours, queue, monkeypatch) -> None:
    """Whatever has ended in between: an edge that comes later sees it."""
    monkeypatch.setattr(importing, "NEAR_BATCH", 2)
    old.add("a")
    old.add("b")
    old.add("on-a", PENDING, ["a"])
    old.add("on-b", PENDING, ["b"])
    with pyantz_file.open_file(old.close()) as file:
        assert next(Importing(queue, file, running="requeue").run()) == 2
    ours.get_job()
    ours.update_job_status("a", JobStatus.SUCCESS)
    ours.get_job()
    ours.update_job_status("b", JobStatus.ERROR)
    with pyantz_file.open_file(old.path) as file:
        rest = Importing(queue, file, running="requeue")
        list(rest.run())
    assert (rest.done.jobs, rest.done.known) == (2, 2)
    assert said(ours, "on-a", "on-b") == [("READY", None), ("ERROR", CASCADE)]


def test_others_that_wait_for_an_imported_job_are_settled(old, bring, ours) -> None:
    """It may be named in our queue before it is imported."""
    for job_id, needed in {"on-done": "done", "on-open": "open"}.items():
        job = JobWithContext(job_id=job_id, function=NOP, parameters={}, depends_on={needed})
        ours.add_job(job, None)
    old.add("done", SUCCESS)
    old.add("open", READY)
    bring()
    assert said(ours, "on-done", "on-open") == [("READY", None), ("PENDING", None)]
    assert drain(ours) == ["on-done", "open", "on-open"]


def test_the_payload_is_json_whatever_the_config_was(old, bring, queue) -> None:
    """REST shows it as the payload."""
    old.add("bad", text="no JSON")
    old.add("good")
    bring()
    for (payload,) in tables.read(queue, "SELECT payload FROM task"):
        assert isinstance(json.loads(payload), dict)
