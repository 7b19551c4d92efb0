"""Processes that do the same steps at the same time, whenever they are told to."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from servers import ROOT

HERE = Path(__file__).resolve().parent


class Team:
    """So many processes of one script; each answers ``STEP COUNT`` by a line when it has done it.

    ``python``: the interpreter of an environment of its own, which then needs nothing of ours.
    """

    def __init__(
        self,
        script: str,
        arguments: Sequence[Sequence[str]],
        *,
        python: str | Path = sys.executable,
    ) -> None:
        path = os.pathsep.join([str(ROOT), str(ROOT / "joblib")])
        self._members = [
            subprocess.Popen(
                [str(python), str(HERE / script), *each],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env={**os.environ, "PYTHONPATH": path},
            )
            for each in arguments
        ]
        for member in self._members:
            self._hear(member)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: object, trace: TracebackType | None
    ) -> None:
        for member in self._members:
            member.communicate(timeout=30)

    def do(self, step: str, count: int) -> float:
        """Let all do a step so many times each; how many a second in all."""
        begun = time.perf_counter()
        for member in self._members:
            assert member.stdin is not None
            member.stdin.write(f"{step} {count}\n")
            member.stdin.flush()
        for member in self._members:
            self._hear(member)
        return len(self._members) * count / (time.perf_counter() - begun)

    def _hear(self, member: subprocess.Popen[str]) -> None:
        assert member.stdout is not None
        if member.stdout.readline() != "ready\n":
            raise SystemExit(f"A process ended: {' '.join(map(str, member.args))}")  # type: ignore[arg-type]  # a list, above
