"""The built function behind its gateway, as a server of the acceptance cases."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import artifact
import live_stage
from environments import Function
from gateway import Gateway

from jobroom.settings import PREFIX

DOORS = ["uvicorn", "lambda"]
EVENT_MIB = 6
"""What AWS Lambda takes: a longer body never reaches the function."""
AT_ONCE = 8
"""Environments of a function: one more than any of these cases sends requests at once."""


class Deployed(NamedTuple):
    """Where it is reached, and where its database lies."""

    url: str
    folder: Path
    function: Function
    gateway: Gateway

    @property
    def port(self):
        return int(self.url.rpartition(":")[2])

    @property
    def busy(self):
        """How many environments have something to do."""
        with self.function._changed:
            return len(self.function._all) - len(self.function._idle)


@contextmanager
def serving(request, folder, *, concurrency=AT_ONCE, **settings):
    """A function; it must never have failed an invocation, nor written a trace into its log."""
    built = artifact.prepare(request.config.cache.mkdir("lambda"))
    with (
        Function(
            "app.handler",
            built,
            folder / "function.txt",
            variables={
                f"{PREFIX}{name.upper()}": str(value)
                for name, value in live_stage.chosen(folder, settings).items()
            },
            concurrency=concurrency,
        ) as function,
        Gateway(function) as gateway,
    ):
        yield Deployed(gateway.url, folder, function, gateway)
        assert function.failed == 0, function.output
        assert "Traceback" not in function.output
        assert "stackTrace" not in function.output


@contextmanager
def serving_on(door, request, folder, **settings):
    """A server process, or the function."""
    serve = serving(request, folder, **settings) if door == "lambda" else None
    with serve or live_stage.serving(folder, **settings) as server:
        yield server
