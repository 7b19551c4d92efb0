"""Which jobs a module or a file defines, and what is said when there are none."""

from __future__ import annotations

import sys

import pytest

from jobroom.errors import ConfigurationError
from jobroom.worker.finding import CannotImport, find_jobs

SOURCE = """
import jobroom.client.extension
from jobroom.client.extension import Extension
from jobroom.worker.functions import job
from pydantic import BaseModel

@job
def rotate(angle: float):
    pass

spin = rotate

class Fit(Extension):
    isolate = "process"
    memory_mb = 100
    def run(self, vis, **kwargs):
        pass

class Plain(BaseModel):
    def run(self, vis):
        pass

class Bare(Extension):
    pass

class Data(BaseModel):
    x: int

def helper():
    pass
"""


@pytest.fixture
def write(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)

    def make(name, source):
        file = tmp_path / f"{name}.py"
        file.write_text(source)
        return file

    yield make
    for name in set(sys.modules) - before:
        del sys.modules[name]


def names(found):
    return [one.full_name for one in found]


@pytest.mark.parametrize("form", ["file", "module"])
def test_a_modules_own_jobs_are_found_once_each(write, form):
    file = write("things", SOURCE)
    found = find_jobs(str(file) if form == "file" else "things", room="r1")
    assert names(found) == ["r1:modifiers:rotate", "r1:modifiers:Fit", "r1:modifiers:Plain"]
    assert {one.source for one in found} == {str(file) if form == "file" else "things"}
    assert (found[1].isolate, found[1].memory_mb, found[2].isolate) == ("process", 100, None)


def test_what_a_module_imports_is_not_its_own_but_may_be_named(write):
    write("things", SOURCE)
    write("others", "from things import rotate, Fit")
    with pytest.raises(ConfigurationError, match=r"others defines no job: write a function"):
        find_jobs("others")
    assert names(find_jobs("others:rotate")) == ["@global:modifiers:rotate"]


def test_a_file_imports_what_lies_beside_it(write, tmp_path):
    (tmp_path / "sub").mkdir()
    write("sub/beside", "")
    file = write("sub/mine", "import beside\n" + SOURCE)
    assert len(find_jobs(str(file))) == 3
    assert len(find_jobs("sub/mine.py:Fit")) == 1


@pytest.mark.parametrize(
    ("target", "why"),
    [
        ("nowhere", "There is no module 'nowhere' here"),
        ("nowhere.deeper", "There is no module 'nowhere' here"),
        ("nowhere.py", "There is no file nowhere.py."),
        ("empty", "empty defines no job: write a function with types and @jobroom.job"),
        ("empty:rotate", "empty has no job 'rotate': write"),
    ],
)
def test_nothing_found_is_one_sentence_that_says_what_to_write(write, target, why):
    write("empty", "x = 1")
    with pytest.raises(ConfigurationError) as refused:
        find_jobs(target)
    assert str(refused.value).startswith(why)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("source", "headline"),
    [
        ("def load():\n    return 1 / 0\nload()", "ZeroDivisionError: division by zero"),
        ("import not_installed", "ModuleNotFoundError: No module named 'not_installed'"),
        ("import sys\nsys.exit(3)", "SystemExit: 3"),
    ],
)
@pytest.mark.parametrize("form", ["broken.py", "broken"])
def test_code_that_fails_at_import_shows_its_own_lines_alone(write, source, headline, form):
    write("broken", source)
    with pytest.raises(CannotImport) as failed:
        find_jobs(form)
    assert str(failed.value) == f"{form} cannot be imported: {headline}"
    places = [line for one in failed.value.frames for line in one.splitlines() if "File" in line]
    assert places
    assert all("broken.py" in place for place in places)


@pytest.mark.parametrize(
    ("line", "refusal", "why"),
    [
        ("isolate = 'foo'", ValueError, "The class Fit has  isolate='foo'"),
        ("memory_mb = 0", ValueError, "The class Fit has  memory_mb=0"),
        ("def run(self, vis): yield 1", TypeError, "The class Fit cannot be a job: it yields"),
    ],
)
def test_a_class_is_refused_as_a_function_is(write, line, refusal, why):
    head = "from jobroom.client.extension import Extension\nclass Fit(Extension):\n"
    write("things", f"{head}    def run(self, vis): pass\n    {line}\n")
    with pytest.raises(refusal) as refused:
        find_jobs("things")
    assert str(refused.value).startswith(why)


def test_a_file_is_known_by_its_whole_path(write, tmp_path):
    write("things", SOURCE)
    assert {one.source for one in find_jobs("things.py")} == {str(tmp_path / "things.py")}


def test_a_syntax_error_names_its_line(write):
    write("broken", "def (:\n")
    with pytest.raises(CannotImport, match=r"SyntaxError: .*line 1"):
        find_jobs("broken")
