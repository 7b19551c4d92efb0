"""The file of the embedded queue: what it may be, what is left on the disk, who else reads it."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import threading
import warnings
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import jobmaker
import pytest
from jobmaker import CASCADE, add, counts, details, fail, job, statuses, succeed, take

from jobroom.bootstrap import create_app
from jobroom.domain.local import task_id_of
from jobroom.embedded import JobsReport, QueueInterface, SqliteQueue
from jobroom.errors import ConfigurationError, StoreUnavailable
from jobroom.service.queue import JobQueue
from jobroom.settings import JobLibSettings
from jobroom.tokens import token_for_settings

SECRET = "a secret of at least thirty-two bytes"


def refusal(path: Path) -> str:
    with pytest.raises(ConfigurationError) as caught:
        SqliteQueue(path)
    message = str(caught.value)
    assert "\n" not in message
    assert "ZNDRAW_JOBLIB_DATABASE_URL" not in message  # the caller names the file
    return message


def test_the_file_is_made_if_it_is_missing_and_holds_everything(tmp_path) -> None:
    """Graph contract: all state lives in the file, ``-wal`` and ``-shm``."""
    path = tmp_path / "new.db"
    queue = SqliteQueue(path)
    assert queue.database_file == path
    add(queue, "a")
    assert {each.name for each in tmp_path.iterdir()} <= {"new.db", "new.db-wal", "new.db-shm"}
    queue.close()
    assert [each.name for each in tmp_path.iterdir()] == ["new.db"]
    with SqliteQueue(path) as again:
        assert take(again) == "a"


@pytest.mark.parametrize(
    "name", ["a b.db", "a?b=c.db", "a#b.db", "a%20b.db", "é漢.db", "a'b\"c.db", ":memory:", "a@b:c"]
)
def test_any_name_of_a_file_will_do(tmp_path, name) -> None:
    with SqliteQueue(tmp_path / name) as queue:
        add(queue, "a")
        assert (tmp_path / name).exists()
    with SqliteQueue(str(tmp_path / name)) as queue:
        assert take(queue) == "a"
    assert [each.name for each in tmp_path.iterdir()] == [name]


def test_the_queue_is_what_the_interface_says(queue) -> None:
    assert isinstance(queue, QueueInterface)
    with pytest.raises(TypeError, match="abstract"):
        QueueInterface()  # type: ignore[abstract]  # that is the point


def test_a_folder_that_is_not_there_is_named(tmp_path) -> None:
    assert refusal(tmp_path / "no" / "queue.db") == (
        f"The folder {tmp_path / 'no'} does not exist; make it first."
    )


def test_a_folder_in_the_place_of_the_file_is_named(tmp_path) -> None:
    assert "it is a folder; name another file." in refusal(tmp_path)


def test_a_file_that_is_no_database_is_left_as_it_is(tmp_path) -> None:
    path = tmp_path / "queue.db"
    path.write_text("something else " * 100)
    assert "it is no SQLite database; name another file." in refusal(path)
    assert path.read_text() == "something else " * 100


def test_a_file_of_a_newer_schema_is_refused(path) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    assert "written by a newer version" in refusal(path)


def test_a_file_of_pyantz_is_refused_and_left_as_it_is(tmp_path) -> None:
    """Its four tables; ``jobroom db import-pyantz`` reads them."""
    path = tmp_path / "queue.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for table in ("job_queue", "queue_items", "dependencies", "job_status"):
            connection.execute(f"CREATE TABLE {table} (job_id TEXT)")
    assert "jobroom db import-pyantz" in refusal(path)
    assert [each.name for each in tmp_path.iterdir() if each.stat().st_size] == ["queue.db"]


def test_settings_that_do_not_fit_are_one_sentence(path, monkeypatch) -> None:
    monkeypatch.setenv("ZNDRAW_JOBLIB_SQLITE_SYNCHRONOUS", "OFF")
    assert "ZNDRAW_JOBLIB_SQLITE_SYNCHRONOUS" in refusal(path)


def test_a_file_that_was_taken_away_is_no_silent_loss(queue, path) -> None:
    add(queue, "a")
    os.unlink(path)  # noqa: PTH108 - what a hand does
    with pytest.raises(StoreUnavailable, match="nothing of it was kept"):
        add(queue, "b")


def test_an_answered_job_survives_a_power_cut_by_default(path, monkeypatch) -> None:
    """Facts on performance: durability is not traded."""
    monkeypatch.delenv("ZNDRAW_JOBLIB_SQLITE_SYNCHRONOUS")
    with SqliteQueue(path) as queue:
        writer: Any = queue._jobs.queue().writer
        assert writer._connection.execute("PRAGMA synchronous").fetchone() == (2,)


def test_nothing_warns_and_no_thread_is_left_by_a_queue_that_is_dropped(path) -> None:
    before = threading.active_count()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(3):
            queue = SqliteQueue(path)
            add(queue, "a")
            queue.get_jobs_report()
            del queue
    assert threading.active_count() == before
    assert not path.with_name("queue.db-wal").exists()


def test_the_report_is_of_one_moment(queue, path) -> None:
    """Graph contract: the five counts always add up to ``total``."""
    for n in range(200):
        add(queue, str(n))
    wrong: list[JobsReport] = []
    done = threading.Event()

    def look() -> None:
        with SqliteQueue(path) as other:
            while not done.is_set():
                report = other.get_jobs_report()
                parts = (report.success, report.error, report.pending, report.ready, report.running)
                if (sum(parts), report.total) != (200, 200):
                    wrong.append(report)

    watching = threading.Thread(target=look)
    watching.start()
    for _ in range(200):
        succeed(queue, take(queue))
    done.set()
    watching.join(30)
    assert wrong == []


def request(path: Path, method: str, url: str, **given: Any) -> httpx.Response:
    """One request by an admin to the application on the same file."""
    settings = JobLibSettings(database_url=f"sqlite:///{path}", jwt_secret=SECRET)
    token = token_for_settings(settings, sub="root", is_admin=True, hours=1)

    async def ask() -> httpx.Response:
        with JobQueue.open(settings) as opened:
            transport = httpx.ASGITransport(create_app(settings, queue=opened))
            async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
                headers = {"Authorization": f"Bearer {token}"}
                return await client.request(method, url, headers=headers, **given)

    return asyncio.run(ask())


def test_rest_shows_an_admin_the_same_work(queue, path) -> None:
    """Graph contract: the file can be opened by ``uvicorn app:app``."""
    add(queue, "scan", parameters={"angle": 90})
    add(queue, "plot", "scan", "later")
    take(queue)
    answer = request(path, "GET", f"/v1/joblib/tasks/{task_id_of('scan')}")
    assert answer.status_code == 200
    shown = answer.json()
    assert (shown["status"], shown["room_id"]) == ("running", "@local")
    assert shown["job_name"] == "@local:functions:jobroom.testing.do_nothing"
    assert shown["payload"]["parameters"] == {"angle": 90}
    plot = request(path, "GET", f"/v1/joblib/tasks/{task_id_of('plot')}").json()
    assert plot["status"] == "blocked"


def test_a_cancellation_over_rest_settles_what_waits(queue, path) -> None:
    """Graph contract: ERROR is failed or cancelled; the cascade's text is exactly this."""
    add(queue, "a")
    add(queue, "b", "a")
    add(queue, "c", "b")
    add(queue, "anyway", "a", dependency_type="afterany")
    url = f"/v1/joblib/tasks/{task_id_of('a')}"
    answer = request(path, "PATCH", url, json={"status": "cancelled"})
    assert answer.status_code == 200, answer.text
    assert statuses(queue, "a", "b", "c", "anyway") == "ERROR ERROR ERROR READY"
    assert details(queue, "a") == "The job was cancelled"
    assert [details(queue, each) for each in "bc"] == [CASCADE, CASCADE]
    assert [report.job_id for report in queue.get_failed_jobs()] == ["a", "b", "c"]


def test_the_sweep_leaves_the_queue_alone(queue, path) -> None:
    """Graph contract: its workers are processes, not rows; what it keeps is its owner's."""
    add(queue, "runs")
    add(queue, "done")
    take(queue)
    fail(queue, "done")
    settings = JobLibSettings(database_url=f"sqlite:///{path}")
    with JobQueue.open(settings, clock_offset=365 * 24 * 3600 * 1_000_000) as opened:
        for _ in range(2):
            opened.sweep()
    assert counts(queue) == {"total": 2, "running": 1, "error": 1}
    assert statuses(queue, "runs", "done") == "RUNNING ERROR"


def test_a_job_of_rest_and_one_of_the_queue_do_not_meet(queue, path) -> None:
    """Only what the embedded queue has made can be reported by it."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        add(queue, "a")
        connection.execute("UPDATE task SET room_id = 'r1'")
    with pytest.raises(KeyError):
        succeed(queue, "a")
    assert not add(queue, "a")
    assert (take(queue), counts(queue)) == ("complete", {})


def test_the_same_job_may_be_given_without_a_parent(queue) -> None:
    assert queue.add_job(job("a"))
    assert jobmaker.status(queue, "a") == "READY"
