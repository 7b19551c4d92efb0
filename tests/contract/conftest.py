"""The application over HTTP, and the people who use it."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from contract_api import ANGLE, SECRET, Api, Json, Person
from pydantic import SecretStr

from jobroom.bootstrap import create_app
from jobroom.settings import JobLibSettings


@pytest.fixture(scope="session")
def runner() -> Iterator[asyncio.Runner]:
    """One event loop for all requests of the tests."""
    with asyncio.Runner() as one:
        yield one


@pytest.fixture
def make_api(settings: JobLibSettings, runner: asyncio.Runner) -> Iterator[Callable[..., Api]]:
    """An application with other settings, or under a root path."""
    made: list[Api] = []

    def make(*, root_path: str = "", **changes: Any) -> Api:
        known = {"jwt_secret": SecretStr(SECRET), **changes}
        app = create_app(settings.model_copy(update=known))
        made.append(Api(app, runner, root_path))
        return made[-1]

    yield make
    for api in made:
        api.app.state.door.close()


@pytest.fixture
def api(make_api: Callable[..., Api]) -> Api:
    """The application on a fresh database."""
    return make_api()


@pytest.fixture
def alice(api: Api) -> Person:
    """A user who sees every room, and submits tasks."""
    return api.by("alice")


@pytest.fixture
def bob(api: Api) -> Person:
    """Another user who sees every room."""
    return api.by("bob")


@pytest.fixture
def wanda(api: Api) -> Person:
    """A user whose identity worker serves r1:modifiers:Rotate."""
    person = api.by("wanda")
    person.register(schema=ANGLE)
    return person


@pytest.fixture
def admin(api: Api) -> Person:
    """An admin of every room."""
    return api.by("root", is_admin=True)


@pytest.fixture(scope="session")
def stage(
    tmp_path_factory: pytest.TempPathFactory, empty_database: Path, runner: asyncio.Runner
) -> tuple[Path, dict[str, str]]:
    """A database with jobs, and a task of each status: its file, and the task ids by status."""
    path = tmp_path_factory.mktemp("stage") / "stage.db"
    shutil.copy(empty_database, path)
    settings = JobLibSettings(database_url=f"sqlite:///{path}", sqlite_synchronous="NORMAL")
    app = create_app(settings.model_copy(update={"jwt_secret": SecretStr(SECRET)}))
    ids = _set_stage(Api(app, runner))
    app.state.door.close()
    return path, ids


def _set_stage(api: Api) -> dict[str, str]:
    wanda, alice = api.by("wanda"), api.by("alice")
    wanda.register(schema=ANGLE)
    api.by("root", is_admin=True).register("Align", room="@global")
    tasks: dict[str, Json] = {}
    for status in ("completed", "failed", "running", "claimed", "cancelled", "pending"):
        key = {"idempotency-key": f"key of {status}"}
        tasks[status] = alice.submit(headers=key)
        if status in ("completed", "failed", "running"):
            wanda.start()
        if status == "completed":
            wanda.report(tasks[status], status, result=42)
        if status == "failed":
            wanda.report(tasks[status], status, error="no luck")
        if status == "claimed":
            wanda.claim()
        if status == "cancelled":
            alice.report(tasks[status], status)
    return {status: task["id"] for status, task in tasks.items()}


@pytest.fixture
def staged(stage: tuple[Path, dict[str, str]], settings: JobLibSettings) -> dict[str, str]:
    """This test's database is a copy of the stage's; ids of its tasks by status."""
    path, ids = stage
    shutil.copy(path, settings.database_url.removeprefix("sqlite:///"))
    return ids
