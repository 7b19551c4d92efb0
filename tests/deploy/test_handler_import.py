"""``import app`` opens nothing, and neither it nor a call warns of anything."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import artifact
import lambda_events as events
import pytest
from lambda_function import SECRET

ROOT = Path(__file__).parents[2]
IMPORTED = """
import sys, threading
before = set(threading.enumerate())
import app
assert set(threading.enumerate()) == before
heavy = {"alembic", "apscheduler", "boto3", "httpx", "mangum", "psycopg", "uvicorn"}
print(sorted(heavy & set(sys.modules)))
"""
CALLED = """
import asyncio, json, os, sys
import app
healthy, me, scheduled = json.load(sys.stdin)
def status(event):
    return app.handler(event, None)["statusCode"]
said = [status(healthy), app.sweep(scheduled, None)["finished"], status(me)]
asyncio.run(asyncio.sleep(0))
said += [status(me), app.handler(scheduled, None)["finished"], status(healthy)]
print(json.dumps(said))
"""


def run(python, folder, script, *, path=(), given="", **settings):
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(
        [python, "-W", "error", "-c", script],
        cwd=folder,
        env={**kept, "PYTHONPATH": os.pathsep.join(map(str, path)), **settings},
        input=given,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout.splitlines()[-1]


@pytest.fixture
def here(tmp_path):
    """This Python and this checkout, from an empty folder."""
    return {"python": sys.executable, "folder": tmp_path, "path": [ROOT, ROOT / "joblib"]}


@pytest.fixture(scope="module")
def built(request):
    return artifact.prepare(request.config.cache.mkdir("lambda"))


def test_importing_app_opens_nothing_and_imports_nothing_that_not_all_need(here):
    assert run(**here, script=IMPORTED) == "[]"
    assert list(here["folder"].iterdir()) == []


def calls(tmp_path):
    requests = [events.http_api("GET", "/healthz"), events.http_api("GET", "/v1/me")]
    return {
        "given": json.dumps([*requests, events.SCHEDULED]),
        "ZNDRAW_JOBLIB_DATABASE_URL": f"sqlite:///{tmp_path}/queue.db",
        "ZNDRAW_JOBLIB_JWT_SECRET": SECRET,
        "ZNDRAW_JOBLIB_LOG_FORMAT": "json",
    }


EXPECTED = "[200, true, 401, 401, true, 200]"


def test_no_call_warns_of_anything(here, tmp_path):
    assert run(**here, script=CALLED, **calls(tmp_path)) == EXPECTED


def test_the_same_on_the_python_of_the_function(built, tmp_path):
    """What is run is what is deployed: nothing but the artifact, and what AWS puts beside it."""
    where = {"python": built.python, "folder": built.folder, "path": [built.folder]}
    assert run(**where, script=IMPORTED) == "[]"
    assert run(**where, script=CALLED, **calls(tmp_path)) == EXPECTED
