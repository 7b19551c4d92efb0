"""``jobroom serve`` as a process: what it prints, serves and refuses, and how it ends."""

from __future__ import annotations

import json
import re
import shlex
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import live_server
import pytest

PATIENCE = 60
COMMAND = "import typer; from jobroom.cli.serve import serve; typer.run(serve)"
"""The verb by itself: how it stands among the others is a test of the command line."""


class Serve:
    """A server as a user starts it, in a folder of its own."""

    def __init__(self, folder: Path, *options: str, **settings: object) -> None:
        self.port = live_server.free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.output = folder / "output.txt"
        with self.output.open("w") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-c", COMMAND, "--port", str(self.port), *options],
                cwd=folder,
                env=live_server.environment(**settings),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )

    def until_ready(self) -> Serve:
        """Wait until it answers."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            assert self.process.poll() is None, self.said
            try:
                if httpx.get(f"{self.url}/readyz", trust_env=False).status_code == 200:
                    return self
            except httpx.TransportError:
                time.sleep(0.02)
        raise AssertionError(self.said)

    @property
    def said(self) -> str:
        return self.output.read_text()

    def end(self, number: signal.Signals) -> int:
        """Send it a signal; its exit code."""
        self.process.send_signal(number)
        return self.process.wait(PATIENCE)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Serve]]:
    started: list[Serve] = []

    def begin(*options: str, **settings: object) -> Serve:
        started.append(Serve(tmp_path, *options, **settings))
        return started[-1]

    yield begin
    for each in started:
        each.process.kill()
        each.process.wait()


def test_with_nothing_configured_it_prints_a_token_and_a_line_that_works(
    start: Callable[..., Serve], tmp_path: Path
) -> None:
    """Design, *Who may come in*; it ends well on Ctrl-C."""
    server = start().until_ready()
    [line] = re.findall(r"^ +(curl .+)$", server.said, re.MULTILINE)
    command, *arguments = shlex.split(line)
    done = subprocess.run(
        [command, "-s", *arguments], capture_output=True, text=True, timeout=PATIENCE, check=True
    )
    assert json.loads(done.stdout) == {"id": "local", "is_admin": True, "rooms": None}
    assert (tmp_path / "jobroom.db").exists()
    assert server.end(signal.SIGINT) == 0
    assert "Traceback" not in server.said


def test_it_answers_what_is_under_way_before_it_ends(
    start: Callable[..., Serve], tmp_path: Path
) -> None:
    """A long-poll is answered at once when the server is told to stop."""
    url = f"sqlite:///{tmp_path}/other.db"
    server = start("--database-url", url, jwt_secret=live_server.SECRET).until_ready()
    assert (tmp_path / "other.db").exists()
    assert "A token for you" not in server.said
    headers = {"authorization": f"Bearer {live_server.token_of('w', is_admin=True)}"}
    answers: list[httpx.Response] = []
    with httpx.Client(
        base_url=server.url, headers=headers, timeout=PATIENCE, trust_env=False
    ) as http:
        live_server.register(http)
        task = live_server.submit(http, payload={})
        address = f"{live_server.BASE}/tasks/{task}"

        def wait() -> None:
            answers.append(http.get(address, headers={"Prefer": "wait=50"}))

        waiting = threading.Thread(target=wait)
        waiting.start()
        deadline = time.monotonic() + PATIENCE
        while "\njobroom_waiting_requests 1.0" not in http.get("/metrics").text:
            assert time.monotonic() < deadline
        assert server.end(signal.SIGTERM) in (0, -signal.SIGTERM)
        waiting.join(PATIENCE)
    assert [answer.status_code for answer in answers] == [200]
    assert "Traceback" not in server.said


def test_a_port_that_is_taken_is_refused_in_one_sentence(start: Callable[..., Serve]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        server = start("--port", str(port))
        assert server.process.wait(PATIENCE) != 0
    assert re.fullmatch(
        rf"jobroom: Nothing can listen at 127\.0\.0\.1, port {port}: .+;"
        r" stop what is there, or choose another with --port or --host\.\n",
        server.said,
    )


def test_a_setting_that_does_not_fit_is_refused_in_one_sentence(
    start: Callable[..., Serve],
) -> None:
    server = start(worker_timeout_seconds="soon")
    assert server.process.wait(PATIENCE) != 0
    assert server.said.startswith("jobroom: A setting does not fit: ZNDRAW_JOBLIB_WORKER_TIMEOUT")
    assert server.said.count("\n") == 1


def test_a_database_that_cannot_be_opened_is_told_without_a_trace(
    start: Callable[..., Serve], tmp_path: Path
) -> None:
    server = start("--database-url", f"sqlite:///{tmp_path}/none/queue.db")
    assert server.process.wait(PATIENCE) == 1
    assert "jobroom: " in server.said
    assert "Traceback" not in server.said


def test_without_the_extra_it_says_what_to_install(tmp_path: Path) -> None:
    """The base install has no server in it."""
    blocked = f"import sys; sys.modules['uvicorn'] = None; {COMMAND}"
    done = subprocess.run(
        [sys.executable, "-c", blocked],
        cwd=tmp_path,
        env=live_server.environment(),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode != 0
    assert done.stderr == (
        'jobroom: this command needs uvicorn; run: pip install "jobroom[server]"\n'
    )
