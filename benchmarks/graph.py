"""The embedded graph queue beside plain sqlite3 and pyantz 2.0.3, whatever waits or is finished.

Run: python benchmarks/graph.py [--quick] [--json]

Each step is one transaction. Two floors: *the same writes* is plain sqlite3 that writes into our
tables, with all their indexes, what ours writes; *counters* is the least that may be called a graph
queue. What is ready, waiting, in a chain or finished is written past the queues (`graph_filling`),
the calls that are measured are all made in earnest.
"""

from __future__ import annotations

import copy
import random
import shutil
import sqlite3
import sys
import tempfile
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import graph_peer
import graph_rows
import report
from graph_floor import MinimalQueue, SameWrites
from graph_ours import OurQueue
from graph_peer import Peer, PeerScene
from graph_rows import FLOORS, KINDS, SMALL, Costs, Key, Steps, merged
from graph_scenes import SCENES, Scene
from graph_watching import watch
from report import Row

LARGE = 1_000_000
SIZES, QUICK_SIZES = (100, SMALL, 10_000, 50_000, LARGE), (100, SMALL, 50_000)
PEER_SIZES, QUICK_PEER_SIZES = (100, SMALL, 10_000, 50_000), (100, 50_000)
CALLS, ROUNDS, PEER_ROUNDS = 200, 7, 3
QUICK_CALLS, QUICK_ROUNDS, QUICK_PEER_ROUNDS = 100, 3, 1
PEER_SECONDS = 0.5
"""For so long pyantz does each step of a round; what it has done by then is counted."""
FAN, CHAIN, ONCE_ROUNDS = 5_000, 10_000, 3
QUICK_FAN, QUICK_CHAIN, QUICK_ONCE_ROUNDS = 500, 1_000, 1
PATIENCE, QUICK_PATIENCE = 20.0, 5.0
"""As ``PEER_SECONDS``, for the fan and for the chain."""


def measure(*, quick: bool = False) -> list[Row]:
    """By state and size at NORMAL, beside the floors at FULL, then a fan and a failing chain."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        python = graph_peer.find_python()
        peer = None if python is None else stack.enter_context(Peer(python, folder))
        bench = Bench(folder, peer, quick=quick)
        rows = [row for kind in KINDS for row in bench.by_size(kind)]
        rows += [row for kind in KINDS for row in bench.durable(kind)]
        return [*rows, *bench.fan(), *bench.failed_chain()]


class Bench:
    """All sides that are compared are asked in turn, in short rounds, each on a file of its own."""

    def __init__(self, folder: Path, peer: Peer | None, *, quick: bool) -> None:
        self._folder = folder
        self._peer = peer
        self._quick = quick
        queue = OurQueue(folder / "watched.db", "NORMAL")
        self._watched = watch(queue)
        queue.close()

    def by_size(self, kind: str) -> list[Row]:
        """Ours at all sizes, the floors, pyantz as far as it comes."""
        with ExitStack() as stack:
            scenes: dict[Key, Scene] = {}
            for size in QUICK_SIZES if self._quick else SIZES:
                floors = {SMALL: tuple(FLOORS), LARGE: ("same",)}.get(size, ())
                made = stack.enter_context(self._scenes(kind, size, "NORMAL", floors))
                scenes |= {(name, size): scene for name, scene in made.items()}
            costs = self._in_turn(scenes)
            beside = self._peer_costs(kind)
        return [
            *graph_rows.beside_floors(kind, "NORMAL", costs),
            *graph_rows.beside_peer(kind, {**costs, **beside}),
            *graph_rows.growth(kind, costs),
        ]

    def durable(self, kind: str) -> list[Row]:
        """Ours beside the floors at ``synchronous = FULL``, which costs the same at any size."""
        with self._scenes(kind, SMALL, "FULL", FLOORS) as scenes:
            costs = self._in_turn({(name, SMALL): scene for name, scene in scenes.items()})
        return graph_rows.beside_floors(kind, "FULL", costs)

    def fan(self) -> list[Row]:
        """At NORMAL, which is what pyantz has."""
        size = QUICK_FAN if self._quick else FAN
        return graph_rows.fan(size, self._once("fan", size, size + 2, "NORMAL"))

    def failed_chain(self) -> list[Row]:
        """At ``synchronous = FULL``; pyantz has NORMAL."""
        size = QUICK_CHAIN if self._quick else CHAIN
        return graph_rows.failed_chain(size, self._once("failed chain", size, size, "FULL"))

    @contextmanager
    def _scenes(
        self, kind: str, size: int, synchronous: str, floors: Collection[str]
    ) -> Iterator[dict[str, Scene]]:
        """Ours, one floor on a copy of its file, and one on its own."""
        begun = time.monotonic()
        with tempfile.TemporaryDirectory(dir=self._folder) as made:
            folder = Path(made)
            ours = SCENES[kind](OurQueue(folder / "ours.db", synchronous), size)
            scenes = {"ours": ours}
            if "same" in floors:
                scenes["same"] = copy.copy(ours)
                file = _copied(ours.queue.path, folder / "same.db")
                scenes["same"].queue = SameWrites(file, synchronous, self._watched)
            if "minimal" in floors:
                minimal = MinimalQueue(folder / "minimal.db", synchronous)
                scenes["minimal"] = SCENES[kind](minimal, size)
            if size == LARGE:
                print(f"{size:,} {kind}: {time.monotonic() - begun:.0f} s", file=sys.stderr)
            try:
                yield scenes
            finally:
                for scene in scenes.values():
                    scene.queue.close()

    def _in_turn(self, scenes: Mapping[Key, Scene]) -> Costs:
        """Medians of rounds, of which the first one only warms up, each in another order."""
        rounds, calls = (QUICK_ROUNDS, QUICK_CALLS) if self._quick else (ROUNDS, CALLS)
        found: dict[Key, list[Steps]] = {key: [] for key in scenes}
        for _ in range(rounds + 1):
            for key in random.sample(list(scenes), len(scenes)):
                found[key].append(scenes[key].round(min(key[1], calls)))
        return {key: merged(costs[1:]) for key, costs in found.items()}

    def _peer_costs(self, kind: str) -> Costs:
        if self._peer is None:
            return {}
        rounds = QUICK_PEER_ROUNDS if self._quick else PEER_ROUNDS
        found: dict[Key, Steps] = {}
        for size in QUICK_PEER_SIZES if self._quick else PEER_SIZES:
            scene = PeerScene(self._peer, kind, size)
            costs = [scene.round(min(size, CALLS), PEER_SECONDS) for _ in range(rounds)]
            found["peer", size] = merged(costs)
            scene.close()
        return found

    def _once(self, kind: str, size: int, jobs: int, synchronous: str) -> Costs:
        """What can be done once only: a new file for each round, and one for pyantz."""
        found: dict[Key, list[Steps]] = {}
        for _ in range(QUICK_ONCE_ROUNDS if self._quick else ONCE_ROUNDS):
            with self._scenes(kind, size, synchronous, FLOORS) as scenes:
                for name in random.sample(list(scenes), len(scenes)):
                    found.setdefault((name, size), []).append(scenes[name].round(jobs))
        if self._peer is not None:
            peer = PeerScene(self._peer, kind, size)
            found["peer", size] = [peer.round(jobs, QUICK_PATIENCE if self._quick else PATIENCE)]
            peer.close()
        return {key: merged(costs) for key, costs in found.items()}


def _copied(path: Path, to: Path) -> Path:
    """A copy of a file that nobody writes just now, with what its log still holds."""
    connection = sqlite3.connect(path)
    try:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    finally:
        connection.close()
    return Path(shutil.copyfile(path, to))


if __name__ == "__main__":
    report.command(measure, __doc__)
