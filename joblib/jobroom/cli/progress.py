"""How far a long command is: bars that move in a terminal, a line now and then elsewhere."""

from __future__ import annotations

import time
from typing import Protocol, Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Column
from rich.text import Text

LINE_SECONDS = 5.0
TEXT_WIDTH = 72
"""What stands beside a bar."""


class Meter(Protocol):
    """Shows how far several things are."""

    def __enter__(self) -> Self:
        """Begin to show."""

    def __exit__(self, *_: object) -> None:
        """Leave what was shown last, and give the terminal back."""

    def show(self, stage: str, name: str, done: int, total: int) -> None:
        """So much of a thing is done, in this stage of it."""


def meter_for(console: Console, *, unit: str) -> Meter:
    """Choose: bars need a terminal that can move its cursor."""
    if console.is_terminal and not console.is_dumb_terminal:
        return BarMeter(console, unit=unit)
    return LineMeter(console, unit=unit)


class BarMeter:
    """A bar for each thing that there is anything of; each stage begins it anew."""

    def __init__(self, console: Console, *, unit: str) -> None:
        self._bars = Progress(
            TextColumn("{task.description}", table_column=Column(min_width=25, no_wrap=True)),
            BarColumn(bar_width=max(4, min(24, console.width - TEXT_WIDTH))),
            TextColumn("{task.completed:>9,.0f} of {task.total:,.0f}"),
            SpeedColumn(unit),
            TimeRemainingColumn(compact=True),
            console=console,
        )
        self._known: dict[str, tuple[str, TaskID]] = {}

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bars.stop()

    def show(self, stage: str, name: str, done: int, total: int) -> None:
        """Move the bar."""
        if not total:
            return
        label = f"{stage} {name}".strip()
        known, bar = self._known.get(name, (None, None))
        if bar is None:
            bar = self._bars.add_task(label, total=total, completed=done)
        elif known != stage:
            self._bars.reset(bar, total=total, completed=done, description=label)
        self._known[name] = (stage, bar)
        self._bars.update(bar, completed=done)


class SpeedColumn(ProgressColumn):
    """How many a second."""

    def __init__(self, unit: str) -> None:
        super().__init__()
        self._unit = unit

    def render(self, task: Task) -> Text:
        """The speed of late, or of all of it at the end."""
        speed = task.finished_speed or task.speed
        return Text("" if speed is None else f"{speed:,.0f} {self._unit}/s", justify="right")


class LineMeter:
    """A line every few seconds."""

    def __init__(self, console: Console, *, unit: str) -> None:
        self._console = console
        self._unit = unit
        self._current: tuple[str, str] | None = None
        self._since = self._told = time.monotonic()
        self._first = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing was opened."""

    def show(self, stage: str, name: str, done: int, total: int) -> None:
        """Print a line, if the last one is long ago."""
        now = time.monotonic()
        if self._current != (stage, name):
            self._current, self._since, self._first = (stage, name), now, done
        if now - self._told >= LINE_SECONDS:
            self._told = now
            self._console.print(self._line(done, total, now), highlight=False, soft_wrap=True)

    def _line(self, done: int, total: int, now: float) -> str:
        line = f"{' '.join(self._current or ())}: {done:,} of {total:,}"
        speed = (done - self._first) / max(now - self._since, 1e-9)
        if speed > 0 and done < total:
            line += f" ({speed:,.0f} {self._unit}/s, {(total - done) / speed:.0f} s left)"
        return line
