"""The processes of the demo: a clean environment, watched, and always ended."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from jobroom.demo.processes import (
    HOST,
    Children,
    DemoError,
    Interrupted,
    Signals,
    child_environment,
    free_port,
)


def add_module(folder: Path, source: str) -> None:
    (folder / "actor.py").write_text(source, "utf-8")


def wait_for_line(log: Path, line: str) -> None:
    deadline = time.monotonic() + 20
    while line not in log.read_text("utf-8"):
        assert time.monotonic() < deadline, f"{line!r} never came"
        time.sleep(0.02)


def test_a_child_does_not_see_the_settings_of_the_users_own_server() -> None:
    ours = {"ZNDRAW_JOBLIB_DATABASE_URL": "sqlite:///mine.db", "JOBROOM_TOKEN": "t", "HOME": "/h"}
    child = child_environment(ours, {"ZNDRAW_JOBLIB_JWT_SECRET": "s"})
    assert "ZNDRAW_JOBLIB_DATABASE_URL" not in child
    assert "JOBROOM_TOKEN" not in child
    assert child["ZNDRAW_JOBLIB_JWT_SECRET"] == "s"
    assert child["HOME"] == "/h"


def test_a_child_finds_the_modules_of_a_relative_python_path() -> None:
    child = child_environment({"PYTHONPATH": f"joblib{os.pathsep}{os.pathsep}/abs"}, {})
    assert child["PYTHONPATH"] == f"{Path.cwd() / 'joblib'}{os.pathsep}/abs"


def test_a_child_talks_to_this_machine_without_a_proxy() -> None:
    child = child_environment({"HTTP_PROXY": "http://proxy:1", "no_proxy": "other"}, {})
    assert child["no_proxy"] == child["NO_PROXY"] == HOST


def test_leaving_the_block_ends_every_child(tmp_path: Path) -> None:
    add_module(tmp_path, "import time\ntime.sleep(600)\n")
    with Children(tmp_path) as children:
        started = [children.start(f"sleeper {number}", ("actor",)) for number in range(2)]
        children.check()
    assert [child.process.poll() for child in started] == [-signal.SIGTERM] * 2


def test_a_child_that_will_not_end_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jobroom.demo.processes.END_SECONDS", 0.2)
    add_module(
        tmp_path,
        "import signal, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "print('deaf', flush=True)\n"
        "time.sleep(600)\n",
    )
    with Children(tmp_path) as children:
        child = children.start("stubborn", ("actor",))
        wait_for_line(child.log, "deaf")
    assert child.process.poll() == -signal.SIGKILL


def test_a_child_that_ended_is_named_with_the_end_of_its_log(tmp_path: Path) -> None:
    add_module(tmp_path, "for line in range(99):\n    print('line', line)\nraise SystemExit(3)\n")
    with Children(tmp_path) as children:
        child = children.start("worker 1", ("actor",))
        child.process.wait(20)
        with pytest.raises(
            DemoError, match="The worker 1 process ended with exit code 3"
        ) as caught:
            children.check()
        assert caught.value.log[-1] == "line 98"
        assert len(caught.value.log) == 12
        assert children.last_lines()[-1] == "worker 1: line 98"


def test_a_child_that_was_killed_is_named_with_the_signal(tmp_path: Path) -> None:
    add_module(tmp_path, "import time\ntime.sleep(600)\n")
    with Children(tmp_path) as children:
        child = children.start("server", ("actor",))
        child.process.kill()
        child.process.wait(20)
        with pytest.raises(DemoError, match="The server process was ended by signal 9"):
            children.check()


@pytest.mark.parametrize("signum", Signals.WATCHED)
def test_a_signal_is_noticed_at_the_next_check(signum: signal.Signals) -> None:
    with Signals() as signals:
        signals.check()
        signal.raise_signal(signum)
        with pytest.raises(Interrupted) as caught:
            signals.sleep(0)
    assert caught.value.exit_code == 128 + signum


def test_the_handlers_of_before_are_back_afterwards() -> None:
    before = [signal.getsignal(signum) for signum in Signals.WATCHED]
    with Signals():
        assert signal.getsignal(signal.SIGTERM) != before[1]
    assert [signal.getsignal(signum) for signum in Signals.WATCHED] == before


def test_a_signal_that_the_caller_ignores_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Signals() as signals:
            signal.raise_signal(signal.SIGHUP)
            signals.check()
    finally:
        signal.signal(signal.SIGHUP, before)


def test_nobody_listens_on_a_free_port() -> None:
    with socket.socket() as probe:
        assert probe.connect_ex((HOST, free_port())) != 0


def test_a_worker_without_a_token_says_how_it_is_started() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "jobroom.demo.worker", "http://127.0.0.1:1"],
        env=child_environment(os.environ, {}),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 2
    assert done.stderr == "Usage: JOBROOM_TOKEN=... python -m jobroom.demo.worker URL\n"
