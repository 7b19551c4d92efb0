"""Other processes that work on a test's store, each driven line by line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Self

import live_server

PROGRAM = Path(__file__).with_name("hand.py")


class Hand:
    """A process with a queue of its own on the store; killed at the end."""

    def __init__(self, url: str, **environment: str) -> None:
        known = live_server.environment()
        path = os.pathsep.join((known["PYTHONPATH"], str(PROGRAM.parents[1])))
        self._process = subprocess.Popen(
            [sys.executable, str(PROGRAM), url],
            env={**known, "PYTHONPATH": path, **environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Self:
        assert self._read() == "ready\n"
        return self

    def __exit__(self, *exc: object) -> None:
        self._process.kill()
        self._process.communicate()

    def send(self, name: str, **arguments: Any) -> None:
        """Let it begin; ``answer`` waits for the end."""
        self._process.stdin.write(json.dumps([name, arguments]) + "\n")
        self._process.stdin.flush()

    def answer(self) -> Any:
        return json.loads(self._read())

    def ask(self, name: str, **arguments: Any) -> Any:
        self.send(name, **arguments)
        return self.answer()

    def _read(self) -> str:
        line = self._process.stdout.readline()
        assert line, f"the other process has ended: {self._process.wait()}"
        return line
