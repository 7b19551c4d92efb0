"""Databases of each kind for a test, and ``jobroom`` in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import copying_stage as stage
import pytest
import servers
from typer.testing import CliRunner, Result

from jobroom.cli import main
from jobroom.store import copy_end

Made = Callable[..., str]
Run = Callable[..., Result]


@pytest.fixture
def made(stores: servers.Stores, tmp_path) -> Iterator[Made]:
    """Makes a migrated database of a kind; with tasks, one that holds every kind of row."""
    urls = []

    def make(kind: servers.Kind, *, tasks: int | None = None, **more) -> str:
        urls.append(stores.fresh(kind, tmp_path))
        if tasks is not None:
            stage.fill(urls[-1], tasks, **more)
        return urls[-1]

    yield make
    for url in urls:
        stores.release(url)


@pytest.fixture
def run(monkeypatch) -> Run:
    """Runs ``jobroom`` in this process, where starting it costs nothing."""
    for name in list(stage.os.environ):
        if name.startswith("ZNDRAW_JOBLIB_"):
            monkeypatch.delenv(name)

    def run(*arguments: str, **settings: object) -> Result:
        given = {f"ZNDRAW_JOBLIB_{name.upper()}": str(value) for name, value in settings.items()}
        return CliRunner().invoke(main.app, [*arguments], env=given)

    return run


@pytest.fixture
def copied(run) -> Run:
    """Copies from one URL to another in this process."""

    def copy(source: str, target: str, *options: str, **settings: object) -> Result:
        return run("db", "copy", "--from", source, "--to", target, *options, **settings)

    return copy


@pytest.fixture
def in_a_hurry(monkeypatch) -> None:
    """A store that is away is given up after a few hundredths of a second."""
    monkeypatch.setattr(copy_end, "PATIENCE_SECONDS", (0.01, 0.02))


@pytest.fixture
def empty(stores: servers.Stores, tmp_path) -> Iterator[Made]:
    """Makes a database without any table."""
    urls = []

    def make(kind: servers.Kind) -> str:
        name = f"empty{len(urls)}"
        if kind == "sqlite":
            return f"sqlite:///{tmp_path}/{name}.db"
        if kind == "postgresql":
            stores.postgres.execute(f"CREATE DATABASE {name}")
            urls.append(stores.postgres.url(name))
        else:
            stores.sqld.create_namespace(name)
            urls.append(stores.sqld.url_of(name))
        return urls[-1]

    yield make
    for url in urls:
        stores.release(url)
