"""Load by wrk, bounded in time; requests that need the answer before them come from Lua."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent


@dataclass(frozen=True, slots=True)
class Load:
    """What one load came to, in requests a second."""

    per_second: float
    errors: int
    """Answers that were no 2xx, and requests without an answer."""
    requests: int

    @property
    def good_per_second(self) -> float:
        """Requests that were done, a second."""
        return self.per_second * (1 - self.errors / self.requests) if self.requests else 0.0


def run(
    url: str,
    *,
    script: str,
    token: str,
    connections: int,
    seconds: int,
    workers: Sequence[str] = (),
    starts: bool = True,
) -> Load:
    """Send what a Lua script says for so long.

    Each connection is one of the workers, in turn. ``starts``: a claim starts the task; without it
    a task is reported as running first.
    """
    wrk = shutil.which("wrk")
    if wrk is None:
        raise SystemExit("The benchmarks need wrk; install it with your system's packages.")
    lua = (HERE / f"{script}.lua").read_text()
    # A Lua state sees its own answers only: what goes by them has one connection a thread.
    threads = connections if "function response" in lua else min(2, connections)
    names = ", ".join(f"'{worker}'" for worker in workers)
    for word, text in (("TOKEN", token), ("WORKERS", names), ("STARTS", str(starts).lower())):
        lua = lua.replace(f"@{word}@", text)
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as file:
        file.write(lua)
        file.flush()
        command = [wrk, f"-t{threads}", f"-c{connections}", f"-d{seconds}s"]
        command += ["--timeout", "20s", "-s", file.name, url]
        done = subprocess.run(
            command, capture_output=True, text=True, check=True, timeout=seconds + 60
        )
    return _read(done.stdout)


def _read(out: str) -> Load:
    rate = re.search(r"Requests/sec:\s+([\d.]+)", out)
    count = re.search(r"(\d+) requests in", out)
    if rate is None or count is None:
        raise SystemExit(f"wrk said nothing of its rate:\n{out}")
    bad = re.search(r"Non-2xx or 3xx responses: (\d+)", out)
    lost = re.search(r"connect (\d+), read (\d+), write (\d+), timeout (\d+)", out)
    errors = int(bad[1]) if bad else 0
    errors += sum(map(int, lost.groups())) if lost else 0
    return Load(float(rate[1]), errors, int(count[1]))
