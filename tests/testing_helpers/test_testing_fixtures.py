"""The page on testing says what is true: a pytest of its own runs the code that stands there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "joblib" / "docs" / "testing.md"


def test_what_the_page_shows_runs_as_it_says(tmp_path: Path) -> None:
    conftest, *tests = re.findall(
        r"^```python\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE
    )
    (tmp_path / "conftest.py").write_text(conftest)
    for number, text in enumerate(tests):
        (tmp_path / f"test_{number}.py").write_text(text)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "error", "."],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT / "joblib")},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert "5 passed" in done.stdout, done.stdout + done.stderr
