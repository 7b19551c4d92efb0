"""How ``jobroom worker`` leaves: signals, and the end of its work."""

from __future__ import annotations

import signal

import pytest
from worker_shop import ADD, BASE, SPIN, spinning


def test_the_first_sigterm_finishes_what_runs_and_takes_nothing_more(room):
    worker = room.worker(SPIN)
    running, waiting = room.submit("spin", seconds=1), room.submit("spin", seconds=1)
    spinning(room)
    worker.send(signal.SIGTERM)
    assert worker.wait() == 0
    assert room.task(running)["status"] == "completed"
    assert (room.task(waiting)["status"], room.task(waiting)["starts"]) == ("pending", 0)
    assert worker.id not in room.workers()


def test_a_job_is_gone_as_soon_as_its_worker_has_left(room):  # C17
    worker = room.worker(ADD)
    worker.send(signal.SIGINT)
    assert worker.wait() == 0
    assert room.http.get(f"{BASE}/rooms/{room.name}/jobs").json()["items"] == []


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)], ids=["SIGTERM", "Ctrl-C"]
)
def test_the_second_signal_fails_what_may_not_be_handed_back(room, number, code):
    worker = room.worker(SPIN)
    task = room.submit("spin", seconds=60)
    spinning(room)
    worker.send(signal.SIGTERM)
    worker.until_told("worker.draining running=1")
    worker.send(number)
    assert worker.wait() == code
    assert room.task(task)["error"] == "The worker was stopped while it ran this task."
    assert len(worker.lines("task.failed")) == 1
    assert worker.lines("task.handed_back") == []


def test_the_second_signal_hands_back_what_its_job_requeues(room):
    worker = room.worker(SPIN.replace("@job", '@job(on_worker_lost="requeue")'))
    task = room.submit("spin", seconds=60)
    spinning(room)
    worker.send(signal.SIGTERM)
    worker.until_told("worker.draining running=1")
    worker.send(signal.SIGTERM)
    assert worker.wait() == 143
    assert (room.task(task)["status"], room.task(task)["starts"]) == ("pending", 1)


def test_what_cannot_be_interrupted_does_not_keep_it(room):
    """A thread in C comes to no next step of Python: its task is handed back all the same."""
    worker = room.worker("""
        @job(on_worker_lost="requeue")
        def sleep():
            began("sleeping")
            time.sleep(600)
        """)
    task = room.submit("sleep")
    spinning(room, "sleeping")
    worker.send(signal.SIGTERM)
    worker.until_told("worker.draining running=1")
    worker.send(signal.SIGTERM)
    assert worker.wait() == 143
    assert room.task(task)["status"] == "pending"


def test_two_workers_with_one_token_do_not_disturb_each_other(room):  # C14
    first, second = room.worker(SPIN), room.worker(SPIN)
    tasks = [room.submit("spin", seconds=2, name=name) for name in ("one", "two")]
    for name in ("one", "two"):
        spinning(room, name)
    first.send(signal.SIGTERM)
    first.until_told("worker.draining running=1")
    first.send(signal.SIGTERM)
    assert first.wait() == 143
    by_worker = {room.task(one)["worker_id"]: one for one in tasks}
    assert room.until_completed(by_worker[second.id]) == ["spun"]
    assert second.id in room.workers()


def test_drain_ends_when_nothing_is_left(room):
    parent = """
        from jobroom.client.connection import Connection
        from jobroom.client.manager import JobManager

        @job
        def grow(depth: int):
            if depth:
                with Connection.from_env() as here:
                    name = current_task().job_name
                    JobManager(here).submit(name, room=name.split(":")[0], depth=depth - 1)
    """
    first = room.worker(parent)
    first.kill()
    task = room.submit("grow", depth=2)
    worker = room.worker(parent, "--drain", jobs=None)
    assert worker.wait() == 0
    assert room.task(task)["status"] == "completed"
    assert len(worker.lines("task.completed")) == 3


def test_a_program_serves_the_classes_that_it_registered(room):
    program = room.program("""
        import sys
        from jobroom.client.connection import Connection
        from jobroom.client.extension import Extension
        from jobroom.client.manager import JobManager

        with Connection.from_env() as connection, JobManager(connection) as jobs:

            @jobs.register(room=sys.argv[2])
            class Fit(Extension):
                points: int

                def run(self, vis, **kwargs):
                    began("fitting")
                    while not pathlib.Path("go").exists():
                        time.sleep(0.01)
                    return [vis, self.points]

            jobs.serve(slots=2, vis="the host")
            print("left in good order", file=sys.stderr)
        """)
    task = room.submit("Fit", points=3)
    spinning(room, "fitting")
    program.send(signal.SIGTERM)
    (room.folder / "go").touch()
    assert program.wait() == 0
    assert room.task(task)["result"] == ["the host", 3]
    assert program.lines("left in good order")
