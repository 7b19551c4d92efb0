"""``jobroom db copy``: every kind of row, in each direction, exactly."""

from __future__ import annotations

import copying_stage as stage
import pytest
from typer.testing import Result

from jobroom.cli import database
from jobroom.domain.records import Caller
from jobroom.service import claiming, registration, submission
from jobroom.service.queue import JobQueue
from jobroom.settings import JobLibSettings
from jobroom.store.copy_rows import MARK, PAGE_ROWS

KINDS = ("sqlite", "libsql", "postgresql")
DIRECTIONS = [(one, other) for one in KINDS for other in KINDS if one != other]


def assert_done(done: Result) -> None:
    assert done.exit_code == 0, (done.output, done.stderr, done.exception)


@pytest.mark.parametrize(("source", "target"), DIRECTIONS)
def test_a_copy_holds_the_very_same_rows(made, copied, source, target):
    """Issue 3: ``db copy`` is exact; types, NULs, order and numbers are kept."""
    one, other = made(source, tasks=70), made(target)
    done = copied(one, other)
    assert_done(done)
    assert "equal: 70 tasks, 4 jobs, 12 job schemas, 9 workers" in done.stdout
    rows = stage.dump(other)
    assert rows == stage.dump(one)
    assert len(rows["task"]) == 70
    assert {row[5][1] for row in rows["task"]} == set(stage.STATUSES)
    assert all(rows[table] for table in stage.TABLES)


@pytest.mark.parametrize("target", KINDS)
def test_a_copy_goes_on_being_a_queue(made, copied, target):
    """Numbers go on behind the greatest one; what was pending is claimed, what is new as well."""
    source, alice = made("sqlite"), Caller("alice")
    with JobQueue.open(JobLibSettings(database_url=source)) as queue:
        spec = registration.JobSpec("modifiers", "Rotate")
        registered = queue.run(registration.register_job, caller=alice, room_id="r1", spec=spec)
        first = [submit(queue, alice, registered) for _ in range(3)]
    other = made(target)
    assert_done(copied(source, other))
    with JobQueue.open(JobLibSettings(database_url=other)) as queue:
        later = submit(queue, alice, registered)
        spec = registration.JobSpec("modifiers", "Scale")
        assert queue.run(registration.register_job, caller=alice, room_id="r1", spec=spec).created
        claimed = queue.run(claiming.claim_tasks, caller=alice, limit=10)
    assert [one.task.id for one in claimed] == [task.id for task in (*first, later)]
    numbers = [row[0] for row in stage.execute(other, "SELECT seq FROM task ORDER BY seq")]
    assert numbers == [1, 2, 3, 4]


def submit(queue, caller, registered):
    return queue.run(
        submission.submit_task,
        caller=caller,
        room_id="r1",
        job=registered.view.job,
        new=submission.NewTask("{}"),
    ).view.task


@pytest.mark.parametrize("target", KINDS)
def test_an_empty_queue_is_copied_too(made, copied, target):
    done = copied(made("sqlite"), made(target))
    assert_done(done)
    assert "equal: nothing on both sides" in done.stdout


@pytest.mark.parametrize("target", KINDS)
def test_a_target_without_tables_is_upgraded_first(made, copied, empty, target):
    source, other = made("sqlite", tasks=7), empty(target)
    assert_done(copied(source, other))
    assert stage.dump(other) == stage.dump(source)


def test_more_rows_than_a_page_are_copied_page_by_page(made, copied):
    source, other = made("sqlite", tasks=PAGE_ROWS + 1), made("libsql")
    assert_done(copied(source, other))
    assert stage.dump(other) == stage.dump(source)


@pytest.mark.parametrize(("source", "target"), [("sqlite", "libsql"), ("libsql", "postgresql")])
def test_large_rows_are_copied_few_at_a_time(made, copied, source, target):
    """A server's answer is bounded, as memory is: 40 rows of half a megabyte are no page."""
    one, other = made(source), made(target)
    for start in range(0, 40, 10):
        rows = stage.rows_of(40, payload="x" * 500_000)
        # Some of their tasks come later.
        first = [table for table in stage.TABLES if table not in ("edge", "task_log")]
        for table in first if start == 0 else ["task"]:
            chosen = rows[table][start : start + 10] if table == "task" else rows[table]
            stage.insert(one, table, chosen)
    assert_done(copied(one, other))
    found = stage.execute(other, "SELECT count(*), sum(length(payload)) FROM task")
    assert found == stage.execute(one, "SELECT count(*), sum(length(payload)) FROM task")
    assert found[0][0] == 40


def test_what_is_a_database_s_own_is_not_copied(made, copied, run):
    """The ballast of a SQLite file is bytes in a column of integers."""
    source, other = made("sqlite", tasks=7), made("postgresql")
    assert run("db", "check", database_url=source).exit_code == 0
    assert stage.execute(source, "SELECT typeof(value) FROM queue_state WHERE name = 'ballast'")
    assert_done(copied(source, other))
    names = {name for (name,) in stage.execute(other, "SELECT name FROM queue_state")}
    assert names == {"sweep_finished_at", "judge_again_at", "swept_at"}
    assert MARK not in names


def test_a_target_where_only_sweeps_were_made_is_empty(made, copied, run):
    source, other = made("sqlite", tasks=7), made("sqlite")
    assert run("sweep", database_url=other).exit_code == 0
    assert run("db", "check", database_url=other).exit_code == 0
    assert_done(copied(source, other))
    assert stage.dump(other) == stage.dump(source)


def test_the_next_step_names_no_secret(made, copied):
    source, other = made("sqlite", tasks=7), made("postgresql")
    done = copied(source, other.replace("postgres@", "postgres:a-secret@"))
    assert_done(done)
    assert "next: set ZNDRAW_JOBLIB_DATABASE_URL" in done.stdout
    assert "a-secret" not in done.stdout


def test_the_key_beside_the_file_is_remembered_in_the_next_step(made, copied, run, tmp_path):
    """Without it every token that was made so far would be refused."""
    source, server, file = made("sqlite"), made("libsql"), made("sqlite")
    assert run("token", "--sub", "alice", database_url=source).exit_code == 0
    key = f"{stage.path_of(source)}.key"
    assert f"set ZNDRAW_JOBLIB_JWT_SECRET to what {key} holds" in copied(source, server).stdout
    assert f"copy {key} to {stage.path_of(file)}.key" in copied(source, file).stdout
    configured = copied(source, made("sqlite"), jwt_secret="a shared secret of more than 32 bytes")
    assert "tokens" not in configured.stdout


def test_every_table_has_its_words():
    assert set(database.ROWS) == set(stage.TABLES)
