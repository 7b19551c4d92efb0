"""Uses an installed jobroom as a stranger would: `smoke.py base|queue|server`."""

from __future__ import annotations

import importlib.util
import sys
import warnings
from pathlib import Path

warnings.simplefilter("error")

EXTRA_OF = {
    "JobLibSettings": "queue",
    "JobQueue": "queue",
    "metadata": "queue",
    "ProblemException": "server",
    "ProblemType": "server",
    "create_app": "server",
    "problem_exception_handler": "server",
}
HAS = {"base": {"base"}, "queue": {"base", "queue"}, "server": {"base", "queue", "server"}}


def check_names(kind: str) -> None:
    import jobroom

    for name in jobroom.__all__:
        extra = EXTRA_OF.get(name, "base")
        if extra in HAS[kind]:
            getattr(jobroom, name)
        else:
            check_refused(name, extra)


def check_refused(name: str, extra: str) -> None:
    import jobroom

    try:
        getattr(jobroom, name)
    except ImportError as error:
        if f'pip install "jobroom[{extra}]"' not in str(error):
            sys.exit(f"jobroom.{name} does not say how to get it: {error}")
    else:
        sys.exit(f"jobroom.{name} came without the extra {extra}; is this a clean venv?")


def main(kind: str) -> None:
    check_names(kind)
    if importlib.util.find_spec("app") is not None:
        sys.exit("the wheel put a top-level module `app` into site-packages")
    if left := sorted(path.name for path in Path.cwd().iterdir()):
        sys.exit(f"importing jobroom made files: {left}")
    print(f"{kind}: the names it promises are there, the others say how to get them")


main(sys.argv[1])
