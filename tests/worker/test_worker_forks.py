"""A task in a thread of the worker's that forks: only its own code goes on in the new process."""

from __future__ import annotations

import signal

import pytest
from worker_shop import Room

FORK = """
    import multiprocessing
    import os
    import signal
    import sys

    def ended(forked):
        return os.waitstatus_to_exitcode(os.waitpid(forked, 0)[1])

    @job
    def fork(how: str) -> int:
        if (forked := os.fork()) == 0:
            current_task().progress(0.5)
            print("from the other process")
            if how == "exit":
                sys.exit(3)
            if how == "raise":
                raise ValueError("no\\nmore")
            return -1
        return ended(forked)

    @job
    async def fork_async() -> int:
        if (forked := os.fork()) == 0:
            return -1
        await asyncio.sleep(0)
        return ended(forked)

    @job
    def signalled(number: int) -> int:
        reading, writing = os.pipe()
        if (forked := os.fork()) == 0:
            os.write(writing, b"x")
            time.sleep(1 if number == signal.SIGINT else 600)
            return -1
        os.read(reading, 1)
        os.kill(forked, number)
        return ended(forked)

    @job
    def pool() -> list[int]:
        with multiprocessing.get_context("fork").Pool(2) as workers:
            return workers.map(abs, [-1, 2])
"""


@pytest.fixture(scope="module")
def room(shop, tmp_path_factory):
    made = Room(shop, tmp_path_factory.mktemp("forks"))
    yield made
    made.close()


@pytest.fixture(scope="module")
def only_worker(room):
    """A worker of which nothing more is told than of its tasks, and that leaves once."""
    made = room.worker(FORK)
    yield made
    made.send(signal.SIGTERM)
    assert made.wait() == 0
    assert "Traceback" not in made.output
    assert made.output.count("worker.draining") == 1


@pytest.fixture
def worker(room, only_worker):
    """The same before and after each test."""
    yield only_worker
    assert room.workers() == {only_worker.id}
    assert not only_worker.has_ended


@pytest.mark.parametrize(("how", "code"), [("return", 0), ("exit", 3)])
def test_a_forked_process_ends_with_its_tasks_code_and_reports_nothing(room, worker, how, code):
    task = room.submit("fork", how=how)
    assert room.until_completed(task) == [code]
    assert (room.task(task)["progress"], room.task(task)["attempt"]) == (None, 1)
    worker.until_told(task)
    (line,) = worker.lines(task)
    assert "INFO task.completed" in line


def test_what_is_raised_in_a_forked_process_is_one_line(room, worker):
    task = room.submit("fork", how="raise")
    assert room.until_completed(task) == [1]
    (line,) = worker.lines("fork.failed")
    assert f" task={task} process=" in line
    assert "error='ValueError: no'" in line


def test_a_fork_of_an_async_task_ends_like_any_other(room, worker):
    task = room.submit("fork_async")
    assert room.until_completed(task) == [0]
    worker.until_told(task)
    assert len(worker.lines(task)) == 1


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGTERM, -signal.SIGTERM), (signal.SIGINT, 0)],
    ids=["SIGTERM", "Ctrl-C"],
)
def test_signals_to_a_forked_process_are_not_the_workers(room, worker, number, code):
    """But a Ctrl-C, which a terminal sends to all, lets what runs come to its end."""
    assert room.until_completed(room.submit("signalled", number=number)) == [code]


def test_a_pool_of_processes_can_be_ended_by_its_task(room, worker):
    assert room.until_completed(room.submit("pool")) == [[1, 2]]
