"""What the demo shows: bars in a terminal, plain lines elsewhere, a table and a curve."""

from __future__ import annotations

import io
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from rich.console import Console

from jobroom.demo import scans, summary
from jobroom.demo.screen import BarScreen, Followed, LineScreen, screen_for
from jobroom.demo.summary import Outcome
from jobroom.demo.torsion import Curve
from jobroom.wire.answers import TaskBody

BEGAN = datetime(2026, 11, 29, 13, 37, tzinfo=UTC)
ESCAPE = "\x1b"


class Text(io.StringIO):
    """A stream that says which encoding it has."""

    def __init__(self, encoding: str) -> None:
        super().__init__()
        self._encoding = encoding

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._encoding


def console_of(*, encoding: str = "utf-8", terminal: bool = False, width: int = 80) -> Console:
    kind = {"TERM": "xterm"} if terminal else {}
    return Console(
        file=Text(encoding), width=width, height=40, force_terminal=terminal, _environ=kind
    )


def shown(console: Console) -> str:
    stream = console.file
    assert isinstance(stream, io.StringIO)
    return stream.getvalue()


def followed(number: int, status: str, **changes: Any) -> Followed:
    scan = scans.plan_scans(number)[-1]
    ended = status in {"completed", "failed"}
    task = TaskBody.model_construct(
        id=str(number),
        status=TaskBody.model_fields["status"].annotation(status),  # type: ignore[misc]
        started_at=BEGAN,
        completed_at=BEGAN + timedelta(seconds=1.5) if ended else None,
        attempt=1,
        progress=changes.get("progress"),
        message=changes.get("message"),
    )
    return Followed(scan, task, changes.get("worker", "worker 1"))


def outcome(number: int, *, barrier: float = 4.0) -> Outcome:
    energies = tuple(barrier if step % 12 == 6 else 0.0 for step in range(36))
    curve = Curve(tuple(10.0 * step for step in range(36)), energies)
    return Outcome(followed(number, "completed"), curve)


def test_a_pipe_gets_one_plain_line_for_each_task_that_ended() -> None:
    console = console_of()
    with screen_for(console, workers=["worker 1"], total=2) as screen:
        assert isinstance(screen, LineScreen)
        screen.show([followed(1, "running"), followed(2, "pending")])
        screen.show([followed(1, "completed"), followed(2, "running")])
        screen.show([followed(1, "completed"), followed(2, "failed", worker="worker 2")])
    assert shown(console).splitlines() == [
        "[1/2] N1-CH3 x1.000: completed on worker 1, 1.50 s",
        "[2/2] N3-CH3 x1.000: failed on worker 2, 1.50 s",
    ]


def test_a_terminal_gets_a_bar_for_each_worker_with_what_its_task_says() -> None:
    console = console_of(terminal=True, width=100)
    with screen_for(console, workers=["worker 1", "worker 2"], total=2) as screen:
        assert isinstance(screen, BarScreen)
        message = "90 degrees: 1.25 kJ/mol"
        screen.show([followed(1, "running", progress=0.25, message=message)])
        screen.show([followed(1, "completed")])
    text = shown(console)
    assert ESCAPE in text
    assert "worker 2" in text
    assert "1 of 2" in text
    assert "all tasks" in text


@pytest.mark.parametrize("width", [32, 50, 79, 80])
def test_the_count_is_never_cut_however_narrow_the_terminal(width: int) -> None:
    console = console_of(terminal=True, width=width)
    with screen_for(console, workers=["worker 1"], total=200) as screen:
        screen.show([followed(1, "completed")])
    assert "all tasks: 1 of 200" in shown(console)


def test_eighty_columns_are_enough_for_what_a_task_says() -> None:
    message = "350 degrees: 12.34 kJ/mol"
    for width, is_shown in ((80, True), (79, False)):
        console = console_of(terminal=True, width=width)
        with screen_for(console, workers=["worker 1"], total=1) as screen:
            screen.show([followed(1, "running", progress=0.5, message=message)])
        assert (message in shown(console)) is is_shown


def test_a_dumb_terminal_gets_lines() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, _environ={"TERM": "dumb"})
    assert isinstance(screen_for(console, workers=[], total=1), LineScreen)


def test_markup_in_a_message_is_shown_and_not_obeyed() -> None:
    console = console_of(terminal=True, width=100)
    with screen_for(console, workers=["worker 1"], total=1) as screen:
        screen.show([followed(1, "running", progress=0.5, message="[bold]loud[/nope]")])
    assert "[bold]loud[/nope]" in shown(console)


def test_the_table_names_worker_attempt_time_angle_and_barrier() -> None:
    console = console_of()
    summary.print_results(console, [outcome(1), outcome(2, barrier=2.0)])
    text = shown(console)
    row = next(line for line in text.splitlines() if line.strip().startswith("2 "))
    assert row.split()[:8] == ["2", "N3-CH3", "x1.000", "worker", "1", "1", "1.50", "0°"]
    assert "2.00" in row
    assert "▁█▁" in row
    assert ESCAPE not in text
    assert max(map(len, text.splitlines())) <= 80


def test_a_narrow_terminal_gets_a_table_with_fewer_columns_and_whole_words() -> None:
    console = console_of(width=50)
    summary.print_results(console, [outcome(1)])
    lines = shown(console).splitlines()
    assert ["#", "methyl", "radii", "worker", "seconds", "kJ/mol"] in map(str.split, lines)
    assert ["1", "N1-CH3", "x1.000", "worker", "1", "1.50", "4.00"] in map(str.split, lines)


@pytest.mark.parametrize("width", [30, 60, 80, 120])
def test_an_ascii_terminal_gets_ascii_alone_however_narrow(width: int) -> None:
    console = console_of(encoding="ascii", width=width)
    summary.print_results(console, [outcome(1)])
    assert shown(console).isascii()


def test_the_curve_is_drawn_for_the_highest_barrier() -> None:
    console = console_of()
    summary.print_results(console, [outcome(1), outcome(2, barrier=9.0), outcome(3)])
    assert "Task 2, N3-CH3 x1.000" in shown(console)


def test_a_sparkline_rises_with_the_values() -> None:
    assert summary.sparkline([0.0, 2.0, 4.0], plain=False) == "▁▅█"
    assert summary.sparkline([0.0, 0.0], plain=False) == "▁▁"


@pytest.mark.parametrize("width", [40, 80, 200])
def test_the_chart_fits_the_terminal_and_has_its_peaks_on_top(width: int) -> None:
    drawing = summary.chart(outcome(1).curve, width=max(width, 44), plain=False).plain.splitlines()
    assert max(map(len, drawing)) <= max(width, 44)
    assert drawing[0].count("█") in {3, 6}
    assert drawing[0].startswith("  4.00 ")
    assert drawing[-1].split() == ["0°", "90°", "180°", "270°"]


def test_a_flat_curve_is_drawn_flat() -> None:
    drawing = summary.chart(outcome(1, barrier=0.0).curve, width=80, plain=True).plain
    assert drawing.splitlines()[0].split() == ["1.00"]
