"""What the graph queue's measurements say, as rows: beside floors, the peer, and itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import graph_peer
from graph_scenes import Cost, median
from report import Row

KINDS = {"ready": "ready", "waiting": "waiting", "chain": "in a chain", "finished": "finished"}
STEPS = {"add": "add_job", "work": "get_job + update", "poll": "get_job that finds none"}
FLOORS = {"same": "the same writes", "minimal": "counters"}
FLOOR_BARS = {"add": 0.75, "work": 0.55}
PEER = f"pyantz {graph_peer.VERSION}"
SMALL = 1_000
MOST_GROWTH = 1.15
MOST_CHAIN_SECONDS = 1.0

Key = tuple[str, int]
"""A side, and the size of its queue: ``ours`` is one, so are the floors, and ``peer``."""
Steps = Mapping[str, Cost]
Costs = Mapping[Key, Steps]


def merged(rounds: Sequence[Steps]) -> Steps:
    """The medians of several rounds."""
    return {step: median([each[step] for each in rounds]) for step in rounds[0]}


def beside_floors(kind: str, synchronous: str, costs: Costs) -> list[Row]:
    """Ours beside each floor at the same size."""
    return [
        _faster(
            f"graph {STEPS[step]}, {size:,} {KINDS[kind]}, {synchronous}",
            (costs["ours", size][step], costs[name, size][step]),
            FLOORS[name],
            bar=bar,
            in_time=synchronous == "FULL",
        )
        for step, bar in FLOOR_BARS.items()
        for name, size in costs
        if name in FLOORS
    ]


def beside_peer(kind: str, costs: Costs) -> list[Row]:
    """Ours beside pyantz: 20 times as fast at 100 jobs, 1,000 times where many wait."""
    rows = []
    for step, said in STEPS.items():
        for name, size in costs:
            if name != "peer" or step not in costs[name, size]:
                continue
            bar = 20.0 if size == 100 else 1_000.0 if (kind, size) == ("waiting", 50_000) else None
            what = f"graph {said}, {size:,} {KINDS[kind]}, NORMAL"
            compared = costs["ours", size][step], costs[name, size][step]
            rows.append(_faster(what, compared, PEER, bar=bar))
    return rows


def _faster(
    what: str,
    compared: tuple[Cost, Cost],
    against: str,
    *,
    bar: float | None = None,
    in_time: bool = False,
) -> Row:
    """By how much ours is faster: in CPU, or ``in_time`` where each call waits for the disk."""
    ours, beside = compared
    wall, cpu = beside.wall / ours.wall, beside.cpu / ours.cpu
    if in_time:
        note = f"CPU {ours.cpu:,.0f} us, beside it {beside.cpu:,.0f}: {cpu:.2f}"
        return Row(what, ours.wall, beside.wall, against, "us", wall, bar, reason=note)
    note = f"in time {ours.wall:,.0f} us, beside it {beside.wall:,.0f}: {wall:.2f}"
    return Row(what, ours.cpu, beside.cpu, against, "us of CPU", cpu, bar, reason=note)


def growth(kind: str, costs: Costs) -> list[Row]:
    """Ours at each larger size beside ours at the small one."""
    rows = []
    small, floor = costs["ours", SMALL], costs["same", SMALL]
    for step in small:
        for name, size in costs:
            if name != "ours" or size <= SMALL:
                continue
            large, least = costs[name, size][step], small[step]
            wall = large.wall / least.wall
            note = f"in time {large.wall:,.0f} us, beside it {least.wall:,.0f}: {wall:.2f}"
            if ("same", size) in costs and step in FLOOR_BARS:
                grown = costs["same", size][step].cpu / floor[step].cpu
                note += f"; the floor with the same writes: {grown:.2f}"
            rows.append(
                Row(
                    f"graph {STEPS[step]}, {size:,} {KINDS[kind]}, NORMAL",
                    large.cpu,
                    least.cpu,
                    f"ours with {SMALL:,}",
                    "us of CPU",
                    large.cpu / least.cpu,
                    MOST_GROWTH,
                    at_most=True,
                    reason=note,
                )
            )
    return rows


def fan(size: int, costs: Costs) -> list[Row]:
    """One, then so many, then one: each part of it beside the floors and pyantz."""
    said = {
        "add": f"add_job of one of {size:,} that wait for one",
        "join": f"add_job of one that waits for {size:,}",
        "open": f"get_job + update that makes {size:,} ready",
        "drain": f"get_job + update of each of 1 -> {size:,} -> 1",
    }
    ours = costs["ours", size]
    return [
        _faster(f"graph {what}, NORMAL", (ours[step], steps[step]), FLOORS.get(name, PEER))
        for step, what in said.items()
        for (name, _), steps in costs.items()
        if name != "ours"
    ]


def failed_chain(size: int, costs: Costs) -> list[Row]:
    """The seconds in which all of a chain is settled, by the call that ends its head."""
    ours = costs["ours", size]["fail"]
    assert ours.calls == size, f"{ours.calls} of {size} have failed"
    rows = []
    for (name, _), steps in costs.items():
        if name == "ours":
            continue
        beside = steps["fail"]
        note = f"CPU {ours.cpu / 1e6:.3f} s, beside it {beside.cpu / 1e6:.3f}"
        if "poll" in steps:
            failed = beside.calls + steps["poll"].calls
            beside = steps["poll"]
            note = f"{failed:,} of {size:,} had failed by then, after as many calls of get_job"
        rows.append(
            Row(
                f"graph chain of {size:,} whose head fails, FULL",
                ours.wall / 1e6,
                beside.wall / 1e6,
                FLOORS.get(name, PEER),
                "s",
                ours.wall / 1e6,
                MOST_CHAIN_SECONDS,
                at_most=True,
                reason=note,
            )
        )
    return rows
