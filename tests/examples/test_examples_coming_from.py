"""The programs of the pages for those who come from elsewhere run, and print what they say."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from example_stage import PATIENCE_SECONDS, environment, running, seen, started_server
from live_server import ROOT

PAGES = sorted((ROOT / "joblib" / "docs").glob("coming-from-*.md"))
BLOCK = re.compile(r"^```python\n# (\w+\.py)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
JOBROOM = [sys.executable, "-c", "from jobroom.cli.main import app; app()"]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with started_server(tmp_path_factory.mktemp("server")) as started:
        yield started.until_ready()


def printed(program, variables):
    done = subprocess.run(
        [sys.executable, "-B", program],
        env=variables,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_program_of_the_page_prints_what_it_says(page, server, tmp_path):
    programs = dict(BLOCK.findall(page.read_text()))
    for name, text in programs.items():
        (tmp_path / name).write_text(text)
    variables = environment(server.url, PYTHONPATH=str(ROOT / "joblib"))
    (told,) = [name for name, text in programs.items() if "# prints " in text]
    expected = re.findall(r"# prints (.*)$", programs[told], re.MULTILINE)
    if "jobs.py" not in programs:
        assert printed(tmp_path / told, variables) == expected
        return
    command = [*JOBROOM, "worker", tmp_path / "jobs.py", "--room", "r1"]
    with running(command, tmp_path, variables) as worker:
        seen(worker.output.read_text, lambda said: " serves " in said)
        assert printed(tmp_path / told, variables) == expected


def test_there_is_a_page_for_each_of_the_four():
    assert [page.stem.removeprefix("coming-from-") for page in PAGES] == [
        "celery",
        "pyantz",
        "rq",
        "zndraw-joblib",
    ]
