"""pyantz beside ours: its environment, and the process that measures it there."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import venvs
from graph_scenes import Cost
from servers import ROOT

HERE = Path(__file__).resolve().parent
VERSION = "2.0.3"
PINS = (f"pyantz=={VERSION}",)


def find_python() -> Path | None:
    """The interpreter of an environment with pyantz; None where no Python is new enough for it."""
    spec = importlib.util.spec_from_file_location(
        "newer_python", ROOT / "tests" / "pyantz" / "newer_python.py"
    )
    assert spec is not None
    assert spec.loader is not None
    finder = sys.modules["newer_python"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(finder)
    found = finder.find()
    if found is None:
        print(f"Measured without pyantz: {finder.MISSING}.", file=sys.stderr)
        return None
    return venvs.prepare(venvs.folder_of("pyantz"), PINS, "pyantz", by=found.path)


class Peer:
    """The process; each question is answered before the next one is asked."""

    def __init__(self, python: Path, folder: Path) -> None:
        own = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        self._process = subprocess.Popen(
            [python, HERE / "graph_pyantz.py", folder],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=own,
        )
        self._hear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: object, trace: TracebackType | None
    ) -> None:
        if kind is not None:  # it may be in the midst of something long
            self._process.kill()
        self._process.communicate(timeout=30)

    def ask(self, method: str, *arguments: object) -> Any:
        """Call a method of ``graph_pyantz.PeerScenes``."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([method, *arguments]) + "\n")
        self._process.stdin.flush()
        return self._hear()

    def _hear(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit("The process of pyantz ended; what it said stands above")
        return json.loads(line)


class PeerScene:
    """A scene that is measured over there."""

    def __init__(self, peer: Peer, kind: str, size: int) -> None:
        self._peer = peer
        self._name = f"{kind.replace(' ', '-')}-{size}"
        peer.ask("fill", self._name, kind, size)

    def round(self, calls: int, seconds: float) -> dict[str, Cost]:
        """As ``Scene.round``."""
        found = self._peer.ask("round", self._name, calls, seconds)
        return {step: Cost(*cost) for step, cost in found.items()}

    def close(self) -> None:
        """It is not needed any more."""
        self._peer.ask("close", self._name)
