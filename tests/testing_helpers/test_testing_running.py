"""``Jobroom.run_all``: what a job raises and prints comes to what it does on a worker."""

from __future__ import annotations

import asyncio
import io
import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jobroom import TaskCancelled, current_task, job
from jobroom.testing import Jobroom

ROOT = Path(__file__).parents[2]


class Odd(BaseException):
    """What a test's own tools raise."""


@job(on_worker_lost="requeue")
def raising(name: str) -> None:
    """Raise what has that name."""
    known = {
        "KeyboardInterrupt": KeyboardInterrupt,
        "SystemExit": SystemExit,
        "GeneratorExit": GeneratorExit,
        "CancelledError": asyncio.CancelledError,
        "ValueError": ValueError,
    }
    raise known[name]("no luck")


@job
def speak(words: str, where: str = "stdout") -> None:
    """Print something."""
    print(words, file=getattr(sys, where))
    logging.getLogger("a_program").warning("logged: %s", words)


@pytest.fixture(scope="module")
def opened() -> Iterator[Jobroom]:
    with Jobroom(raising, speak, room="r1") as room:
        yield room


@pytest.mark.parametrize(
    "name", ["KeyboardInterrupt", "SystemExit", "GeneratorExit", "CancelledError", "ValueError"]
)
def test_what_a_job_raises_fails_its_task_alone(opened: Jobroom, name: str) -> None:
    """As on a worker, also where the job lets a lost worker's tasks be run again."""
    opened.client.submit("r1:modifiers:raising", name=name)
    [ended] = opened.run_all()
    assert ended["status"] == "failed"
    assert ended["error"].startswith(f"{name}: no luck\n")
    assert Path(__file__).name in ended["error"]
    assert "running.py" not in ended["error"].replace("test_testing_running.py", "")


def test_what_a_test_says_by_an_exception_of_its_own_fails_the_task_and_the_test() -> None:
    with Jobroom() as room:

        @job
        def checking(odd: bool) -> None:
            if odd:
                raise Odd("no luck")
            pytest.fail("not so")

        room.register(checking, room="r1")
        for odd, kind in ((True, Odd), (False, pytest.fail.Exception)):
            task = room.client.submit("r1:modifiers:checking", odd=odd)
            with pytest.raises(kind):
                room.run_all()
            assert task.status() == "failed"


def test_ctrl_c_fails_the_task_and_ends_the_run() -> None:
    with Jobroom() as room:

        @job
        def pressed() -> None:
            os.kill(os.getpid(), signal.SIGINT)
            threading.Event().wait(60)

        room.register(pressed, room="r1")
        task = room.client.submit("r1:modifiers:pressed")
        handler = signal.getsignal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            room.run_all()
        assert signal.getsignal(signal.SIGINT) is handler
        assert task.show()["error"].startswith("KeyboardInterrupt")


def test_a_job_that_raises_task_cancelled_is_cancelled() -> None:
    with Jobroom() as room:

        @job
        def given_up() -> None:
            raise TaskCancelled

        room.register(given_up, room="r1")
        room.client.submit("r1:modifiers:given_up")
        assert [one["status"] for one in room.run_all()] == ["cancelled"]


@pytest.mark.parametrize("where", ["stdout", "stderr"])
def test_what_a_job_prints_and_logs_is_in_its_log_and_still_printed(
    opened: Jobroom, where: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sys.stdout, sys.stderr
    task = opened.client.submit("r1:modifiers:speak", words="heard", where=where)
    opened.run_all()
    assert (sys.stdout, sys.stderr) == before
    assert "".join(task.log()) == "heard\nWARNING a_program: logged: heard\n"
    assert getattr(capsys.readouterr(), {"stdout": "out", "stderr": "err"}[where]) == "heard\n"


def test_a_record_is_in_the_log_once_where_the_program_logs_to_stderr(opened: Jobroom) -> None:
    handler = logging.StreamHandler(io.StringIO())
    logging.getLogger().addHandler(handler)
    try:
        task = opened.client.submit("r1:modifiers:speak", words="once")
        opened.run_all()
    finally:
        logging.getLogger().removeHandler(handler)
    assert "".join(task.log()).count("logged: once") == 1


def test_what_async_jobs_and_their_helpers_print_is_in_the_log() -> None:
    with Jobroom() as room:

        @job
        async def begin() -> None:
            print("async")  # noqa: T201
            await asyncio.to_thread(print, "beside")
            current_task().log("said\n")

        room.register(begin, room="r1")
        task = room.client.submit("r1:modifiers:begin")
        room.run_all()
        assert "".join(task.log()) == "async\nbeside\nsaid\n"


def test_two_rooms_in_two_threads_give_the_streams_back() -> None:
    before = sys.stdout, sys.stderr
    barrier = threading.Barrier(2, timeout=60)
    logs: dict[str, str] = {}

    def work(words: str) -> None:
        @job
        def meet() -> None:
            barrier.wait()
            print(words)  # noqa: T201
            barrier.wait()

        with Jobroom(meet, room="r1") as room:
            task = room.client.submit("r1:modifiers:meet")
            room.run_all()
            logs[words] = "".join(task.log())

    threads = [threading.Thread(target=work, args=(words,)) for words in ("one", "two")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert logs == {"one": "one\n", "two": "two\n"}
    assert (sys.stdout, sys.stderr) == before


def test_progress_is_there_at_once_and_the_last_of_it_with_the_end() -> None:
    with Jobroom() as room:
        seen: list[Any] = []

        @job
        def step() -> None:
            current_task().progress(0.5, "half way")
            shown = room.client.task(current_task().id).show()
            seen.append((shown["status"], shown["progress"], shown["message"]))

        room.register(step, room="r1")
        room.client.submit("r1:modifiers:step")
        room.run_all()
        assert seen == [("running", 0.5, "half way")]


def test_a_keyboard_interrupt_in_a_job_ends_no_pytest(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["jobroom.testing.fixtures"]\n')
    (tmp_path / "test_it.py").write_text(
        "from jobroom import job\n\n\n"
        "@job\ndef stop() -> None:\n    print('seen')\n    raise KeyboardInterrupt\n\n\n"
        "def test_first(jobroom):\n"
        "    jobroom.register(stop, room='r1')\n"
        "    jobroom.client.submit('r1:modifiers:stop')\n"
        "    [ended] = jobroom.run_all()\n"
        "    assert ended['status'] == 'completed'\n\n\n"
        "def test_second():\n    pass\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "error", "."],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT / "joblib")},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert "1 failed, 1 passed" in done.stdout, done.stdout + done.stderr
    assert "seen" in done.stdout.partition("Captured stdout call")[2]
