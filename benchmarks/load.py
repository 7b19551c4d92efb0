"""Load by wrk, bounded in time; requests that need the answer before them come from Lua."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent


def requests_per_second(
    url: str, *, script: str, token: str, connections: int, seconds: int, answers: bool
) -> tuple[float, int]:
    """Requests a second, and how many answers were no 2xx. ``answers``: the script reads them."""
    wrk = shutil.which("wrk")
    if wrk is None:
        sys.exit("The benchmarks need wrk; install it with your system's packages.")
    threads = connections if answers else min(2, connections)
    lua = (HERE / f"{script}.lua").read_text().replace("TOKEN", token)
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as file:
        file.write(lua)
        file.flush()
        command = [wrk, f"-t{threads}", f"-c{connections}", f"-d{seconds}s"]
        command += ["--timeout", "10s", "-s", file.name, url]
        out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    rate = re.search(r"Requests/sec:\s+([\d.]+)", out)
    bad = re.search(r"Non-2xx or 3xx responses: (\d+)", out)
    if rate is None:
        sys.exit(f"wrk said nothing of its rate:\n{out}")
    return float(rate.group(1)), int(bad.group(1)) if bad else 0
