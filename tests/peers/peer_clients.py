"""The released clients of zndraw-joblib, in an environment of their own, and a program there."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

from tooling import clean_environment, digest, locked, make_venv, run

VERSION = "0.1.7"
OLD_VERSION = "0.1.1"
PINS = (
    "sqlalchemy[asyncio]==2.0.51",
    f"zndraw-joblib=={VERSION}",
    "zndraw-auth==0.2.3",
    "fastapi-users[sqlalchemy]>=15",
)
OLD_PINS = (f"zndraw-joblib=={OLD_VERSION}", "zndraw-auth==0.1.0")
"""Put in front of the others: no resolver finds a set of versions for the old release any more."""
PROGRAM = Path(__file__).with_name("peer_program.py")
PATIENCE_SECONDS = 60


class Peers:
    """An environment that has both releases, and commands that are run there."""

    def __init__(self, home: Path) -> None:
        self.python = home / "venv" / "bin" / "python"
        self.old = home / "old"

    @contextmanager
    def started(self, server, scene, token, *, folder, version=VERSION):
        """The program at its scene; killed at the end if it still runs."""
        extra = {"PYTHONPATH": str(self.old)} if version == OLD_VERSION else {}
        output = folder / f"peer-{scene}.txt"
        with output.open("wb") as said:
            process = subprocess.Popen(
                [self.python, "-W", "ignore", PROGRAM, scene, server.url, token],
                env=clean_environment(**extra),
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=subprocess.STDOUT,
            )
        process.output = output
        try:
            yield process
        finally:
            process.kill()
            process.wait()

    def play(self, server, scene, token, *, folder, version=VERSION):
        """Run the scene to its end; what it saw."""
        with self.started(server, scene, token, folder=folder, version=version) as process:
            code = process.wait(PATIENCE_SECONDS)
            said = process.output.read_text()
        assert code == 0, said
        return json.loads(said.splitlines()[-1])


def prepare(folder: Path) -> Peers:
    """Make the environment in the folder, or find it there, made for the same things."""
    home = folder / digest(sys.version, sys.executable, *PINS, *OLD_PINS)
    complete = home / "complete"
    with locked(folder):
        if not complete.exists():
            for other in folder.glob("*/complete"):
                shutil.rmtree(other.parent)
            shutil.rmtree(home, ignore_errors=True)
            pip = make_venv(sys.executable, home, *PINS)
            run(*pip, "install", "-q", "--no-deps", "--target", home / "old", *OLD_PINS)
            complete.touch()
    return Peers(home)
