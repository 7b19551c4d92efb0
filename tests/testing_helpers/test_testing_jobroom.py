"""``jobroom.testing.Jobroom``: what a user's tests see of it (joblib/docs/testing.md)."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, ClassVar

import httpx
import pytest
from pydantic import BaseModel

from jobroom import JobManager, current_task, job
from jobroom.client.handle import TaskHandle
from jobroom.client.transport import CALL
from jobroom.errors import Forbidden, NotFound, SchemaConflict
from jobroom.testing import Jobroom, do_nothing

DOUBLE = "r1:modifiers:double"


@job
def double(number: int) -> int:
    """Twice the number."""
    return 2 * number


@job(max_attempts=2, retry_delay_seconds=60)
def stumble() -> None:
    """Fail at each try."""
    message = "no luck"
    raise RuntimeError(message)


class Paint(BaseModel):
    """A class as a job, with what it is run with."""

    category: ClassVar[str] = "modifiers"
    colour: str

    def run(self, vis: list[str], **_: Any) -> str:
        """Note the colour."""
        vis.append(self.colour)
        return self.colour


@pytest.fixture(scope="module")
def opened() -> Iterator[Jobroom]:
    """One for those tests that do not mind the others' tasks."""
    with Jobroom(double, room="r1") as room:
        yield room


def test_a_submitted_task_runs_in_this_thread(opened: Jobroom) -> None:
    task = opened.client.submit(DOUBLE, number=4)
    assert task.status() == "pending"
    [ended] = opened.run_all()
    assert (ended["id"], ended["status"], ended["result"]) == (task.id, "completed", 8)
    assert task.result() == 8
    assert opened.run_all() == []


def test_a_class_is_run_with_what_it_needs() -> None:
    with Jobroom(Paint, room="r1") as room:
        room.client.submit(Paint(colour="red"), room="r1")
        seen: list[str] = []
        assert [task["result"] for task in room.run_all(vis=seen)] == ["red"]
        assert seen == ["red"]


def test_what_becomes_claimable_on_the_way_is_run_too() -> None:
    """Tasks that a job submits, and those that waited for others."""
    with Jobroom(double, room="r1") as room:

        @job
        def begin(number: int) -> None:
            room.client.submit(DOUBLE, number=number)

        room.register(begin, room="r1")
        first = room.client.submit("r1:modifiers:begin", number=5)
        last = room.client.submit(DOUBLE, number=1, depends_on=[first.id])
        assert last.status() == "blocked"
        ended = room.run_all()
        assert [task["result"] for task in ended] == [None, 2, 10]


def test_tasks_that_submit_each_other_for_ever_are_stopped() -> None:
    with Jobroom() as room:

        @job
        def again() -> None:
            room.client.submit("r1:modifiers:again")

        room.register(again, room="r1")
        room.client.submit("r1:modifiers:again")
        with pytest.raises(RuntimeError, match="still something to run after 3 tasks"):
            room.run_all(most=3)
        [left] = room.client.tasks("r1", status="pending")
        assert left["attempt"] == 1  # it was claimed, and handed back


def test_time_passes_when_the_test_says_so(caplog: pytest.LogCaptureFixture) -> None:
    """A delayed task, and the second try of one that failed."""
    caplog.set_level(logging.CRITICAL)
    with Jobroom(double, stumble, room="r1") as room:
        before = room.clock.now
        later = room.client.submit(DOUBLE, number=1, run_at=before + timedelta(hours=1))
        task = room.client.submit("r1:modifiers:stumble")
        assert room.run_all() == []
        assert task.show()["error"] is not None
        room.clock.move(seconds=70)
        assert [ended["id"] for ended in room.run_all()] == [task.id]
        room.clock.move(seconds=3600)
        assert [ended["id"] for ended in room.run_all()] == [later.id]
        passed = room.clock.now - before
        assert timedelta(seconds=3670) <= passed < timedelta(seconds=3900)
        with pytest.raises(ValueError, match="only moves forward"):
            room.clock.move(-1)


def test_a_worker_that_is_silent_is_swept_away_and_comes_back() -> None:
    with Jobroom(double, room="r1") as room:
        worker = JobManager(room.connection("mary")).worker
        worker.register(next(iter(room.manager.worker.jobs.values())))
        task = room.client.submit(DOUBLE, number=3)
        [held] = worker.api.claim(str(worker.id), request_id="once", wait=0, patience=CALL)
        assert held["id"] == task.id
        room.clock.move(seconds=120)
        done = room.sweep()
        assert (done.lost_workers, done.failed_tasks) == (2, 1)
        assert task.status() == "failed"
        task.retry()
        assert [ended["status"] for ended in room.run_all()] == ["completed"]


def test_other_people_have_clients_of_their_own(opened: Jobroom) -> None:
    eve = opened.client_of("eve", rooms=["r2"])
    assert eve.me()["rooms"] == ["r2"]
    with pytest.raises(NotFound):
        eve.jobs("r1")
    with pytest.raises(Forbidden):
        JobManager(opened.connection("eve", rooms=["r2"])).register(Paint)
    assert opened.client.me() == {"id": "tester", "is_admin": True, "rooms": None}


def test_a_client_with_an_event_loop_reaches_the_same_queue(opened: Jobroom) -> None:
    async def told() -> Any:
        async with opened.async_client_of("ann", rooms=["r1"]) as client:
            task = await client.submit(DOUBLE, number=6)
            await asyncio.to_thread(opened.run_all)
            return await task.result(timeout=30)

    assert asyncio.run(told()) == 12


def test_one_who_waits_is_answered_when_the_task_ends(opened: Jobroom) -> None:
    """A long-poll of another thread, over the same way."""
    task: TaskHandle[Any] = opened.client.submit(DOUBLE, number=7)
    found: list[Any] = []
    waiting = threading.Thread(target=lambda: found.append(task.result(timeout=30)))
    waiting.start()
    opened.run_all()
    waiting.join(30)
    assert found == [14]


def test_a_request_that_takes_longer_than_its_timeout_is_given_up(opened: Jobroom) -> None:
    task = opened.client.submit(DOUBLE, number=1, room="r1")
    address = f"http://jobroom.test/v1/joblib/tasks/{task.id}"
    headers = {"Authorization": f"Bearer {opened.token('ann')}", "Prefer": "wait=100"}
    http = opened.client.connection.http
    began = time.monotonic()
    with pytest.raises(httpx.ReadTimeout):
        http.get(address, headers=headers, timeout=0.1)
    assert time.monotonic() - began < 30
    opened.run_all()


def test_a_refusal_is_the_servers_own() -> None:
    """The schema conflict that a rolling update would meet."""
    with Jobroom(double, room="r1") as room:

        @job(name="double")
        def other(text: str) -> str:
            return text

        with pytest.raises(SchemaConflict):
            room.register(other, room="r1")


def test_settings_are_those_that_are_given_and_not_the_environments(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ZNDRAW_JOBLIB_WORKER_TIMEOUT_SECONDS", "7")
    monkeypatch.setenv("ZNDRAW_JOBLIB_DATABASE_URL", "sqlite:////nowhere/queue.db")
    with Jobroom(sweeper_interval_seconds=11) as room:
        chosen = room.settings
        assert (chosen.worker_timeout_seconds, chosen.sweeper_interval_seconds) == (60, 11)


def test_progress_and_logs_are_there_after_the_run() -> None:
    with Jobroom() as room:

        @job
        def tell() -> None:
            task = current_task()
            assert task is not None
            task.progress(0.5, "half way")

        room.register(tell, room="r1")
        task = room.client.submit("r1:modifiers:tell")
        room.run_all()
        assert (task.show()["progress"], task.show()["message"]) == (0.5, "half way")


def test_after_the_end_nothing_answers_and_nothing_is_left(opened: Jobroom) -> None:
    before = {thread.name for thread in threading.enumerate()}
    room = Jobroom(double, room="r1")
    client, file = room.client, Path(room.settings.database_url.removeprefix("sqlite:///"))
    assert file.exists()
    room.close()
    assert {thread.name for thread in threading.enumerate()} <= before
    with pytest.raises(Exception, match="closed already"):
        client.me()
    assert not file.parent.exists()
    assert opened.client.me()["id"] == "tester"


def test_do_nothing_is_where_it_was() -> None:
    """Names in stored files of the embedded queue stay good."""
    assert (do_nothing.__module__, do_nothing({}, print)) == ("jobroom.testing", True)
