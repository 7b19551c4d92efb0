"""A server that cannot start says in one sentence what to set, and ends: design 6, case C38."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import pytest

from jobroom import create_app
from jobroom.errors import ConfigurationError

REAL = "on Lambda with nothing configured"

CASES = {
    "on Lambda with nothing configured": (
        {"AWS_LAMBDA_FUNCTION_NAME": "queue"},
        "set ZNDRAW_JOBLIB_JWT_SECRET, ZNDRAW_JOBLIB_JWT_PUBLIC_KEY or ZNDRAW_JOBLIB_JWT_JWKS_URL",
    ),
    "tokens asked for and nobody's accepted": (
        {"ZNDRAW_JOBLIB_AUTH_MODE": "jwt"},
        "set ZNDRAW_JOBLIB_JWT_SECRET, ZNDRAW_JOBLIB_JWT_PUBLIC_KEY or ZNDRAW_JOBLIB_JWT_JWKS_URL",
    ),
    "a secret too short": (
        {"ZNDRAW_JOBLIB_JWT_SECRET": "short"},
        "ZNDRAW_JOBLIB_JWT_SECRET is too short",
    ),
    "a folder that is not there": (
        {"ZNDRAW_JOBLIB_DATABASE_URL": "sqlite:///nowhere/queue.db"},
        "nowhere does not exist; make it, or set ZNDRAW_JOBLIB_DATABASE_URL",
    ),
    "a database of another kind": (
        {"ZNDRAW_JOBLIB_DATABASE_URL": "mysql://host/queue"},
        "ZNDRAW_JOBLIB_DATABASE_URL names 'mysql'",
    ),
    "a file that is no database": (
        {"ZNDRAW_JOBLIB_DATABASE_URL": "sqlite:///junk.db"},
        "junk.db cannot be",
    ),
    "a number out of range": (
        {"ZNDRAW_JOBLIB_WORKER_TIMEOUT_SECONDS": "-1"},
        "ZNDRAW_JOBLIB_WORKER_TIMEOUT_SECONDS: Input should be greater than 0",
    ),
    "a list that is none": (
        {"ZNDRAW_JOBLIB_ALLOWED_CATEGORIES": "a,b"},
        "ALLOWED_CATEGORIES: must be a JSON list",
    ),
}


def test_the_process_ends_with_one_sentence(tmp_path, work):
    """Never a trace to a user; the exit code tells a supervisor."""
    variables, sentence = CASES[REAL]
    done = subprocess.run(
        [sys.executable, "-m", "uvicorn", "app:app", "--port", "0"],
        cwd=tmp_path,
        env={**work.environment(), **variables},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    output = done.stdout + done.stderr
    assert done.returncode not in (0, -9)
    assert len([line for line in output.splitlines() if sentence in line]) == 1, output
    assert "Traceback" not in output


@pytest.mark.parametrize("case", CASES)
def test_a_server_is_told_one_sentence(tmp_path, monkeypatch, case):
    """What the application answers to any server's start (ASGI, *Lifespan*)."""
    variables, sentence = CASES[case]
    (tmp_path / "junk.db").write_bytes(b"no database at all" * 100)
    monkeypatch.chdir(tmp_path)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    ((kind, message),) = asyncio.run(start_up(create_app()))
    assert kind == "lifespan.startup.failed"
    assert message.startswith("jobroom: ")
    assert sentence in message
    assert "\n" not in message


def test_a_fault_of_ours_keeps_its_trace(tmp_path, monkeypatch):
    """Only what a user can mend is a sentence."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("jobroom.bootstrap.JobQueue.open", lambda settings: 1 / 0)
    ((kind, message),) = asyncio.run(start_up(create_app(), raises=ZeroDivisionError))
    assert kind == "lifespan.startup.failed"
    assert "Traceback" in message


async def start_up(app, raises=ConfigurationError):
    """Start an application as a server does; what it says before it refuses."""
    sent = []

    async def receive():
        return {"type": "lifespan.startup"}

    async def send(message):
        sent.append((message["type"], message["message"]))

    with pytest.raises(raises):
        await app({"type": "lifespan", "state": {}}, receive, send)
    return sent
