"""Load by wrk, bounded in time; requests that need the answer before them come from Lua."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from pathlib import Path

SUBMIT = """
wrk.method = "POST"
wrk.body = '{{"payload": {{"angle": 90, "axis": "z", "note": "a payload of some hundred bytes, as they come from a user interface or a script"}}}}'
wrk.headers["Content-Type"] = "application/json"
wrk.headers["Authorization"] = "Bearer {token}"
"""

# One connection a thread, so that a Lua state sees its own answers only, in order.
CLAIM_AND_COMPLETE = """
local head = {{["Content-Type"] = "application/json", ["Authorization"] = "Bearer {token}"}}
local id, attempt
function request()
  if id then
    return wrk.format("PATCH", "/v1/joblib/tasks/" .. id, head, '{{"status": "completed", "attempt": ' .. attempt .. '}}')
  end
  return wrk.format("POST", "/v1/joblib/tasks/claim", head, '{{"start": true}}')
end
function response(status, headers, body)
  if id then id = nil else
    id = string.match(body, '"id":"([^"]+)"')
    attempt = string.match(body, '"attempt":(%d+)')
  end
end
"""

FUSED = """
local head = {{["Content-Type"] = "application/json", ["Authorization"] = "Bearer {token}"}}
local id, attempt
function request()
  if id then
    return wrk.format("PATCH", "/v1/joblib/tasks/" .. id, head, '{{"status": "completed", "claim_next": true, "attempt": ' .. attempt .. '}}')
  end
  return wrk.format("POST", "/v1/joblib/tasks/claim", head, '{{"start": true}}')
end
function response(status, headers, body)
  local next = string.match(body, '"next_task":(.*)') or body
  id = string.match(next, '"id":"([^"]+)"')
  attempt = string.match(next, '"attempt":(%d+)')
end
"""


def requests_per_second(
    url: str, *, script: str, token: str, connections: int, seconds: float, answers: bool
) -> tuple[float, int]:
    """Requests a second, and how many answers were no 2xx. ``answers``: the script reads them."""
    wrk = shutil.which("wrk")
    if wrk is None:
        raise SystemExit("The benchmarks need wrk; install it with your system's packages.")
    threads = connections if answers else min(2, connections)
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as file:
        file.write(script.format(token=token))
        file.flush()
        command = [wrk, f"-t{threads}", f"-c{connections}", f"-d{seconds:g}s"]
        command += ["--timeout", "10s", "-s", str(Path(file.name)), url]
        out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    rate = re.search(r"Requests/sec:\s+([\d.]+)", out)
    bad = re.search(r"Non-2xx or 3xx responses: (\d+)", out)
    if rate is None:
        raise SystemExit(f"wrk said nothing of its rate:\n{out}")
    return float(rate.group(1)), int(bad.group(1)) if bad else 0
