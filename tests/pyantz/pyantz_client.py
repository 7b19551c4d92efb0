"""pyantz in an environment of its own, beside the checkout, and commands that are run there."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tarfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from newer_python import Found
from tooling import clean_environment, digest, locked, make_venv, run

VERSION = "2.0.3"
PYANTZ = f"pyantz=={VERSION}"
ROOT = Path(__file__).parents[2]
ON_PATH = Path(__file__).parent / "on_path"
UNUSED_SECONDS = 7 * 86_400
"""An environment that was not used for this long is removed when another is made."""
CLASSES = {
    "pyantz": "pyantz.infrastructure.distributed_queue.sql.sql_queue:SqliteQueue",
    "jobroom": "jobroom.compat.pyantz:SqliteQueue",
}
"""pyantz's own, which shows that what is checked is right, and the one in its place."""


RUN_SECONDS = 150
"""Within this each command ends, or is killed; alone, none takes longer than 15 s."""


class Client:
    """An environment that has pyantz, and what is running there."""

    def __init__(self, home: Path) -> None:
        self.examples = home / f"pyantz-{VERSION}" / "examples"
        self.bin = home / "venv" / "bin"
        self.running: set[subprocess.Popen[bytes]] = set()
        self.is_stopped = False

    def stop(self) -> None:
        """Start nothing more and kill what still runs: the tests end early."""
        self.is_stopped = True
        for process in list(self.running):
            _kill_group(process)


class Place:
    """A folder in which pyantz is run, with one of the classes."""

    def __init__(self, client: Client, queue_class: str, folder: Path) -> None:
        self.client = client
        self.queue_class = queue_class
        self.folder = folder
        self.work = folder / "work"
        self.log = folder / "log.jsonl"

    @contextmanager
    def started(
        self, *arguments: str | Path, output: str = "output.txt"
    ) -> Iterator[subprocess.Popen[bytes]]:
        """``python`` with these arguments, in the folder; whatever is left of it is killed."""
        assert not self.client.is_stopped
        with (self.folder / output).open("ab") as said:
            process = subprocess.Popen(
                [self.client.bin / "python", *arguments],
                cwd=self.folder,
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                start_new_session=True,
            )
        self.client.running.add(process)
        try:
            yield process
        finally:
            _kill_group(process)
            self.client.running.discard(process)

    def run(self, *arguments: str | Path, output: str = "output.txt") -> int:
        """The exit status; a queue that is wrong can make pyantz wait for ever."""
        with self.started(*arguments, output=output) as process:
            try:
                return process.wait(RUN_SECONDS)
            except subprocess.TimeoutExpired:
                pass
        raise AssertionError(f"still running after {RUN_SECONDS} s:\n{self.said(output)}")

    def said(self, output: str = "output.txt") -> str:
        """The end of what it printed."""
        return (self.folder / output).read_text(errors="replace")[-2500:]

    def _environment(self) -> dict[str, str]:
        kept = clean_environment()
        kept["PATH"] = os.pathsep.join([str(self.client.bin), kept.get("PATH", os.defpath)])
        # In the folder are the modules of an example that brings some.
        kept["PYTHONPATH"] = os.pathsep.join([str(ON_PATH), str(self.folder)])
        if self.queue_class != "pyantz":
            kept["PYANTZ_QUEUE_CLASS"] = CLASSES[self.queue_class]
        return kept


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    """Its workers too: they are what a killed main process leaves behind."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def prepare(python: Found, folder: Path) -> Client:
    """Make the environment in the folder, or find it there, made for the same things."""
    wanted = [python.version, python.path, ROOT, (ROOT / "pyproject.toml").read_text(), PYANTZ]
    home = folder / digest(*map(str, wanted))
    complete = home / "complete"
    with locked(folder):
        if not complete.exists():
            _remove_unused(folder)
            _make(python, home)
        complete.touch()
    return Client(home)


def _remove_unused(folder: Path) -> None:
    for complete in folder.glob("*/complete"):
        if time.time() - complete.stat().st_mtime > UNUSED_SECONDS:
            shutil.rmtree(complete.parent)


def _make(python: Found, home: Path) -> None:
    shutil.rmtree(home, ignore_errors=True)
    pip = make_venv(python.path, home, "-e", f"{ROOT}[queue,pyantz]", PYANTZ)
    # Only the source distribution has the examples, and only a pip of that Python sees it.
    run(*pip, "download", "-q", "--no-deps", "--no-binary", "pyantz", "-d", home, PYANTZ)
    with tarfile.open(home / f"pyantz-{VERSION}.tar.gz") as archive:
        archive.extractall(home, filter="data")
