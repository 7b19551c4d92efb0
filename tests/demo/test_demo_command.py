"""The command ``jobroom demo``."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from jobroom.cli import demo as command
from jobroom.demo import run as module
from jobroom.demo.run import Options


def invoke(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> tuple[int, list[Options]]:
    asked: list[Options] = []

    def record(options: Options) -> int:
        asked.append(options)
        return 7

    monkeypatch.setattr(module, "run", record)
    app = typer.Typer()
    app.command()(command.demo)
    return CliRunner().invoke(app, list(arguments)).exit_code, asked


def test_without_options_there_are_two_workers_and_twenty_tasks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert invoke(monkeypatch) == (7, [Options(tasks=20, workers=2, keep=None)])


def test_the_options_reach_the_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    arguments = ("--tasks", "3", "--workers", "1", "--keep", str(tmp_path))
    assert invoke(monkeypatch, *arguments) == (7, [Options(tasks=3, workers=1, keep=tmp_path)])


def interrupt(_options: Options) -> int:
    raise KeyboardInterrupt


def test_ctrl_c_before_the_run_begins_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "run", interrupt)
    app = typer.Typer()
    app.command()(command.demo)
    done = CliRunner().invoke(app, ["--workers", "1"])
    assert done.exit_code == 130
    assert done.output.splitlines() == [
        "Starting a server and 1 worker on this machine ...",
        "Stopped as you asked: nothing had been started.",
    ]


@pytest.mark.parametrize("arguments", [("--tasks", "0"), ("--workers", "0"), ("--tasks", "201")])
def test_senseless_numbers_are_refused_before_anything_starts(
    monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, str]
) -> None:
    assert invoke(monkeypatch, *arguments) == (2, [])
