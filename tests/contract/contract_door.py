"""The application as the suite serves it in another process: the deploy's own, anew for each test.

A server process takes a second to start, a test some milliseconds. So one process serves test after
test: a file tells it which settings the next has, and what its test changes on the inside. ``app``
and ``handler`` stand in front of the deploy's own ``app.py``, which is imported again whenever the
settings change, as a new process would; nothing else comes in between.
"""

from __future__ import annotations

import functools
import importlib
import json
import os
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest import mock

STATE = "CONTRACT_STATE"
"""The environment variable that names the file."""
PREFIX = "ZNDRAW_JOBLIB_"
UNTOUCHED: dict[str, Any] = {
    "clock_offset": None,  # microseconds
    "constants": {},  # by their full names
    "missing": [],  # modules that shall not be there
    "failing": None,  # the name of the error that every use of the store ends in
}
"""The inside as it is, and what may be changed of it."""


class Inside:
    """What a test may change in the inside of an application, in this process or in another."""

    def __init__(self, door: Any) -> None:
        self._door = door
        self._changed = ExitStack()

    def apply(self, wanted: dict[str, Any]) -> None:
        """Make the inside as wanted: what ``UNTOUCHED`` has, with other values."""
        self.undo()
        if wanted["clock_offset"] is not None:
            self._door.queue.clock_offset = wanted["clock_offset"]
        for name, value in wanted["constants"].items():
            importlib.import_module(name.rpartition(".")[0])
            self._changed.enter_context(mock.patch(name, value))
        for name in wanted["missing"]:
            self._changed.callback(_show_again, name, sys.modules.get(name))
            sys.modules[name] = None  # type: ignore[assignment] # an import of it fails
        if wanted["failing"]:
            fail = mock.Mock(side_effect=_error(wanted["failing"]))
            self._changed.enter_context(mock.patch.object(self._door, "post", fail))
            self._changed.enter_context(mock.patch.object(self._door.queue, "sweep", fail))

    def undo(self) -> None:
        """Give the constants their own values back."""
        self._changed.close()


def _show_again(name: str, module: Any) -> None:
    if module is None:
        del sys.modules[name]
    else:
        sys.modules[name] = module


def _error(name: str) -> Exception:
    """The exception of a failing store: one of ours, or one that nobody foresaw."""
    ours = importlib.import_module("jobroom.errors")
    return getattr(ours, name)("busy") if hasattr(ours, name) else RuntimeError("hush")


class Stage:
    """The deploy's module under the settings of the test that is now on."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stamp: tuple[int, int] | None = None
        self._test: str | None = None
        self._module: Any = None
        self._inside: Inside | None = None
        self.root_path = ""

    def module(self) -> Any:
        """``app.py`` as the file wants it; looked at before each request."""
        found = self._path.stat()
        if (stamp := (found.st_ino, found.st_mtime_ns)) != self._stamp:
            self._take(json.loads(self._path.read_text()))
            self._stamp = stamp
        return self._module

    def _take(self, wanted: dict[str, Any]) -> None:
        if wanted["test"] != self._test:
            self._end()
            self._begin(wanted["environment"])
            self._test, self.root_path = wanted["test"], wanted["root_path"]
        assert self._inside is not None
        self._inside.apply(wanted)

    def _begin(self, environment: dict[str, str]) -> None:
        for name in [name for name in os.environ if name.startswith(PREFIX)]:
            del os.environ[name]
        os.environ.update(environment)
        sys.modules.pop("app", None)
        self._module = importlib.import_module("app")
        self._inside = Inside(self._module.app.state.door)

    def _end(self) -> None:
        if self._inside is None:
            return
        self._inside.undo()
        self._module.app.state.door.close()
        if (loop := self._module.handler._loop) is not None:
            loop.close()


@functools.cache
def _stage() -> Stage:
    return Stage(Path(os.environ[STATE]))


async def app(scope: Any, receive: Any, send: Any) -> None:
    """For uvicorn; a root path is what a host that mounts the application would put there."""
    stage = _stage()
    module = stage.module()
    await module.app({**scope, "root_path": stage.root_path}, receive, send)


def handler(event: dict[str, Any], context: Any) -> Any:
    """For the Lambda runtime."""
    return _stage().module().handler(event, context)
