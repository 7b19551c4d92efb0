"""A server that cannot start says in one sentence what to set, and ends: design 6, case C38."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

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
        'allowed_categories" from source',
    ),
}


@pytest.fixture(scope="module")
def ended(tmp_path_factory, work):
    """How each of the starts has ended, all of them started together."""
    folder = tmp_path_factory.mktemp("errors")
    (folder / "junk.db").write_bytes(b"no database at all" * 100)
    command = [sys.executable, "-m", "uvicorn", "app:app", "--fd", "0"]
    started = {}
    with open(os.devnull) as closed:  # noqa: PTH123 - a descriptor that is never served
        for case, (variables, _) in CASES.items():
            started[case] = subprocess.Popen(
                [*command[:-2], "--port", "0"],
                cwd=folder,
                env={**work.environment(), **variables},
                stdin=closed,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
    ends = {}
    for case, process in started.items():
        try:
            output, _ = process.communicate(timeout=30)
        finally:
            process.kill()
        ends[case] = (process.returncode, output)
    return ends


@pytest.mark.parametrize("case", CASES)
def test_the_start_ends_with_one_sentence(ended, case):
    code, output = ended[case]
    sentences = [line for line in output.splitlines() if "jobroom: " in line]
    assert code != 0
    assert len(sentences) == 1, output
    assert CASES[case][1] in sentences[0]
    assert "Traceback" not in output
