"""One row a measurement, one table at the end: ours beside its floor or peer, against a bar."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Row:
    """One measurement. ``ratio`` is what the bar speaks of, whichever way round that divides.

    ``ours`` and ``beside`` are in ``unit``; ``against`` names what stands beside: a floor, a peer,
    or ours at another size. ``bar`` None is a figure without a bar, ``at_most`` an upper bound.
    ``reason`` is the measured reason of a miss, or what a reader must know.
    """

    what: str
    ours: float
    beside: float
    against: str
    unit: str
    ratio: float
    bar: float | None = None
    at_most: bool = False
    reason: str = ""

    @property
    def is_met(self) -> bool:
        """Whether the bar is met; a figure without a bar always is."""
        if self.bar is None:
            return True
        return self.ratio <= self.bar if self.at_most else self.ratio >= self.bar

    @property
    def verdict(self) -> str:
        """``met``, or by how much it is missed."""
        if self.bar is None:
            return ""
        if self.is_met:
            return "met"
        if self.bar == 0:
            return f"missed by {self.ratio:g}"
        return f"missed by {abs(1 - self.ratio / self.bar):.0%}"


HEADS = ("what", "ours", "beside it", "unit", "ratio", "bar", "verdict", "note")


def table(rows: Iterable[Row]) -> str:
    """The rows as one Markdown table."""
    lines = ["| " + " | ".join(HEADS) + " |", "|" + " --- |" * len(HEADS)]
    for row in rows:
        sign = "<=" if row.at_most else ">="
        bar = "" if row.bar is None else f"{sign} {row.bar:g}"
        beside = f"{_figure(row.beside)} ({row.against})"
        cells = (row.what, _figure(row.ours), beside, row.unit, f"{row.ratio:.2f}", bar)
        lines.append("| " + " | ".join((*cells, row.verdict, row.reason)) + " |")
    return "\n".join(lines)


def as_json(rows: Sequence[Row]) -> str:
    """The rows for machines, each with its verdict."""
    return json.dumps([asdict(row) | {"verdict": row.verdict} for row in rows], indent=2)


class Measure(Protocol):
    """What each benchmark is: ``quick`` asks for small sizes, to see that it runs."""

    def __call__(self, *, quick: bool = False) -> list[Row]:
        """Measure; bounded in time."""


def command(measure: Measure, description: str | None) -> None:
    """One benchmark as a command of its own: ``--quick``, ``--json``."""
    parser = argparse.ArgumentParser(description=(description or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="small sizes: does it run at all?")
    parser.add_argument("--json", action="store_true", help="for machines")
    options = parser.parse_args()
    rows = measure(quick=options.quick)
    print(as_json(rows) if options.json else table(rows))


def _figure(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:,.3g}"
