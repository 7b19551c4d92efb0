"""Behind a pooler that gives each transaction to another server connection."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
import servers
from pooler_for_tests import Pooler

from jobroom.domain.records import Caller
from jobroom.service import claiming, registration, reporting, submission
from jobroom.service.queue import JobQueue
from jobroom.settings import JobLibSettings
from jobroom.store import migrate
from jobroom.store.postgres import Postgres
from jobroom.store.session import Step

Opened = Callable[..., Postgres]


@pytest.fixture
def pooler(server: servers.Postgres) -> Iterator[Pooler]:
    with Pooler(server.port) as started:
        yield started


def test_a_pooler_is_noticed_and_a_server_is_taken_for_none(
    opened: Opened, url: str, pooler: Pooler
) -> None:
    found = []
    for where in (url, pooler.in_front_of(url)):
        session = opened(where).session(write=False)
        session.alone([Step("SELECT 1")])
        assert session._line is not None
        found.append(session._line.is_pooled)
        session.close()
    assert found == [False, True]


def test_transactions_have_their_limits_and_nobody_elses_session_has(
    server: servers.Postgres, opened: Opened, url: str, pooler: Pooler
) -> None:
    database = opened(pooler.in_front_of(url))
    session = database.session(write=True)
    show = Step("SHOW lock_timeout")
    found = [session.alone([show])[0].rows[0][0]]
    found.append(session.run([show])[0].rows[0][0])
    session.commit()
    session.close()
    assert found == ["5s", "5s"]
    assert {database.read("SHOW lock_timeout")[0][0] for _ in range(4)} == {"0"}


def test_several_steps_alone_are_all_or_none_there_too(
    opened: Opened, url: str, pooler: Pooler
) -> None:
    database = opened(pooler.in_front_of(url))
    session = database.session(write=True)
    put = Step("INSERT INTO queue_state VALUES (%s, 1)", ("pooled",), writes=True)
    with pytest.raises(Exception, match="division by zero"):
        session.alone([put, Step("SELECT 1 / %s", (0,))])
    session.close()
    assert database.read("SELECT * FROM queue_state WHERE name = 'pooled'") == []


def test_who_waits_there_looks_at_intervals(opened: Opened, url: str, pooler: Pooler) -> None:
    database = opened(pooler.in_front_of(url))
    with database.watch_commits() as commits:
        began = time.monotonic()
        looks = 0
        while time.monotonic() < began + 0.9:
            if commits.wait(0.25):
                assert database.has_news()
                looks += 1
    assert 2 <= looks <= 5
    assert not database.has_news()


def test_an_upgrade_goes_through_it(server: servers.Postgres, opened: Opened) -> None:
    server.execute("CREATE DATABASE pooled")
    with Pooler(server.port) as pooler:
        database = opened(pooler.in_front_of(server.url("pooled")))
        migrate.upgrade(database)
        migrate.prepare(database)


def test_tasks_go_their_way_through_it(url: str, pooler: Pooler) -> None:
    """Rule *Claim*: by several at a time, each task once."""
    ada = Caller("ada", is_admin=True)
    with JobQueue.open(JobLibSettings(database_url=pooler.in_front_of(url))) as queue:
        spec = registration.JobSpec("modifiers", "Pooled")
        made = queue.run(registration.register_job, caller=ada, room_id="r1", spec=spec)

        def submit(number: int) -> None:
            new = submission.NewTask(f'{{"n": {number}}}')
            queue.run(submission.submit_task, caller=ada, room_id="r1", job=made.view.job, new=new)

        def finish_one(_number: int) -> str:
            [held] = queue.run(claiming.claim_tasks, caller=ada, start=True)
            done = reporting.Report(status="completed")
            queue.run(reporting.report, caller=ada, task_id=held.task.id, report=done)
            return held.task.id

        with ThreadPoolExecutor(4) as threads:
            list(threads.map(submit, range(20)))
            done = list(threads.map(finish_one, range(20)))
        assert queue.run(claiming.claim_tasks, caller=ada) == []
    assert len(set(done)) == 20
