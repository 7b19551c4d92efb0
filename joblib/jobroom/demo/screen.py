"""What the demo shows while it runs: bars that move in a terminal, plain lines elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol, Self

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, ProgressColumn, TaskID, TextColumn
from rich.table import Column

from jobroom.demo.scans import Scan
from jobroom.domain.lifecycle import TaskStatus, is_terminal
from jobroom.wire.answers import TaskBody

LABEL_WIDTH = 24
BAR_WIDTH = 24
PERCENT_WIDTH = 4
NOTE_WIDTH = 25
FULL_WIDTH = LABEL_WIDTH + BAR_WIDTH + PERCENT_WIDTH + NOTE_WIDTH + 3
"""All columns with the spaces between; a narrower terminal does not get the notes."""


class Followed(NamedTuple):
    """A scan, its task as it stands now, and the name of the worker that has or had it."""

    scan: Scan
    task: TaskBody
    worker: str

    @property
    def seconds(self) -> float:
        """How long it ran; 0 before its end."""
        if self.task.started_at is None or self.task.completed_at is None:
            return 0.0
        return (self.task.completed_at - self.task.started_at).total_seconds()


class Screen(Protocol):
    """Shows how the tasks stand."""

    def __enter__(self) -> Self:
        """Begin to show."""
        ...

    def __exit__(self, *_: object) -> None:
        """Leave what was shown last, and give the terminal back."""
        ...

    def show(self, followed: Sequence[Followed]) -> None:
        """Show the tasks as they stand now."""
        ...


def screen_for(console: Console, *, workers: Sequence[str], total: int) -> Screen:
    """Choose: bars need a terminal that can move its cursor."""
    if console.is_terminal and not console.is_dumb_terminal:
        return BarScreen(console, workers=workers, total=total)
    return LineScreen(console, total=total)


class BarScreen:
    """One bar for all tasks, and one for each worker with the task it runs."""

    def __init__(self, console: Console, *, workers: Sequence[str], total: int) -> None:
        self._bars = Progress(*_columns(console.width), console=console, auto_refresh=False)
        self._all = self._bars.add_task(_all_tasks(0, total), total=total, note="")
        self._total = total
        self._of_worker = {name: self._idle_bar(name) for name in workers}

    def _idle_bar(self, worker: str) -> TaskID:
        return self._bars.add_task(escape(worker), total=1.0, note="idle")

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        for bar in self._of_worker.values():
            self._bars.update(bar, visible=False)
        self._bars.stop()

    def show(self, followed: Sequence[Followed]) -> None:
        """Move the bars."""
        ended = sum(is_terminal(each.task.status) for each in followed)
        self._bars.update(self._all, completed=ended, description=_all_tasks(ended, self._total))
        running = {each.worker: each for each in followed if each.task.status is TaskStatus.RUNNING}
        for worker, bar in self._of_worker.items():
            self._show_worker(bar, worker, running.get(worker))
        self._bars.refresh()

    def _show_worker(self, bar: TaskID, worker: str, current: Followed | None) -> None:
        if current is None:
            self._bars.update(bar, description=escape(worker), completed=0.0, note="idle")
            return
        self._bars.update(
            bar,
            description=f"{escape(worker)}: {escape(current.scan.label)}",
            completed=current.task.progress or 0.0,
            note=escape(current.task.message or ""),
        )


def _columns(width: int) -> list[ProgressColumn]:
    bar_width = BAR_WIDTH if width >= FULL_WIDTH else width - LABEL_WIDTH - PERCENT_WIDTH - 2
    columns: list[ProgressColumn] = [
        TextColumn("{task.description}", table_column=Column(min_width=LABEL_WIDTH, no_wrap=True)),
        BarColumn(bar_width=max(min(bar_width, BAR_WIDTH), 1)),
        TextColumn("{task.percentage:>3.0f}%"),
    ]
    if width < FULL_WIDTH:
        return columns
    note = Column(min_width=NOTE_WIDTH, no_wrap=True)
    return [*columns, TextColumn("{task.fields[note]}", style="dim", table_column=note)]


def _all_tasks(ended: int, total: int) -> str:
    return f"[bold]all tasks: {ended} of {total}"


class LineScreen:
    """One line for each task that has ended: for files, pipes and plain terminals."""

    def __init__(self, console: Console, *, total: int) -> None:
        self._console = console
        self._total = total
        self._told: set[str] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return

    def show(self, followed: Sequence[Followed]) -> None:
        """Print the tasks that have ended since the last time."""
        for each in followed:
            if is_terminal(each.task.status) and each.task.id not in self._told:
                self._told.add(each.task.id)
                self._console.print(self._line(each), markup=False, highlight=False)

    def _line(self, each: Followed) -> str:
        count = f"[{len(self._told):>{len(str(self._total))}}/{self._total}]"
        return (
            f"{count} {each.scan.label}: {each.task.status} on {each.worker}, {each.seconds:.2f} s"
        )
