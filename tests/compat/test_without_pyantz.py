"""The class for pyantz where pyantz cannot be: one sentence, and nothing else of jobroom hurt."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# What stands for an interpreter, or an installation, that the tests do not run on.
BLOCK = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {absent!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Absent())
sys.version_info = {version!r}
"""
IMPORT = "from jobroom.compat.pyantz import SqliteQueue"


def said(*absent: str, version: tuple[int, ...] = (3, 13, 0), code: str = IMPORT) -> str:
    """The last line of a Python that lacks these packages, and says to be of that version."""
    before = BLOCK.format(absent=absent, version=version)
    done = subprocess.run(
        [sys.executable, "-c", f"{before}\n{code}"],
        env={"PYTHONPATH": str(ROOT / "joblib")},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    lines = (done.stderr or done.stdout).splitlines()
    assert lines, f"exit code {done.returncode} without a word"
    return lines[-1]


def test_without_pyantz_the_import_says_what_to_install() -> None:
    assert said("pyantz") == (
        'ImportError: jobroom.compat.pyantz needs pyantz; run: pip install "jobroom[queue,pyantz]"'
    )


@pytest.mark.parametrize("version", [(3, 11, 7), (3, 12, 0)])
def test_on_an_older_python_the_import_says_which_one_is_needed(version: tuple[int, ...]) -> None:
    """The extra ``pyantz`` installs nothing there, so to install it would not help."""
    line = said("pyantz", version=version)
    assert line.startswith("ImportError: jobroom.compat.pyantz needs Python 3.13 or newer")
    assert sys.version.split()[0] in line


def test_the_error_comes_alone() -> None:
    """No trace of the import that failed inside."""
    code = f"""
try:
    {IMPORT}
except ImportError as error:
    print(error.name, error.__suppress_context__)
"""
    assert said("pyantz", code=code) == "pyantz True"


def test_the_package_itself_imports_without_it() -> None:
    code = "import jobroom.compat, jobroom; print(sorted(set(sys.modules) & {'pyantz'}))"
    assert said("pyantz", code=code) == "[]"
