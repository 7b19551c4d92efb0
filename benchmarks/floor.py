"""Our hot requests beside the floor, in turn: submit, claim + complete, and both in one request.

Run: python benchmarks/floor.py [--seconds 3] [--rounds 3]
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys

import load
import servers

from jobroom import tokens

JOB = "r1:modifiers:Rotate"
BAR = 0.50
SCHEMA = {
    "type": "object",
    "properties": {"angle": {"type": "number"}, "axis": {"type": "string"}},
    "required": ["angle"],
}


def main() -> None:
    """Measure, and print one table of medians and ratios."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=int, default=3, help="of each load; whole ones")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--synchronous", default="FULL", choices=("FULL", "NORMAL"))
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows = measure(options.seconds, options.rounds, options.synchronous)
    if options.json:
        json.dump(rows, sys.stdout, indent=2)
        return
    heads = ("what", "connections", "floor req/s", "ours req/s", "ratio", f"bar {BAR:.2f}")
    print("| " + " | ".join(heads) + " |\n|" + " --- |" * len(heads))
    for row in rows:
        ratio = row["ours"] / row["floor"]
        verdict = "met" if ratio >= BAR else f"missed by {1 - ratio / BAR:.0%}"
        print(
            f"| {row['what']} | {row['connections']} | {row['floor']:,.0f} | {row['ours']:,.0f}"
            f" | {ratio:.2f} | {verdict} |"
        )


def measure(seconds: int, rounds: int, synchronous: str) -> list[dict[str, object]]:
    """Medians of interleaved rounds, each floor beside ours with the same load."""
    rows = []
    token = tokens.issue_token(servers.SECRET, sub="bench", is_admin=True)
    with servers.serve_floor() as floor, servers.serve_jobroom(synchronous=synchronous) as ours:
        job = {"category": "modifiers", "name": "Rotate", "schema": SCHEMA}
        servers.call(f"{ours}/v1/joblib/rooms/r1/jobs", "PUT", job, token)
        cases = (
            ("submit", "submit", False, f"/v1/joblib/rooms/r1/tasks/{JOB}"),
            ("claim + complete", "claim_and_complete", True, "/"),
            ("complete and claim next", "fused", True, "/"),
        )
        for what, script, answers, path in cases:
            for connections in (1, 8, 64):
                speeds: dict[str, list[float]] = {"floor": [], "ours": []}
                for _ in range(rounds):
                    if answers:
                        _fill(ours, token, seconds)
                    for name, base in (("floor", floor), ("ours", ours)):
                        # The floor answers nothing to go by: its load is as many plain requests.
                        lua = script if name == "ours" or not answers else "submit"
                        speed, bad = load.requests_per_second(
                            f"{base}{path}",
                            script=lua,
                            token=token,
                            connections=connections,
                            seconds=seconds,
                            answers=answers,
                        )
                        if bad:
                            raise SystemExit(f"{what}: {bad} answers of {name} were errors")
                        speeds[name].append(speed)
                medians = {name: statistics.median(found) for name, found in speeds.items()}
                rows.append({"what": what, "connections": connections, **medians})
    return rows


def _fill(url: str, token: str, seconds: int) -> None:
    """Enough pending tasks that no claim of the next round comes back empty."""
    path = f"{url}/v1/joblib/rooms/r1/tasks/{JOB}"
    load.requests_per_second(
        path, script="submit", token=token, connections=64, seconds=seconds * 2, answers=False
    )


if __name__ == "__main__":
    main()
