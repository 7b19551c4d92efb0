"""The tasks of the demo: which scans there are, and whether what came back is right."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from jobroom.demo import molecule, torsion
from jobroom.demo.vectors import Vector

ROOM = "demo"
FULL_NAME = f"{ROOM}:analysis:MethylScan"

METHYLS = ("N1", "N3", "N7")
RADIUS_SCALES = (1.0, 0.975, 0.95, 0.925, 0.9, 0.875, 0.85)
STEPS = 36
TURN_AXIS: Vector = (1.0, 2.0, 3.0)
TURN_STEP = 17.0

TOLERANCE = 1e-4
"""kJ/mol by which two computations of one energy may differ."""


class Scan(NamedTuple):
    """One task: a methyl group of caffeine, the size of the atoms, how the molecule lies."""

    number: int
    methyl: str
    radius_scale: float
    turn: float

    @property
    def label(self) -> str:
        """What a person calls it."""
        return f"{self.methyl}-CH3 x{self.radius_scale:.3f}"

    @property
    def payload(self) -> dict[str, Any]:
        """What is sent with the task."""
        return {
            "methyl": self.methyl,
            "radius_scale": self.radius_scale,
            "turn": self.turn,
            "steps": STEPS,
        }


def plan_scans(count: int) -> list[Scan]:
    """List the scans: each group at each size, the molecule turned differently every time."""
    return [
        Scan(
            number=number + 1,
            methyl=METHYLS[number % len(METHYLS)],
            radius_scale=RADIUS_SCALES[number // len(METHYLS) % len(RADIUS_SCALES)],
            turn=TURN_STEP * number % 360,
        )
        for number in range(count)
    ]


def read_curve(result: object) -> torsion.Curve:
    """Read the curve from a task's result; raises ``ValueError`` if it is none."""
    match result:
        case {"angles": [*angles], "energies": [*energies]}:
            pass
        case _:
            raise ValueError("holds no angles and energies")
    numbers = [*angles, *energies]
    if len(angles) != STEPS or len(energies) != STEPS:
        raise ValueError(f"does not hold {STEPS} angles and energies")
    if not all(isinstance(number, int | float) and math.isfinite(number) for number in numbers):
        raise ValueError("holds something that is no number")
    return torsion.Curve(tuple(angles), tuple(energies))


def find_fault(scan: Scan, curve: torsion.Curve) -> str | None:
    """Say what is wrong with a curve, None if nothing is.

    Two things must hold: a methyl group looks the same after a third of a turn, and the height of
    the curve is the one that the molecule has as the file holds it, not turned in space.
    """
    third = STEPS // 3
    turned = curve.energies[third:] + curve.energies[:third]
    if any(abs(a - b) > TOLERANCE for a, b in zip(curve.energies, turned, strict=True)):
        return "is not the same after a third of a turn"
    low = curve.energies.index(min(curve.energies))
    high = curve.energies.index(max(curve.energies))
    model = torsion.Model(molecule.caffeine(), radius_scale=scan.radius_scale)
    height = torsion.relaxed_energy(model, scan.methyl, curve.angles[high])
    height -= torsion.relaxed_energy(model, scan.methyl, curve.angles[low])
    if abs(height - curve.barrier) > TOLERANCE:
        return f"has a barrier of {curve.barrier:.4f} kJ/mol, but here it is {height:.4f}"
    return None
