"""How far a command is: bars in a terminal, lines elsewhere."""

from __future__ import annotations

import io
import re

import pytest
from rich.console import Console

from jobroom.cli import progress


def shown(console: Console, steps) -> str:
    with progress.meter_for(console, unit="rows") as meter:
        for step in steps:
            meter.show(*step)
    return console.file.getvalue()


def terminal(width: int = 100) -> Console:
    return Console(file=io.StringIO(), force_terminal=True, width=width, _environ={"TERM": "xterm"})


def test_a_terminal_gets_a_bar_for_each_thing_there_is_any_of():
    steps = [("copying", "tasks", 5, 10), ("copying", "notices", 0, 0), ("copying", "jobs", 2, 2)]
    last = shown(terminal(), steps).rpartition("copying tasks")[2]
    assert "5 of 10" in last
    assert "2 of 2" in last
    assert "notices" not in last


def test_each_stage_begins_a_bar_anew():
    steps = [("copying", "tasks", 10, 10), ("comparing", "tasks", 3, 10)]
    last = shown(terminal(), steps).rpartition("comparing tasks")[2]
    assert "3 of 10" in last


@pytest.mark.parametrize("width", [80, 100, 200])
def test_a_bar_fits_its_terminal(width):
    steps = [("comparing", "links of workers", done, 100_000) for done in (0, 99_000, 100_000)]
    plain = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "\n", shown(terminal(width), steps))
    told = [line for line in plain.replace("\r", "\n").splitlines() if "of 100,000" in line]
    assert told
    assert "rows/s" in plain


def test_elsewhere_there_is_a_line_now_and_then(monkeypatch):
    monkeypatch.setattr(progress, "LINE_SECONDS", 0.0)
    console = Console(file=io.StringIO())
    steps = [("copying", "tasks", done, 4000) for done in (0, 1000, 4000)]
    first, second, third = shown(console, steps).splitlines()
    assert first == "copying tasks: 0 of 4,000"
    assert second.startswith("copying tasks: 1,000 of 4,000 (")
    assert second.endswith(" s left)")
    assert third == "copying tasks: 4,000 of 4,000"


def test_what_is_soon_done_needs_no_line():
    assert shown(Console(file=io.StringIO()), [("copying", "tasks", 1, 2)]) == ""
