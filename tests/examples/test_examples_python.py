"""The worker and the submitter in Python, as a user starts them, against a real server."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest
from example_stage import (
    EXAMPLES,
    PATIENCE_SECONDS,
    ended,
    environment,
    running,
    seen,
    started_server,
)
from live_server import BASE, ROOT, token_of

JOBROOM = [sys.executable, "-c", "from jobroom.cli.main import app; app()"]
JOBS = {"r1:modifiers:rotate", "r1:analysis:Distance"}


@pytest.fixture
def server(tmp_path):
    with started_server(tmp_path) as started:
        yield started.until_ready()


@pytest.fixture
def variables(server):
    return environment(server.url, PYTHONPATH=str(ROOT / "joblib"))


@pytest.fixture
def worker(server, variables, tmp_path):
    """``jobroom worker rotate.py``, once it has registered its jobs."""
    command = [*JOBROOM, "worker", EXAMPLES / "rotate.py", "--room", "r1"]
    with running(command, tmp_path, variables) as process, server.client() as client:

        def listed():
            assert process.poll() is None, process.output.read_text()
            found = client.get(f"{BASE}/rooms/r1/jobs").json()["items"]
            return {job["full_name"] for job in found if job["alive_workers"]}

        seen(listed, lambda jobs: jobs == JOBS, said=process.output)
        seen(process.output.read_text, lambda said: " serves " in said)
        yield process


def test_what_is_submitted_is_worked_on_and_printed(worker, variables):
    done = subprocess.run(
        [sys.executable, EXAMPLES / "submit.py"],
        env=variables,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr + worker.output.read_text()
    *steps, rotated, distances = done.stdout.splitlines()
    assert steps[-1].startswith("100% completed")
    assert rotated == "{'axis': 'z', 'radians': 1.5707963267948966}"
    assert distances == "[0.0, 1.0, 2.0, 3.0, 4.0]"


def test_many_are_mapped_under_a_progress_bar(worker, variables):
    done = subprocess.run(
        [sys.executable, EXAMPLES / "many.py", "300"],
        env=variables,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr + worker.output.read_text()
    assert "distances, 0 failed" in done.stdout
    assert "100%" in done.stdout
    assert done.stdout.splitlines()[-1] == str(float(sum(range(300))))


def test_what_it_prints_is_the_task_s_log(server, worker):
    with server.client(token_of("alice")) as client:
        payload = {"angle": 90, "axis": "x", "steps": 2}
        path = f"{BASE}/rooms/r1/tasks/r1:modifiers:rotate"
        task = client.post(path, json={"payload": payload}).json()["id"]
        ended(client, task, worker.output)
        log = client.get(f"{BASE}/tasks/{task}/log").json()["text"]
    assert log == "turning about x: 45.0\nturning about x: 90.0\n"


def test_at_sigterm_the_worker_leaves(server, worker):
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(PATIENCE_SECONDS) == 0, worker.output.read_text()
    with server.client() as client:
        assert client.get(f"{BASE}/rooms/r1/workers").json()["items"] == []


def test_the_function_is_still_one():
    """A job is tested like any function: called."""
    code = "import rotate; print(rotate.rotate(180, steps=1)['radians'])"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=EXAMPLES,
        env={"PYTHONPATH": str(ROOT / "joblib"), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert done.stdout.splitlines() == ["turning about z: 180.0", "3.141592653589793"], done.stderr
