"""What the demo shows at the end: a table of results, and the curve of one scan."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from rich import box
from rich.console import Console, JustifyMethod
from rich.table import Table
from rich.text import Text

from jobroom.demo import molecule
from jobroom.demo.screen import Followed
from jobroom.demo.torsion import SYMMETRY, Curve

BLOCKS = " ▁▂▃▄▅▆▇█"
PLAIN_BLOCKS = " .:-=+*%#"
LEGEND = """\
radii: van der Waals radii times this    lowest: H-C-N-C angle of lowest energy
kJ/mol: barrier against a full turn      shape: energy over a third of a turn
"""
NARROW_LEGEND = """\
radii: van der Waals radii times this
kJ/mol: barrier against a full turn
"""
COLUMNS: tuple[tuple[str, JustifyMethod, str], ...] = (
    ("#", "right", ""),
    ("methyl", "left", ""),
    ("radii", "left", ""),
    ("worker", "left", ""),
    ("attempt", "right", ""),
    ("seconds", "right", ""),
    ("lowest", "right", ""),
    ("kJ/mol", "right", "bold"),
    ("shape", "left", "cyan"),
)
LEFT_OUT = {"attempt", "lowest", "shape"}
"""What a terminal narrower than ``FULL_WIDTH`` does not get."""
FULL_WIDTH = 72
CHART_ROWS = 6
CHART_LABEL = 6


class Outcome(NamedTuple):
    """A task that has ended with its curve."""

    followed: Followed
    curve: Curve


def results_table(outcomes: Sequence[Outcome], *, plain: bool, narrow: bool = False) -> Table:
    """Build the table: who did what, how long it took, and what came out."""
    table = Table(
        box=box.ASCII2 if plain else box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0)
    )
    kept = [column for column in COLUMNS if not (narrow and column[0] in LEFT_OUT)]
    for name, justify, style in kept:
        # Never shortened with an ellipsis, which an ASCII terminal cannot show.
        table.add_column(name, justify=justify, style=style, overflow="fold")
    for outcome in outcomes:
        cells = _cells(outcome, plain=plain)
        table.add_row(*(cells[name] for name, _, _ in kept))
    return table


def _cells(outcome: Outcome, *, plain: bool) -> dict[str, Text]:
    (scan, task, worker), curve = outcome
    third = curve.energies[: round(len(curve.energies) * SYMMETRY / 360.0)]
    cells = (
        str(scan.number),
        f"{scan.methyl}-CH3",
        f"x{scan.radius_scale:.3f}",
        worker,
        str(task.attempt),
        f"{outcome.followed.seconds:.2f}",
        f"{curve.lowest_angle:.0f}°" if not plain else f"{curve.lowest_angle:.0f}",
        f"{curve.barrier:.2f}",
        sparkline(third, plain=plain),
    )
    return {name: Text(cell) for (name, _, _), cell in zip(COLUMNS, cells, strict=True)}


def sparkline(values: Sequence[float], *, plain: bool) -> str:
    """Draw values as one line of blocks, the greatest of them in full height."""
    blocks = (PLAIN_BLOCKS if plain else BLOCKS)[1:]
    highest = max(values)
    scale = (len(blocks) - 1) / highest if highest > 0 else 0.0
    return "".join(blocks[round(value * scale)] for value in values)


def chart(curve: Curve, *, width: int, plain: bool) -> Text:
    """Draw one curve as columns over the full turn, with energies at the side and angles below."""
    wide = max(1, min(2, (width - CHART_LABEL - 2) // len(curve.energies)))
    blocks = PLAIN_BLOCKS if plain else BLOCKS
    full = len(blocks) - 1
    top = curve.barrier or 1.0
    # At least a sliver, so that the lowest angles are seen as columns too.
    heights = [max(round(energy / top * CHART_ROWS * full), 1) for energy in curve.energies]
    drawing = Text()
    for row in reversed(range(CHART_ROWS)):
        label = f"{top * (row + 1) / CHART_ROWS:{CHART_LABEL}.2f} "
        cells = (blocks[min(max(height - row * full, 0), full)] * wide for height in heights)
        drawing.append(label, style="dim").append("".join(cells) + "\n", style="cyan")
    return drawing.append(_angle_line(curve, wide, plain=plain), style="dim")


def _angle_line(curve: Curve, wide: int, *, plain: bool) -> str:
    line = ""
    quarter = max(len(curve.angles) // 4, 1)
    for step in range(0, len(curve.angles), quarter):
        mark = f"{curve.angles[step]:.0f}{'' if plain else '°'}"
        line = line.ljust(step * wide) + mark
    return " " * (CHART_LABEL + 1) + line


def print_results(console: Console, outcomes: Sequence[Outcome]) -> None:
    """Print the table, and the curve of the highest barrier."""
    plain = console.options.ascii_only
    narrow = console.width < FULL_WIDTH
    console.print(results_table(outcomes, plain=plain, narrow=narrow))
    console.print(Text(NARROW_LEGEND if narrow else LEGEND, style="dim"))
    highest = max(outcomes, key=lambda outcome: outcome.curve.barrier)
    label = highest.followed.scan.label
    title = f"Task {highest.followed.scan.number}, {label}: kJ/mol over the H-C-N-C angle"
    console.print(Text(title, style="bold"))
    console.print(
        chart(highest.curve, width=console.width, plain=plain), no_wrap=True, overflow="crop"
    )


def write_results(folder: Path, outcomes: Sequence[Outcome]) -> None:
    """Write the results, and the molecule they belong to, for those who keep the folder."""
    rows = [
        {
            **outcome.followed.scan.payload,
            "task": outcome.followed.task.id,
            "lowest_angle": outcome.curve.lowest_angle,
            "barrier": outcome.curve.barrier,
            "angles": outcome.curve.angles,
            "energies": outcome.curve.energies,
        }
        for outcome in outcomes
    ]
    (folder / "results.json").write_text(json.dumps(rows, indent=1) + "\n", "utf-8")
    (folder / "caffeine.xyz").write_text(molecule.write_xyz(molecule.caffeine()), "utf-8")
