"""Uses an installed jobroom as a stranger would: `smoke.py base` or `smoke.py server`."""

from __future__ import annotations

import importlib.util
import sys
import warnings
from pathlib import Path

warnings.simplefilter("error")

SDK = ("ApiManager", "Category", "ClaimedTask", "Extension", "JobManager", "TaskStream")
NEEDS_EXTRA = {"create_app": "server", "ProblemException": "server", "JobQueue": "queue"}


def check_base() -> None:
    import jobroom

    for name in (*SDK, "Job", "TaskStatus", "errors", "run_cleanup_sweeper"):
        getattr(jobroom, name)
    for name, extra in NEEDS_EXTRA.items():
        try:
            getattr(jobroom, name)
        except ImportError as error:
            if f'pip install "jobroom[{extra}]"' not in str(error):
                sys.exit(f"jobroom.{name} does not say how to get it: {error}")
        else:
            sys.exit(f"jobroom.{name} came without its extra; is this a base install?")


def check_server() -> None:
    import jobroom

    for name in jobroom.__all__:
        getattr(jobroom, name)
    if not callable(jobroom.create_app):
        sys.exit("jobroom.create_app cannot be called")


def main(kind: str) -> None:
    {"base": check_base, "server": check_server}[kind]()
    if importlib.util.find_spec("app") is not None:
        sys.exit("the wheel put a top-level module `app` into site-packages")
    if left := sorted(path.name for path in Path.cwd().iterdir()):
        sys.exit(f"importing jobroom made files: {left}")
    print(f"{kind}: all names are there")


main(sys.argv[1])
