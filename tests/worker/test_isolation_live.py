"""``jobroom worker --isolate process`` against a real server."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import live_server
import pytest
from worker_shop import BASE, TIMEOUT_SECONDS, until

PROCESSES = ("--isolate", "process")
WITH_PROGRAMS = """
    import os, re, subprocess

    def start_programs():
        made = [subprocess.Popen(["sleep", "300"], start_new_session=apart) for apart in (0, 1)]
        pathlib.Path("new").write_text(" ".join(str(one.pid) for one in made))
        pathlib.Path("new").rename("pids")
        return made

    @job
    def wait() -> None:
        start_programs()[0].wait()

    @job
    def hang() -> None:
        start_programs()
        re.match(r"(a+)+$", "a" * 60 + "b")
"""


def pids_of(room):
    pids = room.folder / "pids"
    until(pids.exists)
    programs = [int(one) for one in pids.read_text().split()]
    return [_parent_of(programs[0]), *programs]


def _parent_of(pid):
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def is_running(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_c_code_that_holds_the_interpreter_does_not_stop_the_heartbeat(room):
    """C06, the third: a catastrophic pattern, for longer than the worker timeout in one go."""
    room.worker(
        """
        import math, re

        def search(length: int) -> float:
            began = time.monotonic()
            re.match(r"(a+)+$", "a" * length + "b")
            return time.monotonic() - began

        @job
        def hold(seconds: float) -> float:
            # A letter more takes twice as long.
            return search(19 + math.ceil(math.log2(seconds / search(19))))
        """,
        *PROCESSES,
    )
    task_id = room.submit("hold", seconds=TIMEOUT_SECONDS * 1.5)
    (seconds,) = room.until_completed(task_id)
    assert seconds > TIMEOUT_SECONDS
    assert room.task(task_id)["attempt"] == 1


def test_a_task_that_kills_its_process_fails_after_its_attempts(room):
    """C07: three times, and not a fourth; the worker goes on all the while."""
    room.worker(
        """
        import os

        @job(max_attempts=3, on_worker_lost="requeue")
        def leave() -> None:
            with open("runs", "a") as runs:
                runs.write("x")
            print("here I go")
            os._exit(9)

        @job
        def stay() -> int:
            return 1
        """,
        *PROCESSES,
    )
    task_id = room.submit("leave")
    task = room.until_status(task_id, "failed")
    assert "the process of this task ended by itself with exit code 9" in task["error"]
    assert task["attempt"] == 3
    assert room.until_completed(room.submit("stay")) == [1]
    assert (room.folder / "runs").read_text() == "xxx"
    assert room.log(task_id) == "here I go\n"


def test_a_process_that_is_killed_is_told_and_the_task_runs_again(room):
    room.worker(
        """
        import os

        @job(max_attempts=2)
        def survive() -> str:
            if pathlib.Path("pid").exists():
                return "survived"
            pathlib.Path("new").write_text(str(os.getpid()))
            pathlib.Path("new").rename("pid")
            time.sleep(300)
        """,
        *PROCESSES,
    )
    task_id = room.submit("survive")
    until((room.folder / "pid").exists)
    os.kill(int((room.folder / "pid").read_text()), signal.SIGKILL)
    assert room.until_completed(task_id) == ["survived"]
    assert room.task(task_id)["attempt"] == 2


@pytest.mark.parametrize("job", ["wait", "hang"])
def test_nothing_is_left_of_a_worker_that_is_killed(room, job):
    worker = room.worker(WITH_PROGRAMS, *PROCESSES)
    room.submit(job)
    pids = pids_of(room)
    assert all(map(is_running, pids))
    worker.kill()
    until(lambda: not any(map(is_running, pids)))


def test_nothing_is_left_of_a_worker_that_was_told_twice(room):
    worker = room.worker(WITH_PROGRAMS, *PROCESSES)
    room.submit("hang")
    pids = pids_of(room)
    worker.send(signal.SIGTERM)
    worker.until_told("worker.draining")
    worker.send(signal.SIGTERM)
    assert worker.wait() == 128 + signal.SIGTERM
    until(lambda: not any(map(is_running, pids)))


def test_a_cancel_ends_the_task_and_the_programs_that_it_has_started(room):
    room.worker(WITH_PROGRAMS, *PROCESSES)
    task_id = room.submit("wait")
    pids = pids_of(room)
    room.cancel(task_id)
    until(lambda: not any(map(is_running, pids)))
    assert room.task(task_id)["status"] == "cancelled"


def test_what_a_task_prints_is_its_log_while_it_runs(room):
    room.worker(
        """
        @job
        def talk() -> None:
            print("first", flush=True)
            while not pathlib.Path("go").exists():
                time.sleep(0.01)
            print("last")
        """,
        *PROCESSES,
    )
    task_id = room.submit("talk")
    until(lambda: room.task(task_id)["status"] == "running" and room.log(task_id) == "first\n")
    (room.folder / "go").touch()
    room.until_completed(task_id)
    assert room.log(task_id) == "first\nlast\n"


SCRIPT = """
import os

import jobroom

connection = jobroom.Connection(os.environ["JOBROOM_URL"], os.environ["JOBROOM_TOKEN"])
manager = jobroom.JobManager(connection)


@manager.register(room={room!r})
class Whose(jobroom.Extension):
    category = "modifiers"

    def run(self, vis, **kwargs):
        return [os.getpid(), os.getppid()]


{start}manager.serve(isolate="process")
"""


class Script:
    """A program of a user's own, whose last line serves."""

    def __init__(self, room, start):
        path = room.folder / "script.py"
        path.write_text(SCRIPT.format(room=room.name, start=start))
        token = live_server.token_of("w", is_admin=True)
        server = {"JOBROOM_URL": room.shop.server.url, "JOBROOM_TOKEN": token}
        self.process = subprocess.Popen(
            [sys.executable, path.name],
            cwd=room.folder,
            env={**live_server.environment(), **server},
            stdin=subprocess.DEVNULL,
        )
        self.pid = self.process.pid

    def kill(self):
        self.process.kill()
        self.process.wait()


@pytest.fixture
def script_of(room):
    def start(start):
        made = Script(room, start)
        room.started.append(made)
        jobs = f"{BASE}/rooms/{room.name}/jobs"
        until(lambda: room.http.get(jobs).json()["items"])
        return made

    return start


def test_a_class_of_a_script_runs_in_a_process_of_its_own(room, script_of):
    """The process imports the script, which neither registers nor serves there."""
    script = script_of('if __name__ == "__main__":\n    ')
    own, parent = room.until_completed(room.submit("Whose"))[0]
    assert (own == script.pid, parent) == (False, script.pid)
    assert len(room.workers()) == 1


def test_a_script_that_serves_when_it_is_imported_is_told_what_to_write(room, script_of):
    script_of("")
    task = room.until_status(room.submit("Whose"), "failed")
    assert 'write  if __name__ == "__main__":' in task["error"]
