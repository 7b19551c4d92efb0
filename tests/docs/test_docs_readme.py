"""What the README shows is what there is: its programs run, its script is the one in examples/."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from jobroom.testing import Jobroom
from jobroom.worker import finding

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```", README, re.DOTALL | re.MULTILINE)


def block(language, word):
    (found,) = (text for kind, text in BLOCKS if kind == language and word in text)
    return found


@pytest.fixture
def serving(tmp_path):
    """A server and the jobs of a program of the README's."""

    def serve(source):
        module = tmp_path / "jobs.py"
        module.write_text(source if "import jobroom" in source else f"import jobroom\n\n{source}")
        (made,) = (one.cls.job_function for one in finding.find_jobs(str(module), room=None))
        rooms.append(Jobroom(made))
        return rooms[-1]

    rooms = []
    yield serve
    for one in rooms:
        one.close()


def test_the_script_is_that_of_the_examples():
    assert block("sh", "curl") == (ROOT / "examples" / "tour.sh").read_text()


def test_the_five_lines_run(serving):
    served = serving(block("python", "# rotate.py"))
    task = served.client.submit("r1:modifiers:rotate", angle=90)
    served.run_all()
    assert task.result() == {"turned": 90}


def test_the_job_that_tells_how_far_it_is_runs(serving):
    served = serving(block("python", "def scan"))
    task = served.client.submit("r1:modifiers:scan", path="a.xyz", steps=3)
    served.run_all()
    assert task.result() == 3
