"""The application over HTTP, and the people who use it."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import contract_doors
import pytest
from contract_api import ANGLE, SECRET, Api, Json, Person, taken
from pydantic import SecretStr
from rest_table import SCHEDULE

from jobroom.settings import JobLibSettings

THROUGH_DOOR = "door"  # kept with a test's result; the summary of the run counts by it


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test that needs an application through each door."""
    if "door" in metafunc.fixturenames:
        inside = metafunc.definition.get_closest_marker("in_process_only")
        through = contract_doors.DOORS[:1] if inside else contract_doors.DOORS
        ids = [door.replace(" ", "-") for door in through]
        metafunc.parametrize("door", through, ids=ids, indirect=True)


@pytest.fixture(scope="session")
def runner() -> Iterator[asyncio.Runner]:
    """One event loop for all requests of the tests."""
    with asyncio.Runner() as one:
        yield one


@pytest.fixture(scope="session")
def doors(
    runner: asyncio.Runner,
    tmp_path_factory: pytest.TempPathFactory,
    request: pytest.FixtureRequest,
) -> Iterator[contract_doors.Doors]:
    """The servers behind the doors; pytest's cache keeps the function's artifact."""
    folder = tmp_path_factory.mktemp("doors")
    cache = getattr(request.config, "cache", None)
    kept = Path(cache.mkdir("lambda")) if cache else folder
    with ExitStack() as opened:
        yield contract_doors.Doors(runner, folder, kept, opened)


@pytest.fixture
def door(request: pytest.FixtureRequest) -> str:
    """The door that the test goes through."""
    request.node.user_properties.append((THROUGH_DOOR, request.param))
    return str(request.param)


@pytest.fixture
def make_api(
    door: str,
    doors: contract_doors.Doors,
    settings: JobLibSettings,
    request: pytest.FixtureRequest,
) -> Iterator[Callable[..., Api]]:
    """An application with other settings, or under a root path."""
    as_sent = request.node.get_closest_marker("path_as_sent") is not None
    with ExitStack() as opened:

        def make(*, root_path: str = "", **changes: Any) -> Api:
            known = {"jwt_secret": SecretStr(SECRET), **changes}
            chosen = settings.model_copy(update=known)
            return opened.enter_context(doors.open(door, chosen, root_path, as_sent=as_sent))

        yield make


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
    chosen = settings.model_copy(update={"jwt_secret": SecretStr(SECRET)})
    with contract_doors.in_process(chosen, runner) as api:
        return path, _set_stage(api)


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
    tasks["large"] = _set_vast_things(api)
    taken(alice.put("/rooms/r1/schedules", SCHEDULE))
    return {status: task["id"] for status, task in tasks.items()}


def _set_vast_things(api: Api) -> Json:
    """A schema, a pending payload and a result of over 64 KiB; the task that has the result."""
    bob, much = api.by("bob"), "x" * 70_000
    bob.register("Vast", room="r2", schema={"type": "object", "description": much})
    large = bob.submit("r2:modifiers:Vast", {}, room="r2")
    bob.report(bob.start(), "completed", result=much)
    bob.submit("r2:modifiers:Vast", {"much": much}, room="r2")
    return large


@pytest.fixture
def staged(stage: tuple[Path, dict[str, str]], settings: JobLibSettings) -> dict[str, str]:
    """This test's database is a copy of the stage's; ids of its tasks by status."""
    path, ids = stage
    shutil.copy(path, settings.database_url.removeprefix("sqlite:///"))
    return ids
