"""A worker of the demo: ``python -m jobroom.demo.worker URL``, its token in ``JOBROOM_TOKEN``."""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Callable
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

from pydantic import Field

from jobroom.client.connection import Connection
from jobroom.client.extension import Category, Extension
from jobroom.client.manager import JobManager
from jobroom.demo import guard, molecule, torsion
from jobroom.demo.molecule import Molecule
from jobroom.demo.scans import ROOM, TURN_AXIS
from jobroom.errors import JobroomError

LISTEN_SECONDS = 1.0
"""The longest that a claim is held open; leaving takes no longer either."""


class Bench(NamedTuple):
    """What a scan works on, and whom it tells how far it is."""

    molecule: Molecule
    tell: Callable[[float, str], object]


class MethylScan(Extension):
    """Turn a methyl group of the molecule once around and find the energy at each angle."""

    category: ClassVar[str] = Category.ANALYSIS

    methyl: Literal["N1", "N3", "N7"] = Field(description="The ring atom that holds the group.")
    radius_scale: Annotated[float, Field(ge=0.5, le=1.5)] = 1.0
    turn: Annotated[float, Field(description="Degrees to turn the whole molecule first.")] = 0.0
    steps: Annotated[int, Field(ge=3, le=360)] = 36

    def run(self, vis: Bench, **_: Any) -> dict[str, Any]:
        """Scan, telling each step; the energies are in kJ/mol above the lowest."""
        subject = molecule.turn(vis.molecule, degrees=self.turn, axis=TURN_AXIS)
        model = torsion.Model(subject, radius_scale=self.radius_scale)
        points = []
        for angle, energy in torsion.scan(model, self.methyl, steps=self.steps):
            points.append((angle, energy))
            vis.tell(len(points) / self.steps, f"{angle:.0f} degrees: {energy:.2f} kJ/mol")
        curve = torsion.as_curve(points)
        return {
            "angles": curve.angles,
            "energies": curve.energies,
            "lowest_angle": curve.lowest_angle,
            "barrier": curve.barrier,
        }


def work(url: str, token: str) -> None:
    """Register the job and run its tasks until a signal says to stop."""
    shipped = molecule.caffeine()
    with Connection(url, token) as connection, JobManager(connection) as jobs:
        jobs.register(MethylScan, room=ROOM)
        stream = jobs.listen(interval=LISTEN_SECONDS)
        signal.signal(signal.SIGTERM, lambda *_: stream.stop())
        for task in stream:
            task.run(Bench(shipped, task.progress))


def main(arguments: list[str]) -> int:
    """Run the worker; the exit code is 0 after an orderly stop."""
    token = os.environ.get("JOBROOM_TOKEN")
    if len(arguments) != 1 or not token:
        sys.stderr.write("Usage: JOBROOM_TOKEN=... python -m jobroom.demo.worker URL\n")
        return 2
    guard.watch()
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s %(message)s")
    try:
        work(arguments[0], token)
    except JobroomError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
