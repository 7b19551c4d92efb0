"""The demo from start to end: real server, real workers, and nothing left behind."""

from __future__ import annotations

import contextlib
import io
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console

from jobroom.demo import run as demo
from jobroom.demo.processes import HOST, Child, Children, DemoError
from jobroom.demo.rest import Rest
from jobroom.demo.run import Options

SCRIPT = "import sys; from jobroom.demo import run; sys.exit(run.run(run.Options(tasks={tasks})))"


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the demo makes its folder; empty again if it left nothing."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.setenv("TMPDIR", str(folder))
    return folder


@pytest.fixture
def running(temporary: Path) -> Iterator[subprocess.Popen[str]]:
    """A demo of many tasks in a process of its own."""
    with subprocess.Popen(
        [sys.executable, "-c", SCRIPT.format(tasks=200)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    ) as process:
        yield process
        process.terminate()


def run_it(options: Options) -> tuple[int, str]:
    stream = io.StringIO()
    return demo.run(options, Console(file=stream, width=200)), stream.getvalue()


def read_until(process: subprocess.Popen[str], words: str) -> str:
    """Read what it prints up to a line with these words; the end of the stream ends it too."""
    assert process.stdout is not None
    text = ""
    for line in process.stdout:
        text += line
        if words in line:
            return text
    pytest.fail(f"{words!r} never came; it printed {text!r}")


def url_in(text: str) -> str:
    return next(word.rstrip(",") for word in text.split() if word.startswith("http://127.0.0.1:"))


def processes_with(words: str) -> list[int]:
    """Find processes by a part of their command line, without a ``ps`` where /proc has it."""
    if Path("/proc/self/cmdline").exists():
        found = []
        for file in Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):  # it ended meanwhile
                if words in file.read_bytes().replace(b"\0", b" ").decode(errors="replace"):
                    found.append(int(file.parent.name))
        return found
    command = ["ps", "-A", "-ww", "-o", "pid=,args="]
    listing = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return [int(line.split()[0]) for line in listing.stdout.splitlines() if words in line]


def assert_nothing_left(temporary: Path, printed: str) -> None:
    url = url_in(printed)
    port = url.rpartition(":")[2]
    assert list(temporary.iterdir()) == []
    assert processes_with(url) == []
    assert processes_with(f"--port {port}") == []
    assert not is_open(int(port))


def wait_for_the_end(printed: str) -> None:
    """Wait until nobody listens: a process that ends loses its name a moment before its port."""
    url = url_in(printed)
    port = url.rpartition(":")[2]
    deadline = time.monotonic() + 20
    while processes_with(url) or processes_with(f"--port {port}") or is_open(int(port)):
        assert time.monotonic() < deadline, "its processes go on"
        time.sleep(0.05)


def is_open(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((HOST, port)) == 0


def test_the_whole_demo_completes_every_task_and_leaves_nothing(temporary: Path) -> None:
    code, printed = run_it(Options(tasks=4, workers=2))
    assert code == 0
    assert "[4/4]" in printed
    assert "4 of 4 tasks completed" in printed
    assert "on worker 1" in printed
    assert "on worker 2" in printed
    assert "\x1b" not in printed
    assert_nothing_left(temporary, printed)


def test_what_is_kept_holds_the_results_and_no_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(secrets, "token_urlsafe", lambda _: "a-secret-of-this-test-" * 3)
    kept = tmp_path / "kept"
    code, printed = run_it(Options(tasks=1, workers=1, keep=kept))
    assert code == 0
    assert str(kept) in printed
    (row,) = json.loads((kept / "results.json").read_text("utf-8"))
    assert (row["methyl"], len(row["energies"])) == ("N1", 36)
    assert (kept / "jobroom.db").exists()
    for file in kept.iterdir():
        content = file.read_bytes()
        assert b"a-secret-of-this-test" not in content
        assert b"eyJ" not in content, f"{file.name} holds a token"


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_demo_and_leaves_nothing(
    running: subprocess.Popen[str], temporary: Path, signum: signal.Signals
) -> None:
    printed = read_until(running, "tasks submitted")
    running.send_signal(signum)
    rest, errors = running.communicate(timeout=60)
    assert running.returncode == 128 + signum
    assert rest.splitlines()[-1] == "Stopped as you asked: server and workers have ended."
    assert errors == ""
    assert_nothing_left(temporary, printed)


@pytest.mark.parametrize("words", ["server ready", "tasks submitted"])
def test_a_kill_ends_server_and_workers_and_leaves_nothing(
    running: subprocess.Popen[str], temporary: Path, words: str
) -> None:
    """A kill -9 gives the demo no time to end anything: its processes notice by themselves."""
    printed = read_until(running, words)
    running.kill()
    wait_for_the_end(printed)
    assert_nothing_left(temporary, printed)


def test_what_is_kept_outlives_a_kill(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    script = SCRIPT.format(tasks=f"200, keep=__import__('pathlib').Path({str(kept)!r})")
    with subprocess.Popen(
        [sys.executable, "-c", script],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    ) as process:
        printed = read_until(process, "tasks submitted")
        process.kill()
    wait_for_the_end(printed)
    assert (kept / "jobroom.db").exists()


def test_a_worker_that_dies_is_told_in_one_sentence(
    running: subprocess.Popen[str], temporary: Path
) -> None:
    printed = read_until(running, "tasks submitted")
    os.kill(processes_with(f"jobroom.demo.worker {url_in(printed)}")[0], signal.SIGKILL)
    _, errors = running.communicate(timeout=60)
    assert running.returncode == 1
    assert "process was ended by signal 9 before the work was done." in errors
    assert "Traceback" not in errors
    assert_nothing_left(temporary, printed)


def test_a_server_that_cannot_start_is_told_with_the_end_of_its_log(
    temporary: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.socket() as taken:
        taken.bind((HOST, 0))
        taken.listen()
        monkeypatch.setattr(demo, "free_port", lambda: taken.getsockname()[1])
        code, _ = run_it(Options(tasks=1, workers=1))
    errors = capsys.readouterr().err
    assert code == 1
    assert errors.startswith("The server process ended with exit code ")
    assert "address already in use" in errors
    assert list(temporary.iterdir()) == []


def test_a_request_that_is_refused_is_told_with_the_ends_of_the_logs(
    temporary: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: object) -> str:
        raise DemoError("The server refused it.")

    monkeypatch.setattr(Rest, "submit", refuse)
    monkeypatch.setattr(Child, "last_lines", lambda child: [f"log of {child.name}"])
    code, printed = run_it(Options(tasks=1, workers=1))
    assert code == 1
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "The server refused it."
    assert [line.strip() for line in lines[1:]] == [
        "server: log of server",
        "worker 1: log of worker 1",
    ]
    assert_nothing_left(temporary, printed)


def test_a_missing_server_part_is_told_with_the_command_that_helps(
    temporary: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(demo, "find_spec", lambda name: None if name == "uvicorn" else name)
    code, _ = run_it(Options())
    assert code == 1
    assert 'does not find uvicorn: run  pip install "jobroom[server]"' in capsys.readouterr().err


def test_a_folder_that_holds_something_is_not_written_to(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "thesis.txt").write_text("dear", "utf-8")
    code, _ = run_it(Options(keep=tmp_path))
    assert code == 1
    assert "is not empty" in capsys.readouterr().err
    assert [file.name for file in tmp_path.iterdir()] == ["thesis.txt"]


def test_a_file_is_refused_as_the_folder_to_keep(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("x", "utf-8")
    code, _ = run_it(Options(keep=tmp_path / "file"))
    assert code == 1
    assert "cannot be used as a folder" in capsys.readouterr().err


def test_without_a_place_for_temporary_files_one_sentence_says_so(
    temporary: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(temporary / "missing"))
    code, _ = run_it(Options())
    assert code == 1
    assert capsys.readouterr().err.startswith("No temporary folder can be made: No such file")


def test_a_standstill_is_given_up_after_a_minute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    moments = iter([0.0, 1.0, 60.0, 62.0])
    monkeypatch.setattr(time, "monotonic", lambda: next(moments))
    movement, children = demo.Movement(), Children(tmp_path)
    movement.note([], children)
    movement.note([], children)
    with pytest.raises(DemoError, match="No task has moved for 60 s"):
        movement.note([], children)
