"""A task's log: what is stored of what reports bring, and who reads which part of it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
import tables
from desk import Desk

from jobroom.domain import logtext
from jobroom.domain.records import Caller, Job, Task
from jobroom.errors import Forbidden, InvalidTaskTransition, NotFound, TaskNotFound
from jobroom.service import logging_tasks
from jobroom.service.queue import JobQueue
from jobroom.settings import JobLibSettings
from jobroom.store.hrana.http import HranaHttp


class Logs:
    """A desk with a task that alice's worker runs, and its log."""

    def __init__(self, desk: Desk, who: Caller, job: Job) -> None:
        self.desk, self.who, self.job = desk, who, job

    def run_one(self, **new) -> Task:
        self.desk.submit(self.who, self.job, **new)
        return self.desk.run_one(self.who)

    def write(self, task: Task, log: str, offset: int | None = None, status=None, **said):
        """Report with a log; how far the log reaches then."""
        given = {"log": log, "log_offset": offset, "attempt": task.attempt, **said}
        return self.desk.reported(self.who, task, status, **given).log_bytes

    def read(self, task: Task, offset=0, *, attempt=None, most=1_000_000, who=None):
        return self.desk.queue.run(
            logging_tasks.read_log,
            caller=who or self.who,
            task_id=task.id,
            attempt=attempt,
            offset=offset,
            most=most,
        )

    def text(self, task: Task, **more) -> str:
        return self.read(task, **more).page.text


@pytest.fixture
def desk(queue: JobQueue) -> Desk:
    return Desk(queue)


@pytest.fixture
def logs(desk: Desk, alice: Caller) -> Logs:
    return Logs(desk, alice, desk.job(alice))


@pytest.fixture
def running(logs: Logs) -> Task:
    return logs.run_one()


@pytest.fixture
def small(settings: JobLibSettings, alice: Caller) -> Iterator[Logs]:
    """The same on a queue that keeps 10 bytes of an attempt's log."""
    with JobQueue.open(settings.model_copy(update={"max_log_bytes": 10})) as queue:
        desk = Desk(queue)
        yield Logs(desk, alice, desk.job(alice))


def test_what_a_report_brings_is_appended_and_read_from_any_place(logs, running):
    """Log, *append*: log_bytes tells how far it reaches, in bytes of UTF-8."""
    assert logs.write(running, "één\n", 0) == 6
    assert logs.write(running, "two\n", 6, progress=0.5) == 10
    assert logs.write(running, "three", None) == 15
    assert logs.text(running) == "één\ntwo\nthree"
    assert logs.read(running, 10).page == logtext.Page(10, "three", 15)
    assert logs.read(running, 3).page.offset == 2  # inside the second é: moved back to it
    assert logs.read(running, 99).page == logtext.Page(99, "", 99)
    assert not logs.read(running).has_ended


def test_what_is_stored_already_is_not_stored_again(logs, running):
    """Log, *offset*: a repeat after a lost answer appends nothing twice."""
    assert logs.write(running, "one\n", 0) == 4
    assert logs.write(running, "one\n", 0) == 4
    assert logs.write(running, "one\ntwo\n", 0) == 8
    assert logs.write(running, "", 8) == 8
    assert logs.text(running) == "one\ntwo\n"


def test_a_place_inside_a_character_leaves_that_character_out(logs, running):
    """A sender that counts wrongly is not refused: its report would be lost with its log."""
    logs.write(running, "a", 0)
    assert logs.write(running, "é!", 0) == 3
    assert logs.text(running) == "a[1 bytes of the log are missing here.]\n!"


def test_a_gap_is_marked_where_it_is(logs, running):
    """Log, *offset*: where less is stored, with a mark of the gap; repeating it changes nothing."""
    logs.write(running, "one\n", 0)
    for _ in range(2):
        assert logs.write(running, "late\n", 100) == 105
    page = logs.read(running).page
    assert page == logtext.Page(0, "one\n[96 bytes of the log are missing here.]\nlate\n", 105)
    assert logs.read(running, 50).page.text == "[50 bytes of the log are missing here.]\nlate\n"


def test_the_end_of_a_task_and_of_its_log_are_one_report(logs, running):
    """Log: a short task costs one request; the report repeated exactly appends nothing."""
    said = {"offset": None, "status": "completed", "result": "1"}
    for _ in range(2):
        assert logs.write(running, "all of it\n", **said) == 10
    found = logs.read(running)
    assert (found.page.text, found.has_ended) == ("all of it\n", True)


def test_a_report_with_a_log_settles_what_waits_for_the_task(logs, running, desk, alice):
    waiting = desk.submit(alice, logs.job, depends_on=((running.id, "afterok"),))
    assert logs.write(running, "done", 0, "completed", result="1") == 4
    assert desk.get(alice, waiting).status == "pending"
    assert logs.text(running) == "done"


def test_what_another_report_has_stored_comes_together_with_the_end(logs, running):
    """The answer to the last flush was lost: the end brings it again, and more."""
    logs.write(running, "one\n", 0)
    assert logs.write(running, "one\ntwo\n", 0, "failed", error="boom") == 8
    assert logs.text(running) == "one\ntwo\n"


@pytest.mark.parametrize("status", [None, "completed", "failed", "running"])
def test_a_report_that_is_too_late_appends_nothing(logs, running, status):
    """Log: a report that gets 409 appends nothing."""
    logs.write(running, "mine", 0)
    with pytest.raises(InvalidTaskTransition):
        logs.write(running, "late", 4, status, attempt=running.attempt + 1)
    assert logs.write(running, "", 4, "completed") == 4
    with pytest.raises(InvalidTaskTransition):
        logs.write(running, "late", 4, attempt=running.attempt)
    assert logs.text(running) == "mine"


def test_only_who_holds_the_task_writes_its_log(logs, running, desk, bob, admin):
    with pytest.raises(Forbidden):
        Logs(desk, bob, logs.job).write(running, "not mine", 0)
    assert logs.text(running) == ""
    assert Logs(desk, admin, logs.job).write(running, "by an admin", 0) == 11
    assert logs.text(running) == "by an admin"


def test_the_worker_of_a_cancelled_task_still_brings_what_it_wrote(logs, desk, alice, bob):
    """Its report is answered 200; that of the creator has nothing to say of the log."""
    desk.submit(bob, logs.job)
    task = desk.run_one(alice)
    logs.write(task, "one\n", 0)
    creator = Logs(desk, bob, logs.job)
    assert creator.write(task, "no worker's", 4, "cancelled") == 4
    assert creator.write(task, "no worker's", 4, "cancelled") == 4
    assert logs.write(task, "two\n", 4, "cancelled") == 8
    assert logs.write(task, "two\n", 4, "cancelled") == 8
    assert logs.text(task) == "one\ntwo\n"


def test_a_holder_s_own_cancellation_brings_its_log(logs, running):
    assert logs.write(running, "enough", None, "cancelled") == 6
    assert logs.text(running) == "enough"


def test_each_attempt_keeps_its_log(logs, desk, alice):
    """Retry: the logs of earlier attempts stay readable; without one it is the newest's."""
    first = logs.run_one(max_attempts=2)
    assert logs.write(first, "one", 0, "failed", error="boom") == 3
    assert logs.read(first).has_ended
    second = desk.run_one(alice)
    assert logs.text(second) == ""
    logs.write(second, "two", 0, "failed", error="boom")
    desk.retry(alice, second)
    third = desk.run_one(alice)
    logs.write(third, "three", 0)
    found = [logs.text(third, attempt=attempt) for attempt in (None, 1, 2, 3)]
    assert found == ["three", "one", "two", "three"]
    assert [logs.read(third, attempt=n).has_ended for n in (1, 2, 3)] == [True, True, False]
    with pytest.raises(NotFound):
        logs.read(third, attempt=4)


def test_work_that_is_handed_back_leaves_its_log(desk, alice):
    logs = Logs(desk, alice, desk.job(alice, on_worker_lost="requeue", max_attempts=3))
    task = logs.run_one()
    assert logs.write(task, "so far", 0, "pending") == 6
    assert logs.text(task, attempt=1) == "so far"
    claimed = desk.claim_one(alice)
    assert logs.write(claimed, "nothing yet", 0, "pending") == 11


def test_the_next_task_comes_with_a_log_too(logs, running, desk, alice):
    """A repeated report answers the same next task, and how far the log reached."""
    waiting = desk.submit(alice, logs.job)
    given = {"log": "bye", "log_offset": 0, "attempt": running.attempt, "claim_next": True}
    for _ in range(2):
        done = desk.reported(alice, running, "completed", **given)
        assert done.next_task.task.id == waiting.id
        assert done.log_bytes == 3


def test_a_log_ends_with_one_mark_where_it_is_full(small):
    """Log, *bounded*: what comes after is dropped, with one final mark line."""
    task = small.run_one()
    mark = "[The log is cut here: no more than 10 bytes of it are kept.]\n"
    reach = small.write(task, "123456789é and more", 0)  # the é would lie across the end
    assert small.write(task, "and more", reach) == reach
    assert small.write(task, "123456789é and more", 0) == reach
    assert small.write(task, "more", None, "completed") == reach
    assert small.text(task) == f"123456789\n{mark}"
    other = small.run_one()
    assert small.write(other, "1234567890", None) == 10
    assert small.write(other, "1", None) > 10
    assert small.write(other, "1", None) == small.read(other).reach
    assert small.text(other) == f"1234567890\n{mark}"
    beyond = small.run_one()
    small.write(beyond, "x", 2**50)
    assert small.text(beyond).endswith(mark)


def test_a_nul_is_shown(logs, running):
    """Rules, *Text*: as in errors; the place goes by what is stored."""
    assert logs.write(running, "a\0b", 0) == 5
    assert logs.write(running, "a\0b", 0) == 5
    assert logs.text(running) == "a␀b"


def test_a_log_alone_leaves_the_task_as_it_is_and_its_worker_alive(logs, running, desk, alice):
    """ETag: a log does not raise it; the report is heard of all the same."""
    before = desk.get(alice, running)
    desk.wait(30)
    logs.write(running, "line\n", 0)
    assert desk.get(alice, running) == before
    assert tables.read(desk.queue, "SELECT last_heartbeat FROM worker")[0][0] >= desk.now() - 2e6
    logs.write(running, "line\n", 5, progress=0.5)
    assert desk.get(alice, running).version == before.version + 1


def test_who_sees_the_task_sees_its_log(logs, running):
    logs.write(running, "seen", 0)
    assert logs.text(running, who=Caller("bob", rooms=frozenset({"r1"}))) == "seen"
    with pytest.raises(TaskNotFound):
        logs.text(running, who=Caller("bob", rooms=frozenset()))


def test_pages_are_bounded_and_come_to_the_end(logs, running):
    """A page ends at a character's end, however the pieces lie; what it brings is all there is."""
    whole = ""
    for line in ("é" * 7, "z", "😀" * 5, "x" * 40):
        logs.write(running, line, len(whole.encode()))
        whole += line
    found, offset = "", 0
    while page := logs.read(running, offset, most=9).page:
        assert len(page.text.encode()) <= 9
        if not page.text:
            break
        found, offset = found + page.text, page.next_offset
    assert found == whole


def test_small_pieces_become_one(logs, running, queue):
    """A line a second makes no row a second: a sweep removes rows one by one."""
    whole = ""
    for n in range(30):
        line = f"{n:03} {'é' * 150}\n"
        logs.write(running, line, len(whole.encode()), progress=0.5 if n % 2 else None)
        whole += line
    logs.write(running, "end\n", len(whole.encode()), "completed")
    rows = tables.read(queue, "SELECT upto, text FROM task_log ORDER BY upto")
    assert [len(text.encode()) for _, text in rows] == [13 * 305, 13 * 305, 4 * 305 + 4]
    assert logs.text(running) == "".join(text for _, text in rows) == whole + "end\n"


def test_a_page_of_many_pieces_is_not_the_end(logs, running, queue):
    tables.write(
        queue,
        "WITH RECURSIVE many(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM many WHERE n < 1002)"
        " INSERT INTO task_log SELECT seq, attempt, n, 'x' FROM task, many",
    )
    logs.write(running, "!", None, "completed")
    first = logs.read(running)
    assert (first.page.next_offset, first.has_ended) == (1000, False)
    rest = logs.read(running, 1000)
    assert (rest.page.text, rest.has_ended) == ("xx!", True)


def test_a_log_goes_with_its_task(logs, running, desk, queue):
    """The sweep removes what is past its retention, with all that belongs to it."""
    logs.write(running, "gone soon", 0, "completed")
    desk.wait(queue.settings.task_retention_seconds + 60)
    assert desk.sweep().removed_tasks == 1
    assert tables.read(queue, "SELECT count(*) FROM task_log") == [(0,)]


def test_two_that_append_at_the_same_place_at_once_are_stored_once(logs, running, tally):
    """The race of a flush whose answer was lost with the one that repeats it."""
    rounds = 8
    barrier = threading.Barrier(3, timeout=30)

    def write(number: int) -> None:
        for n in range(rounds):
            barrier.wait()
            # They have seen as much of the log, and one has more to say than the others.
            logs.write(running, f"{n:04}\n" * (1 + (number == n % 3)), 10 * n)
            barrier.wait()
            logs.write(running, f"{n:04}\n" * 2, 10 * n)

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(write, range(3)))
    assert logs.text(running) == "".join(f"{n:04}\n" * 2 for n in range(rounds))
    tally(appends=rounds * 6, stored_twice=0)


APPEND_ONE = (
    "WITH held AS (SELECT seq, attempt FROM task FOR NO KEY UPDATE)"
    " INSERT INTO task_log SELECT seq, attempt, 4, E'one\\n' FROM held"
)


def wait_for_a_lock(url: str) -> None:
    """Until a session of this database waits for a row of another one."""
    waiting = (
        "SELECT count(*) FROM pg_stat_activity"
        " WHERE datname = current_database() AND wait_event_type = 'Lock'"
    )
    deadline = time.monotonic() + 30
    with psycopg.connect(url, autocommit=True) as connection:
        while connection.execute(waiting).fetchone() == (0,):
            assert time.monotonic() < deadline, "nobody waits"
            time.sleep(0.01)


@pytest.mark.only_on("postgresql")
@pytest.mark.parametrize(
    ("sql", "is_late"),
    [
        ("UPDATE task SET status = 'cancelled', completed_at = 1", True),
        (APPEND_ONE, False),
    ],
    ids=["a cancellation", "another's piece"],
)
def test_what_somebody_writes_at_that_moment_is_waited_for(logs, running, settings, sql, is_late):
    """Where others write beside us, the guard must hold for the append and the report alike."""
    with psycopg.connect(settings.database_url) as other, ThreadPoolExecutor(1) as pool:
        other.execute(sql)
        ours = pool.submit(logs.write, running, "a longer line\n", None, progress=0.5)
        wait_for_a_lock(settings.database_url)
        other.commit()
        if is_late:
            with pytest.raises(InvalidTaskTransition):
                ours.result(30)
        else:
            assert ours.result(30) == 18
    assert logs.text(running) == ("" if is_late else "one\na longer line\n")


@pytest.mark.only_on("libsql")
def test_a_log_costs_no_request_of_its_own(logs, desk, alice, monkeypatch):
    """One request with progress, with the end, and alone, as long as nothing was lost."""
    requests = []
    exchange = HranaHttp._exchange

    def counted(self, *rest):
        requests.append(rest)
        return exchange(self, *rest)

    task = logs.run_one()
    logs.write(task, "warm\n", 0)
    monkeypatch.setattr(HranaHttp, "_exchange", counted)
    costs = {}
    for name, said in {
        "alone": {"log": "a\n", "log_offset": 5},
        "with progress": {"log": "b\n", "log_offset": 7, "progress": 0.5},
        "with the end": {"log": "c\n", "log_offset": 9, "status": "completed"},
    }.items():
        requests.clear()
        status = said.pop("status", None)
        desk.reported(alice, task, status, attempt=task.attempt, **said)
        costs[name] = len(requests)
    assert costs == {"alone": 1, "with progress": 1, "with the end": 1}
    assert logs.text(task) == "warm\na\nb\nc\n"
