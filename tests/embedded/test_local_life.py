"""The life of one job in the embedded queue (graph contract, the table of methods)."""

from __future__ import annotations

import logging
import sqlite3
from contextlib import closing
from uuid import UUID, uuid4

import jobmaker
import pytest
from jobmaker import add, again, counts, details, fail, job, status, succeed, take

from jobroom.domain.local import task_id_of
from jobroom.embedded import JobStatus


def row(path, job_id: str) -> dict[str, object]:
    with closing(sqlite3.connect(path)) as connection:
        connection.row_factory = sqlite3.Row
        connection.text_factory = lambda stored: stored.decode(errors="replace")
        found = connection.execute(
            "SELECT task.*, job.room_id || ':' || job.category || ':' || job.name AS job_name"
            " FROM task JOIN job ON job.seq = job_seq WHERE task.id = ?",
            (task_id_of(job_id),),
        ).fetchone()
    return dict(found)


def write(path, sql: str, *values: object) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA ignore_check_constraints = ON")
        assert connection.execute(sql, values).rowcount == 1


def test_a_job_is_a_task_of_the_room_local(queue, path) -> None:
    """Graph contract: the file is that of the REST queue."""
    add(queue, "relax", max_retries=2, timeout_seconds=1.5)
    stored = row(path, "relax")
    assert UUID(str(stored["id"])).version == 5
    assert (stored["key"], stored["room_id"]) == ("relax", "@local")
    assert stored["job_name"] == "@local:functions:jobroom.testing.do_nothing"
    assert (stored["status"], stored["max_attempts"]) == ("pending", 3)
    assert stored["timeout_seconds"] == 1.5


def test_a_uuid_is_taken_as_the_id_itself(queue, path) -> None:
    name = str(uuid4())
    add(queue, name.upper())
    assert row(path, name)["id"] == name
    assert queue.get_job_status(UUID(name)).job_id == name.upper()
    assert not add(queue, name)


def test_a_job_is_added_once(queue) -> None:
    """Number 8 (c): False, and nothing is changed; even for a finished one."""
    assert add(queue, "a", parameters={"n": 1})
    assert not add(queue, "a", parameters={"n": 2})
    assert queue.get_job().payload.job.parameters == {"n": 1}
    succeed(queue, "a")
    assert not add(queue, "a")
    assert not add(queue, "a", "unknown", parent="b")
    assert counts(queue) == {"total": 1, "success": 1}


def test_nothing_is_left_behind_by_a_job_that_is_there_already(queue, path) -> None:
    add(queue, "a")
    assert not add(queue, "a", function="other.function")
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT name FROM job").fetchall() == [(jobmaker.NOP,)]


def test_jobs_are_taken_in_the_order_in_which_they_were_added(queue) -> None:
    for n in range(5):
        add(queue, str(n), function=f"package.f{n % 2}")
    assert [take(queue) for _ in range(6)] == ["0", "1", "2", "3", "4", "pending"]


def test_after_it_was_taken_a_job_runs(queue) -> None:
    """Number 8 (e): the report says running=1."""
    add(queue, "a")
    take(queue)
    assert counts(queue) == {"total": 1, "running": 1}


def test_an_empty_queue_is_complete(queue) -> None:
    result = queue.get_job()
    assert result.payload.type_ == "complete"
    assert result.payload.jobs_report.total == 0


def test_while_anything_is_under_way_the_answer_is_pending(queue) -> None:
    add(queue, "a")
    add(queue, "b", "a")
    take(queue)
    result = queue.get_job()
    assert (result.payload.type_, result.payload.jobs_report.pending) == ("pending", 1)
    succeed(queue, "a")
    assert take(queue) == "b"
    assert take(queue) == "pending"
    fail(queue, "b")
    assert take(queue) == "complete"
    assert counts(queue) == {"total": 2, "success": 1, "error": 1}


@pytest.mark.parametrize(
    ("told", "shown"),
    [
        ("it broke", "it broke"),
        ("", ""),
        (None, None),
        ("é\n\t漢😀\x1b[31m", "é\n\t漢😀\x1b[31m"),
        ("a\0b", "a\u2400b"),
        ("a\ud800b", "a?b"),
        ("x" * 1_000_000, "x" * 1_000_000),
    ],
)
@pytest.mark.parametrize("ended", [JobStatus.ERROR, JobStatus.SUCCESS])
def test_details_are_kept_as_text_that_every_store_keeps(queue, told, shown, ended) -> None:
    """Rules, *Text*: NUL becomes U+2400."""
    add(queue, "a")
    queue.update_job_status("a", ended, told)
    assert (status(queue, "a"), details(queue, "a")) == (ended.name, shown)


def test_details_over_the_limit_are_cut_and_say_so(queue) -> None:
    add(queue, "a")
    fail(queue, "a", "x" * 3_000_000)
    kept = details(queue, "a") or ""
    assert len(kept.encode()) == 1024 * 1024
    assert kept.endswith("… [cut from 3000000 bytes]")


def test_details_of_a_job_that_has_not_ended_are_shown_until_it_is_taken(queue) -> None:
    add(queue, "a")
    queue.update_job_status("a", JobStatus.PENDING, "later")
    assert (status(queue, "a"), details(queue, "a")) == ("READY", "later")
    take(queue)
    assert details(queue, "a") is None
    queue.update_job_status("a", JobStatus.RUNNING, "half way")
    assert (status(queue, "a"), details(queue, "a")) == ("RUNNING", "half way")


@pytest.mark.parametrize("late", [JobStatus.SUCCESS, JobStatus.ERROR, JobStatus.RUNNING])
@pytest.mark.parametrize("ended", [JobStatus.SUCCESS, JobStatus.ERROR])
def test_a_report_on_a_finished_job_changes_nothing_and_is_logged(
    queue, caplog, ended, late
) -> None:
    add(queue, "a")
    add(queue, "b", "a")
    queue.update_job_status("a", ended, "first")
    before = [queue.get_job_status(each) for each in "ab"]
    with caplog.at_level(logging.WARNING, "jobroom"):
        queue.update_job_status("a", late, "second")
    assert [record.getMessage() for record in caplog.records] == [
        f"job.ended_before job_id=a told={late.name}"
    ]
    assert [queue.get_job_status(each) for each in "ab"] == before


@pytest.mark.parametrize("unknown", ["no such job", "", "\ud800", uuid4()])
def test_an_unknown_job_is_a_key_error(queue, unknown) -> None:
    add(queue, "a")
    for told in JobStatus:
        with pytest.raises(KeyError, match="There is no job"):
            queue.update_job_status(unknown, told)
    with pytest.raises(KeyError, match="There is no job"):
        queue.get_job_status(unknown)
    with pytest.raises(KeyError, match="There is no job"):
        queue.set_job_worker(unknown, 1)


def test_a_value_that_is_no_status_is_a_value_error(queue) -> None:
    add(queue, "a")
    with pytest.raises(ValueError, match="5 is not a valid JobStatus"):
        queue.update_job_status("a", 5)
    with pytest.raises(ValueError, match="5 is not a valid JobStatus"):
        queue.get_job_ids_with_status(5)
    queue.update_job_status("a", 4)
    assert status(queue, "a") == "SUCCESS"


def test_a_job_may_be_run_by_its_name(queue) -> None:
    add(queue, "a")
    add(queue, "b", "a")
    for each in "ab":
        queue.update_job_status(each, JobStatus.RUNNING)
    assert counts(queue) == {"total": 2, "running": 2}
    succeed(queue, "b", "a")
    assert jobmaker.statuses(queue, "a", "b") == "SUCCESS SUCCESS"


def test_running_again_is_no_write(queue, path) -> None:
    """A worker of pyantz says so after each ``get_job``, and who it is: both are known already."""
    add(queue, "a")
    take(queue)
    before = row(path, "a")
    queue.update_job_status("a", JobStatus.RUNNING)
    assert row(path, "a") == before


def test_a_config_is_changed_in_place(queue) -> None:
    for each in "abc":
        add(queue, each)
    queue.change_config_in_place(job("b", parameters={"new": 1}, function="other.function"))
    assert [take(queue), take(queue)] == ["a", "b"]
    again(queue, "b")
    taken = queue.get_job().payload.job
    assert (taken.job_id, taken.parameters, taken.function) == ("b", {"new": 1}, "other.function")


def test_the_config_of_an_unknown_job_cannot_be_changed(queue) -> None:
    with pytest.raises(KeyError, match="There is no job"):
        queue.change_config_in_place(job("a", function="known.nowhere"))
    add(queue, "b")
    with pytest.raises(KeyError, match="There is no job"):
        queue.change_config_in_place(job("a"))


def test_a_retry_in_place_is_handed_out_again(queue) -> None:
    """Number 8 (a): add, take, change, PENDING, take: the same one again."""
    add(queue, "a")
    taken = queue.get_job().payload.job
    queue.change_config_in_place(taken.model_copy(update={"num_attempted_runs": 1}))
    again(queue, "a")
    taken = queue.get_job().payload.job
    assert (taken.job_id, taken.num_attempted_runs) == ("a", 1)
    succeed(queue, "a")
    queue.change_config_in_place(taken.model_copy(update={"num_attempted_runs": 2}))
    assert take(queue) == "complete"
    again(queue, "a")
    assert queue.get_job().payload.job.num_attempted_runs == 2


def test_a_job_that_is_queued_again_has_its_old_place(queue) -> None:
    for each in "abc":
        add(queue, each)
    assert [take(queue), take(queue)] == ["a", "b"]
    again(queue, "a")
    again(queue, "c")  # it is there already
    assert [take(queue), take(queue), take(queue)] == ["a", "c", "pending"]


def test_a_job_may_be_queued_again_more_often_than_it_has_retries(queue, path) -> None:
    add(queue, "a")
    for _ in range(5):
        assert take(queue) == "a"
        again(queue, "a")
    queue.change_config_in_place(job("a", max_retries=1))
    assert take(queue) == "a"
    assert (row(path, "a")["attempt"], row(path, "a")["starts"]) == (6, 2)


def test_ids_come_sorted_as_text(queue) -> None:
    ids = ["b", "a", "é", "Z", "😀", "\uffff", "10", "9"]
    for each in ids:
        add(queue, each)
    assert queue.get_job_ids_with_status(JobStatus.READY) == sorted(ids)
    for each in ids:
        fail(queue, each, each)
    failed = queue.get_failed_jobs()
    assert [report.job_id for report in failed] == sorted(ids)
    assert all(report.status_details == report.job_id for report in failed)
    assert queue.get_job_ids_with_status(JobStatus.READY) == []


@pytest.mark.parametrize(
    "config",
    [
        "{",
        "[]",
        "{}",
        '{"job_id": "bad"}',
        '{"job_id": "bad", "function": "f", "parameters": {"secret": 1}}',
        b"{\xff",
        None,
        7,
    ],
)
def test_a_config_that_cannot_be_loaded_fails_with_the_reason_and_the_next_is_given(
    queue, path, config
) -> None:
    """Graph contract, ``get_job``; case C09."""
    for each in ("bad", "good"):
        add(queue, each)
    add(queue, "after", "bad")
    sql = "UPDATE task SET payload = ? WHERE key = 'bad'"
    if config is None:
        sql, config = "UPDATE task SET key = x'ff' WHERE key = ?", "bad"
    elif isinstance(config, bytes):
        sql = "UPDATE task SET payload = CAST(? AS TEXT) WHERE key = 'bad'"
    write(path, sql, config)
    assert [take(queue), take(queue)] == ["good", "pending"]
    succeed(queue, "good")
    assert take(queue) == "complete"
    assert counts(queue) == {"total": 3, "success": 1, "error": 2}
    assert details(queue, "after") == jobmaker.CASCADE
    assert len(queue.get_failed_jobs()) == 2
    assert "secret" not in str(row(path, "bad")["error"])


def test_the_reason_why_a_config_cannot_be_loaded_names_the_place(queue, path) -> None:
    add(queue, "bad")
    write(path, "UPDATE task SET payload = ?", '{"job_id": "bad", "function": "f"}')
    assert take(queue) == "complete"
    told = details(queue, "bad") or ""
    assert told.startswith("The stored config of this job cannot be loaded: parameters: Field req")
    assert "function: " in told
    assert "\n" not in told


def test_a_head_that_cannot_even_be_taken_holds_up_nobody(queue, path) -> None:
    """Case C09: an impossible row fails, and those behind it are taken."""
    for each in ("bad", "good"):
        add(queue, each)
    add(queue, "after", "bad")
    write(path, "UPDATE task SET completed_at = 1 WHERE key = 'bad'")
    assert take(queue) == "good"
    assert (status(queue, "bad"), status(queue, "after")) == ("ERROR", "ERROR")
    assert "damaged" in (details(queue, "bad") or "")
