"""What the verbs print: tables and documents for people, JSON for programs."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.text import Text

from jobroom.cli import shapes

STYLES = {
    "completed": "green",
    "failed": "red",
    "cancelled": "yellow",
    "running": "cyan",
    "claimed": "cyan",
}
"""The colour of each status; the others have none."""
SHORTEST_CUT = 12
GAP = "  "
_CONTROL = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
_ESCAPES = re.compile(r"\x1b\[[0-9;]*m|(\x1b)")


def console(*, stderr: bool = False, moving: bool = False) -> Console:
    """Return where to print: without colours where there is no terminal, or NO_COLOR is set.

    ``moving``: what is printed stays within the width, so that it can be drawn again.
    """
    return Console(stderr=stderr, highlight=False, markup=False, emoji=False, soft_wrap=not moving)


def clean(text: object) -> str:
    r"""Return somebody's text without what would steer a terminal.

    >>> clean("two\x1b[2Jlines")
    'two\ufffd[2Jlines'
    """
    return _CONTROL.sub("\ufffd", str(text))


def clean_line(text: object) -> str:
    """Return somebody's text as one line without what would steer a terminal."""
    return clean(" ".join(str(text).split()))


def first_line(text: str) -> str:
    """Return the first line of somebody's text that has anything in it."""
    return clean_line(next((line for line in text.splitlines() if line.strip()), ""))


def clean_log(text: str) -> str:
    r"""Return a piece of a log for a terminal: colours and ``\r`` stay, other steering goes.

    >>> clean_log("\x1b[31mred\x1b[0m\x1b[2J\r50 %")
    '\x1b[31mred\x1b[0m\ufffd[2J\r50 %'
    """
    kept = _ESCAPES.sub(lambda found: "\ufffd" if found[1] else found[0], text)
    steering = r"[\x00-\x07\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f-\x9f\ud800-\udfff]"
    return re.sub(steering, "\ufffd", kept)


def say_json(document: Any) -> None:
    """Print a document as one line of JSON."""
    # A lone surrogate or a letter that the terminal cannot show never stops it.
    text = json.dumps(document, ensure_ascii=False, separators=(",", ":"))
    if not _is_utf8() or shapes.LONE_SURROGATE.search(text):
        text = json.dumps(document, separators=(",", ":"))
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def pretty(value: Any) -> str:
    """Return a JSON value for people."""
    return clean(json.dumps(value, ensure_ascii=False, indent=2))


def short(value: Any, limit: int = 60) -> str:
    """Return a JSON value on one line, cut."""
    text = clean_line(json.dumps(value, ensure_ascii=False))
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def moment(text: str | None) -> str:
    """Return a time of the API without its fractions.

    >>> moment("2026-11-29T13:37:12.000001Z")
    '2026-11-29 13:37:12Z'
    """
    return "" if text is None else f"{text[:19].replace('T', ' ')}Z"


def seconds_since(text: str) -> float:
    """Return how long ago a time of the API is, by this machine's clock."""
    return (datetime.now(UTC) - datetime.fromisoformat(text)).total_seconds()


def seconds_between(first: str, last: str) -> float:
    """Return how long it is from one time of the API to another."""
    return (datetime.fromisoformat(last) - datetime.fromisoformat(first)).total_seconds()


def span(seconds: float) -> str:
    """Return a span of time as people say it.

    >>> [span(s) for s in (0.2, 59, 90, 7200, 200_000)]
    ['0 s', '59 s', '1 min', '2 h', '2 days']
    """
    for size, word in ((86_400, "days"), (3600, "h"), (60, "min")):
        if seconds >= size:
            count = int(seconds // size)
            return f"{count} {'day' if (word, count) == ('days', 1) else word}"
    return f"{max(0, int(seconds))} s"


def count_of(number: int, word: str) -> str:
    """Return a number of things.

    >>> count_of(1, "worker"), count_of(2, "worker")
    ('1 worker', '2 workers')
    """
    return f"{number} {word}{'' if number == 1 else 's'}"


def percent(task: Mapping[str, Any]) -> str:
    """Return how far a task is; nothing if it never said."""
    fraction = 1.0 if task["status"] == "completed" else task.get("progress")
    return "" if fraction is None else f"{round(100 * fraction)} %"


def styled(status: str) -> Text:
    """Return a status in its colour."""
    return Text(status, style=STYLES.get(status, ""))


def table(out: Console, heads: Sequence[str], rows: Iterable[Sequence[str | Text]]) -> None:
    """Print rows under heads; in a terminal the last column is cut where the line would wrap."""
    cells = [[_cell(one) for one in row] for row in rows]
    widths = [
        max([cell_len(head), *(cell_len(row[at].plain) for row in cells)])
        for at, head in enumerate(heads)
    ]
    room = None
    if out.is_terminal:
        room = max(SHORTEST_CUT, out.width - sum(widths[:-1]) - len(GAP) * (len(widths) - 1))
    out.print(_line([Text(head, style="bold") for head in heads], widths, room))
    for row in cells:
        out.print(_line(row, widths, room))


def _cell(value: str | Text) -> Text:
    return value if isinstance(value, Text) else Text(clean_line(value))


def _line(cells: Sequence[Text], widths: Sequence[int], room: int | None) -> Text:
    line = Text()
    for cell, width in zip(cells[:-1], widths[:-1], strict=True):
        line.append_text(cell).append(" " * (width - cell_len(cell.plain)) + GAP)
    last = cells[-1]
    if room is not None and cell_len(last.plain) > room:
        last = Text(set_cell_size(last.plain, room - 1).rstrip() + "…", style=last.style)
    line.append_text(last)
    line.rstrip()
    return line


def _is_utf8() -> bool:
    return (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
