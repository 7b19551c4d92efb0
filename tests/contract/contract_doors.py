"""The doors to the application: in this process, through uvicorn, and through AWS Lambda."""

from __future__ import annotations

import asyncio
import functools
import itertools
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import artifact
import contract_door
import environments
import gateway
import httpx
import lambda_events
import live_server
from contract_api import Api, Json
from pydantic import SecretStr

from jobroom.bootstrap import create_app
from jobroom.settings import PREFIX, JobLibSettings

ROOT = Path(__file__).parents[2]
DOORS = ("in process", "uvicorn", "lambda")
PATIENCE_SECONDS = 120
AT_ONCE = 12
"""Environments that the function may have: as many as a test sends requests at the same time."""


@contextmanager
def in_process(
    settings: JobLibSettings, runner: asyncio.Runner, root_path: str = ""
) -> Iterator[Api]:
    """The application in this process: the fastest, and the only one with its inside at hand."""
    app = create_app(settings)
    inside = contract_door.Inside(app.state.door)
    transport = httpx.ASGITransport(app=app, root_path=root_path)
    http = httpx.AsyncClient(transport=transport, base_url="http://jobroom.test", trust_env=False)
    try:
        yield Api(runner, http, inside.apply, app)
    finally:
        inside.undo()
        app.state.door.close()


class Urls(NamedTuple):
    """Where a server is reached: ``as_sent`` where no gateway decodes the path of a request."""

    usual: str
    as_sent: str


class Stagehand:
    """Tells a server, by a file, what the test that now has it wants (see ``contract_door``)."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._writes = itertools.count(1)
        self._test: Json = {}

    def begin(self, settings: JobLibSettings, root_path: str) -> None:
        """The application shall begin anew, under these settings."""
        self._test = {
            "test": next(self._writes),
            # A host's mount; before the function it is a part of the path that the gateway keeps.
            "environment": environment_of(settings, gateway_base_path=root_path),
            "root_path": root_path,
        }
        self.tell(dict(contract_door.UNTOUCHED))

    def tell(self, inside: Json) -> None:
        """The application shall be so inside."""
        new = self.path.with_suffix(".new")
        new.write_text(json.dumps({**self._test, **inside}))
        # Two writes may fall on one tick of the file system's clock.
        os.utime(new, ns=(0, next(self._writes)))
        new.replace(self.path)


class Served:
    """A server that one test after the other has for itself."""

    def __init__(self, runner: asyncio.Runner, urls: Urls, stagehand: Stagehand) -> None:
        self._runner = runner
        self._stagehand = stagehand
        self._http, self._http_as_sent = (
            httpx.AsyncClient(base_url=url, trust_env=False, timeout=PATIENCE_SECONDS)
            for url in urls
        )

    def begin(self, settings: JobLibSettings, root_path: str, *, as_sent: bool) -> Api:
        """The application for the next test."""
        self._stagehand.begin(settings, root_path)
        http = self._http_as_sent if as_sent else self._http
        return Api(self._runner, http, self._stagehand.tell)

    def close(self) -> None:
        """Close the connections to it."""
        for http in (self._http, self._http_as_sent):
            self._runner.run(http.aclose())


class Doors:
    """The servers of this test run, each started when a test first needs it."""

    def __init__(
        self, runner: asyncio.Runner, folder: Path, cache: Path, opened: ExitStack
    ) -> None:
        self._runner = runner
        self._folder = folder
        self._opened = opened
        self._serving = {
            "uvicorn": uvicorn_process,
            "lambda": functools.partial(function_behind_gateway, cache),
        }
        self._idle: dict[str, list[Served]] = {}
        self._started = itertools.count(1)

    @contextmanager
    def open(
        self, door: str, settings: JobLibSettings, root_path: str = "", *, as_sent: bool = False
    ) -> Iterator[Api]:
        """The application under these settings, behind this door."""
        if door == "in process":
            with in_process(settings, self._runner, root_path) as api:
                yield api
            return
        idle = self._idle.setdefault(door, [])
        served = idle.pop() if idle else self._start(door, settings)
        try:
            yield served.begin(settings, root_path, as_sent=as_sent)
        finally:
            idle.append(served)

    def _start(self, door: str, settings: JobLibSettings) -> Served:
        folder = self._folder / f"{door}-{next(self._started)}"
        folder.mkdir()
        stagehand = Stagehand(folder / "state.json")
        stagehand.begin(settings, "")
        urls = self._opened.enter_context(self._serving[door](folder, stagehand.path))
        served = Served(self._runner, urls, stagehand)
        self._opened.callback(served.close)
        return served


def environment_of(settings: JobLibSettings, **more: object) -> dict[str, str]:
    """The environment variables that say what these settings say."""
    given = {name: getattr(settings, name) for name in settings.model_fields_set}
    return {
        PREFIX + name.upper(): _written(value)
        for name, value in {**given, **more}.items()
        if value not in (None, "")
    }


def _written(value: object) -> str:
    if isinstance(value, SecretStr):
        return value.get_secret_value()
    return json.dumps(value) if isinstance(value, list) else str(value)


@contextmanager
def uvicorn_process(folder: Path, state: Path) -> Iterator[Urls]:
    """A uvicorn process. Without the lifespan, which has tests of its own in ``live/``."""
    environment = {
        contract_door.STATE: str(state),
        "PYTHONPATH": os.pathsep.join(map(str, (ROOT / "joblib", ROOT, Path(__file__).parent))),
        "UVICORN_LIFESPAN": "off",
        "UVICORN_LOG_LEVEL": "warning",
        # No connection ends while a test is about to use it.
        "UVICORN_TIMEOUT_KEEP_ALIVE": "3600",
    }
    with live_server.Server(folder, app="contract_door:app", extra=environment) as server:
        url = server.until_ready().url
        yield Urls(url, url)


@contextmanager
def function_behind_gateway(cache: Path, folder: Path, state: Path) -> Iterator[Urls]:
    """The artifact, run by AWS's runtime client, behind what stands in for an HTTP API.

    Such a gateway decodes a path, the function's own URL does not.
    """
    beside = folder / "beside"
    beside.mkdir()
    shutil.copy(contract_door.__file__, beside)
    with (
        environments.Function(
            "contract_door.handler",
            artifact.prepare(cache),
            folder / "function.txt",
            variables={contract_door.STATE: str(state)},
            paths=(beside,),
            concurrency=AT_ONCE,
        ) as function,
        # A dozen cold starts at once may take longer than a gateway waits; other tests are of that.
        gateway.Gateway(function, seconds=PATIENCE_SECONDS) as usual,
        gateway.Gateway(function, kind=lambda_events.function_url) as as_sent,
    ):
        yield Urls(usual.url, as_sent.url)
