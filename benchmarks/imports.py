"""The cold start: CPU time to import what a deploy, a worker and a user at a prompt import.

Run: python benchmarks/imports.py [--quick]

Each figure is the median of fresh processes that have their ``.pyc`` files; the interpreter's own
start is not in it. ``app`` also answers its first request, as on Lambda: an event of the gateway, a
signed token, one list read from a database that exists.
"""

from __future__ import annotations

import collections
import os
import re
import statistics
import subprocess
import sys
import tempfile

import report
from report import Row
from servers import ROOT, SECRET

from jobroom import tokens

RUNS = 15
QUICK_RUNS = 3
MOST_TIMES = 1.25
MOST_NAMED = 10

# What no deploy of this kind can do without.
FLOOR = """
from mangum import Mangum
from pydantic import BaseModel
from starlette.applications import Starlette
import sqlalchemy
"""
APP = "import app"
REQUEST = """
class Context:
    aws_request_id = "0"
    def get_remaining_time_in_millis(self):
        return 28_000
answer = app.handler(EVENT, Context())
assert answer["statusCode"] == 200, answer
"""
SDK = "from jobroom import JobManager"
SDK_FLOOR = "import httpx\nfrom pydantic import BaseModel"
NAME = "import jobroom"
NAME_FLOOR = "import typing"
HELP = """
import sys
from jobroom.cli.main import app
sys.argv = ["jobroom", "--help"]
sys.stdout = open("/dev/null", "w")
try:
    app()
except SystemExit as end:
    assert not end.code
"""
HELP_FLOOR = """
import sys
import typer
app = typer.Typer()
@app.command()
def nothing() -> None: ...
sys.argv = ["nothing", "--help"]
sys.stdout = open("/dev/null", "w")
try:
    app()
except SystemExit as end:
    assert not end.code
"""
TIMED = """
import time
_start = time.process_time()
{code}
import sys
sys.__stdout__.write(f"{{1000 * (time.process_time() - _start):.3f}}")
"""


def measure(*, quick: bool = False) -> list[Row]:
    """CPU milliseconds, in interleaved runs."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {
            **{k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"},
            "PYDANTIC_DISABLE_PLUGINS": "__all__",  # as template.yaml says
            "PYTHONPYCACHEPREFIX": f"{folder}/bytecode",
            "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "joblib")]),
            "ZNDRAW_JOBLIB_DATABASE_URL": f"sqlite:///{folder}/queue.db",
            "ZNDRAW_JOBLIB_JWT_SECRET": SECRET,
        }
        answering = f"EVENT = {_event()!r}\n{APP}{REQUEST}"
        codes = (answering, APP, FLOOR, SDK, SDK_FLOOR, NAME, NAME_FLOOR, HELP, HELP_FLOOR)
        found: dict[str, list[float]] = {code: [] for code in codes}
        for number in range(1 + (QUICK_RUNS if quick else RUNS)):
            for code, spent in found.items():
                milliseconds = _cpu_milliseconds(code, environment)
                if number:  # the first one wrote the .pyc files and made the database
                    spent.append(milliseconds)
        times = {code: statistics.median(spent) for code, spent in found.items()}
        most = _most_expensive(answering, environment)
    return _rows(times, answering, most)


def _rows(times: dict[str, float], answering: str, most: str) -> list[Row]:
    alone = "starlette + mangum + pydantic + SQLAlchemy Core alone"
    first = Row(
        "import app and answer the first request",
        times[answering],
        times[FLOOR],
        alone,
        "CPU ms",
        times[answering] / times[FLOOR],
        MOST_TIMES,
        at_most=True,
        reason=f"import alone {times[APP]:.0f} ms; ms by package: {most}",
    )
    rows = [first]
    for what, code, floor, against in (
        ("from jobroom import JobManager", SDK, SDK_FLOOR, "httpx + pydantic alone"),
        ("jobroom --help", HELP, HELP_FLOOR, "--help of an empty typer command"),
        ("import jobroom", NAME, NAME_FLOOR, "importing typing alone"),
    ):
        ratio = times[code] / times[floor]
        rows.append(Row(what, times[code], times[floor], against, "CPU ms", ratio))
    return rows


def _event() -> dict[str, object]:
    """An API Gateway request (payload 2.0) for the jobs of a room."""
    token = tokens.issue_token(SECRET, sub="bench", is_admin=True)
    path = "/v1/joblib/rooms/r1/jobs"
    return {
        "version": "2.0",
        "routeKey": "$default",
        "rawPath": path,
        "rawQueryString": "",
        "headers": {"authorization": f"Bearer {token}", "host": "example.org"},
        "requestContext": {
            "http": {"method": "GET", "path": path, "sourceIp": "127.0.0.1"},
            "domainName": "example.org",
            "stage": "$default",
        },
        "isBase64Encoded": False,
    }


def _cpu_milliseconds(code: str, environment: dict[str, str]) -> float:
    # The last line: what the function measures of itself comes before it.
    return float(_run([], TIMED.format(code=code), environment).stdout.splitlines()[-1])


def _most_expensive(code: str, environment: dict[str, str]) -> str:
    """The packages whose own modules took longest to import (wall time, -X importtime)."""
    told = _run(["-X", "importtime"], code, environment).stderr
    spent: collections.Counter[str] = collections.Counter()
    for own, module in re.findall(r"^import time: +(\d+) \| +\d+ \| +(\S+)", told, re.MULTILINE):
        spent[module.partition(".")[0]] += int(own)
    return ", ".join(f"{name} {own / 1000:.0f}" for name, own in spent.most_common(MOST_NAMED))


def _run(
    options: list[str], code: str, environment: dict[str, str]
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *options, "-c", code],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        cwd=ROOT,
    )


if __name__ == "__main__":
    report.command(measure, __doc__)
