"""The demo's server: ``python -m jobroom.demo.server --port N``, settings in the environment."""

from __future__ import annotations

import argparse
import shutil
import time
from functools import partial
from pathlib import Path

from jobroom.demo import guard
from jobroom.demo.processes import HOST

REMOVE_SECONDS = 3.0
PAUSE_SECONDS = 0.05


def main() -> None:
    """Serve until a signal says to stop, or until the demo is gone."""
    parser = argparse.ArgumentParser(prog="python -m jobroom.demo.server")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--remove", type=Path, help="a folder to remove if the demo is killed")
    asked = parser.parse_args()
    guard.watch(and_first=partial(remove_folder, asked.remove))
    # After the watch has begun: this takes a while, and the demo may be killed meanwhile.
    import uvicorn

    uvicorn.run(
        "jobroom.bootstrap:create_app",
        factory=True,
        host=HOST,
        port=asked.port,
        log_level="warning",
    )


def remove_folder(folder: Path | None) -> None:
    """Remove a folder in which others, who are ending too, may still make a file."""
    deadline = time.monotonic() + REMOVE_SECONDS
    while folder is not None and folder.exists() and time.monotonic() < deadline:
        shutil.rmtree(folder, ignore_errors=True)
        time.sleep(PAUSE_SECONDS)


if __name__ == "__main__":
    main()
