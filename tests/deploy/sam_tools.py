"""The AWS SAM command line and cfn-lint in an environment of their own, kept for the next run."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

VERSION = "1.170.0"
SAM = f"aws-sam-cli=={VERSION}"
"""Not one of the extras: it holds pydantic back to a release before the one that we need."""
REGION = "eu-west-1"
ROOT = Path(__file__).parents[2]
TEMPLATE = ROOT / "template.yaml"
WORKER = Path(__file__).with_name("sam_worker.py")
MOST_ANSWERS = 20
Changes = dict[str, list[list[Any]]]
"""What to put where in the template: each a path of keys, and the value."""


class Tools:
    """What the environment is asked."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.bin = folder / "venv" / "bin"

    def sam(self, *arguments: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
        """``sam``, in the checkout, without a region, credentials or settings of a developer."""
        return subprocess.run(
            [self.bin / "sam", *arguments],
            cwd=ROOT,
            env=_environment(**variables),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=600,
            check=False,
        )

    def examine(
        self, *, changes: Changes, linted: list[str], documents: dict[str, Any]
    ) -> dict[str, Any]:
        """What the worker says; to the same question it is the same, so it is asked once."""
        question = {"changes": changes, "linted": linted, "documents": documents}
        asked = json.dumps({"template": str(TEMPLATE), **question}, sort_keys=True)
        known = self.folder / f"answer-{digest(asked, TEMPLATE.read_text(), WORKER.read_text())}"
        with locked(self.folder):
            if not known.exists():
                answer = _do(
                    self.bin / "python",
                    WORKER,
                    given=asked,
                    variables={"AWS_DEFAULT_REGION": REGION},
                )
                _forget_old_answers(self.folder)
                known.write_text(answer)
            return json.loads(known.read_text())


def prepare(folder: Path) -> Tools:
    """Make the environment in the folder, or find it there, made for the same things."""
    home = folder / digest(sys.version, sys.executable, SAM, str(folder))
    complete = home / "complete"
    with locked(folder):
        if not complete.exists():
            for old in folder.glob("*/complete"):
                shutil.rmtree(old.parent)
            shutil.rmtree(home, ignore_errors=True)
            _do(sys.executable, "-m", "venv", home / "venv")
            _do(home / "venv" / "bin" / "python", "-m", "pip", "install", "-q", SAM)
            complete.touch()
    return Tools(home)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Alone among the processes of a test run."""
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def digest(*texts: str) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:16]


def _forget_old_answers(folder: Path) -> None:
    answers = sorted(folder.glob("answer-*"), key=lambda path: path.stat().st_mtime)
    for path in answers[:-MOST_ANSWERS]:
        path.unlink()


def _environment(**variables: str) -> dict[str, str]:
    ours = ("PYTHON", "AWS_", "SAM_", "ZNDRAW_JOBLIB_", "JOBROOM_", "VIRTUAL_ENV")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    # Whatever asks AWS finds nobody to ask.
    credentials = {"AWS_ACCESS_KEY_ID": "none", "AWS_SECRET_ACCESS_KEY": "none"}
    nowhere = {"AWS_EC2_METADATA_DISABLED": "true", "AWS_CONFIG_FILE": os.devnull}
    return {**kept, "SAM_CLI_TELEMETRY": "0", **credentials, **nowhere, **variables}


def _do(*command: str | Path, given: str = "", variables: dict[str, str] | None = None) -> str:
    done = subprocess.run(
        command,
        env=_environment(**variables or {}),
        input=given,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=600,
        check=False,
    )
    if done.returncode != 0:
        words = " ".join(map(str, command))
        raise RuntimeError(f"{words} failed:\n{(done.stdout + done.stderr)[-2000:]}")
    return done.stdout
