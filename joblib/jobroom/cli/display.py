"""Tasks while they run: bars that move in a terminal, a line for each change elsewhere."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any, Protocol, Self

from rich.console import Console, RenderableType
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskID,
    TextColumn,
)
from rich.table import Column
from rich.text import Text

from jobroom.cli import printing
from jobroom.domain.lifecycle import TaskStatus, is_terminal

Json = dict[str, Any]

REFRESHES_PER_SECOND = 8
TAIL = 12
"""So many of an id's last letters tell tasks apart: it begins with the time."""
ROWS_LEFT_FREE = 4


class Display(Protocol):
    """Shows tasks, each as often as it changes."""

    def __enter__(self) -> Self:
        """Begin to show."""

    def __exit__(self, *_: object) -> None:
        """Leave what was shown last, and give the terminal back."""

    def show(self, task: Json) -> None:
        """Show a task as it is now."""

    def head(self, text: str) -> None:
        """Say something about all of them."""


def display_for(console: Console, *, as_json: bool = False, endless: bool = False) -> Display:
    """Choose: bars need a terminal that can move its cursor.

    ``endless``: there is no end of new tasks, and the bars of those that have ended make room.
    """
    if as_json:
        return Documents()
    if console.is_terminal and not console.is_dumb_terminal:
        return Bars(console, endless=endless)
    return Lines(console)


class Documents:
    """Prints the API's document at each change, for programs."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing was opened."""

    def show(self, task: Json) -> None:
        """Print it."""
        printing.say_json(task)

    def head(self, text: str) -> None:
        """Say nothing: only documents are read."""


class Lines:
    """Prints a line where a task has changed for people."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._told: dict[str, str] = {}
        self._headline = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing was opened."""

    def show(self, task: Json) -> None:
        """Print the task, if that is news."""
        line = line_of(task)
        if self._told.get(task["id"]) != line:
            self._told[task["id"]] = line
            self._console.print(line, soft_wrap=True)
        if is_terminal(task["status"]):
            del self._told[task["id"]]

    def head(self, text: str) -> None:
        """Print it, if that is news."""
        if text != self._headline:
            self._headline = text
            self._console.print(text, soft_wrap=True)


class Bars:
    """A bar for each task; one that has ended stays, or leaves a line above them (``endless``)."""

    def __init__(self, console: Console, *, endless: bool) -> None:
        self._console = console
        self._endless = endless
        self._screen = _Screen(
            TextColumn("{task.description}", table_column=Column(no_wrap=True), markup=False),
            _StatusColumn(table_column=Column(no_wrap=True, min_width=9)),
            BarColumn(bar_width=max(6, min(30, console.width // 5))),
            _DoneColumn(table_column=Column(no_wrap=True, min_width=4)),
            _SinceColumn(table_column=Column(no_wrap=True)),
            _MessageColumn(table_column=Column(no_wrap=True, overflow="ellipsis", ratio=1)),
            console=console,
            refresh_per_second=REFRESHES_PER_SECOND,
            expand=True,
        )
        self._bars: dict[str, TaskID] = {}

    def __enter__(self) -> Self:
        self._screen.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._screen.stop()

    def show(self, task: Json) -> None:
        """Move the task's bar."""
        if self._endless and is_terminal(task["status"]):
            self._drop(task["id"])
            self._console.print(line_of(task), soft_wrap=True)
            return
        bar = self._bars.get(task["id"])
        if bar is None:
            if self._endless and not self._has_room():
                return
            bar = self._screen.add_task(_label(task), total=1.0, shown=task, since=None)
            self._bars[task["id"]] = bar
        unknown = task["status"] == TaskStatus.RUNNING and task.get("progress") is None
        done = 1.0 if task["status"] == TaskStatus.COMPLETED else task.get("progress") or 0.0
        self._screen.update(
            bar, total=None if unknown else 1.0, completed=done, shown=task, since=_began(task)
        )

    def head(self, text: str) -> None:
        """Show it in a line of its own, above the bars."""
        self._screen.headline = text

    def _has_room(self) -> bool:
        return len(self._bars) < max(1, self._console.height - ROWS_LEFT_FREE)

    def _drop(self, task_id: str) -> None:
        bar = self._bars.pop(task_id, None)
        if bar is not None:
            self._screen.remove_task(bar)


class _Screen(Progress):
    """The bars under a headline."""

    headline = ""

    def get_renderables(self) -> Iterable[RenderableType]:
        """Yield the headline, if there is one, and the bars."""
        if self.headline:
            yield Text(self.headline, no_wrap=True, overflow="ellipsis", style="bold")
        # By their ids, which begin with the time: in the order of their submission.
        yield self.make_tasks_table(sorted(self.tasks, key=lambda bar: bar.fields["shown"]["id"]))


class _StatusColumn(ProgressColumn):
    def render(self, task: Task) -> Text:
        return printing.styled(task.fields["shown"]["status"])


class _DoneColumn(ProgressColumn):
    def render(self, task: Task) -> Text:
        return Text(printing.percent(task.fields["shown"]), justify="right")


class _SinceColumn(ProgressColumn):
    """How long the task runs, or ran."""

    def render(self, task: Task) -> Text:
        since = task.fields["since"]
        if since is None:
            return Text("")
        ended = task.fields["shown"].get("completed_at")
        started = task.fields["shown"]["started_at"]
        seconds = (
            time.monotonic() - since
            if ended is None
            else max(0.0, printing.seconds_between(started, ended))
        )
        return Text(f"{int(seconds // 60)}:{int(seconds % 60):02d}", justify="right")


class _MessageColumn(ProgressColumn):
    def render(self, task: Task) -> Text:
        return Text(_said(task.fields["shown"]))


def line_of(task: Json) -> str:
    """Return a task on one line: its id, its job, its status, how far it is, what it says."""
    parts = (task["id"], task["job_name"], task["status"], printing.percent(task), _said(task))
    return "  ".join(printing.clean_line(part) for part in parts if part)


def _label(task: Json) -> str:
    name = task["job_name"].rpartition(":")[2]
    return printing.clean_line(f"{name} {task['id'][-TAIL:]}")


def _said(task: Json) -> str:
    place = task.get("queue_position")
    in_line = f"{place} in line" if place is not None else ""
    error = "" if task["status"] == TaskStatus.COMPLETED else task.get("error")
    return printing.first_line(error or task.get("message") or in_line)


def _began(task: Json) -> float | None:
    """Return when the task was started, by this process's own clock."""
    started = task.get("started_at")
    if started is None:
        return None
    # The server's clock may be ahead of ours.
    return time.monotonic() - max(0.0, printing.seconds_since(started))
