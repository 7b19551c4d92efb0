"""The AWS SAM command line and cfn-lint in an environment of their own, kept for the next run."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from tooling import clean_environment, digest, locked, make_venv, run

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
                environment = _environment(AWS_DEFAULT_REGION=REGION)
                answer = run(self.bin / "python", WORKER, given=asked, environment=environment)
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
            make_venv(sys.executable, home, SAM)
            complete.touch()
    return Tools(home)


def _forget_old_answers(folder: Path) -> None:
    answers = sorted(folder.glob("answer-*"), key=lambda path: path.stat().st_mtime)
    for path in answers[:-MOST_ANSWERS]:
        path.unlink()


def _environment(**variables: str) -> dict[str, str]:
    # Whatever asks AWS finds nobody to ask.
    credentials = {"AWS_ACCESS_KEY_ID": "none", "AWS_SECRET_ACCESS_KEY": "none"}
    nowhere = {"AWS_EC2_METADATA_DISABLED": "true", "AWS_CONFIG_FILE": os.devnull}
    said = {"SAM_CLI_TELEMETRY": "0", **credentials, **nowhere, **variables}
    return clean_environment(**said)
