"""What the Containerfile says, read without an engine, and its command as a process here."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import httpx
import live_server

ROOT = Path(__file__).parents[2]
FILE = ROOT / "Containerfile"
HEALTHCHECK = ROOT / "deploy" / "healthcheck.py"
WORKDIR = "/srv"
START_SECONDS = 120


class Instruction(NamedTuple):
    """One instruction; ``text`` is what comes behind its name, on one line."""

    name: str
    text: str

    @property
    def words(self) -> list[str]:
        return shlex.split(self.text)

    @property
    def listed(self) -> list[str]:
        """Its exec form."""
        found = json.loads(self.text[self.text.index("[") :])
        assert isinstance(found, list)
        return found


def stages() -> list[list[Instruction]]:
    """The instructions of each stage; what stands before the first is a stage, too."""
    text = "\n".join(line for line in FILE.read_text().splitlines() if not line.startswith("#"))
    found: list[list[Instruction]] = [[]]
    for line in text.replace("\\\n", " ").splitlines():
        name, _, rest = line.strip().partition(" ")
        if name == "FROM":
            found.append([])
        if name:
            found[-1].append(Instruction(name, " ".join(rest.split())))
    return found


def last_stage(name: str) -> list[Instruction]:
    """The instructions of this name in the stage that is shipped."""
    return [each for each in stages()[-1] if each.name == name]


def environment() -> dict[str, str]:
    """The image's variables, without PATH."""
    pairs = [word.split("=", 1) for each in last_stage("ENV") for word in each.words]
    return {name: value for name, value in pairs if name != "PATH"}


def command() -> list[str]:
    """What an engine runs."""
    (found,) = last_stage("CMD")
    return found.listed


def process_environment(**variables: str) -> dict[str, str]:
    """What the command sees: the image's variables and these, our code, and nobody's settings."""
    path = os.pathsep.join((str(Path(sys.executable).parent), os.defpath))
    code = {"PATH": path, "PYTHONPATH": str(ROOT / "joblib"), "HOME": "/"}
    return {**code, **environment(), **variables}


def unprivileged() -> list[str]:
    """A command in front that takes away what root may do beyond the rights of files."""
    if os.geteuid() != 0:
        return []
    setpriv = shutil.which("setpriv")
    assert setpriv, "setpriv (util-linux) is missing"
    return [setpriv, "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs"]


class Served:
    """The image's command in a folder that it may not write, as it is in the image."""

    def __init__(self, folder: Path, **variables: str) -> None:
        self.folder = folder / "srv"
        self.folder.mkdir()
        shutil.copy(ROOT / "app.py", self.folder)
        self.folder.chmod(0o555)
        self.port = live_server.free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.variables = {"PORT": str(self.port), **variables}
        self._output = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed with it
        self.process = subprocess.Popen(
            [*unprivileged(), *command()],
            cwd=self.folder,
            env=process_environment(**self.variables),
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=self._output,
        )

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.process.kill()
        self.process.wait()
        self._output.close()
        self.folder.chmod(0o755)

    @property
    def output(self) -> str:
        self._output.seek(0)
        return self._output.read()

    def until_ready(self):
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            assert self.process.poll() is None, self.output
            try:
                if httpx.get(f"{self.url}/readyz").status_code == 200:
                    return self
            except httpx.TransportError:
                time.sleep(0.02)
        raise AssertionError(f"not ready: {self.output}")

    def client(self) -> httpx.Client:
        token = live_server.token_of("w", is_admin=True)
        headers = {"authorization": f"Bearer {token}"}
        return httpx.Client(base_url=self.url, headers=headers, timeout=60)

    def health(self, **variables: str) -> subprocess.CompletedProcess[str]:
        """The image's health check, run as an engine does."""
        (check,) = last_stage("HEALTHCHECK")
        program, script = check.listed
        assert script == f"{WORKDIR}/{HEALTHCHECK.name}"
        return subprocess.run(
            [program, HEALTHCHECK],
            env=process_environment(**{**self.variables, **variables}),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def terminate(self) -> None:
        self.process.send_signal(signal.SIGTERM)
