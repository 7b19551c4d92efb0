"""``kill_cycles.py`` for a store that may be away: a 503 is an answer, and the request is repeated.

Run as that is. Every 503 is noted, and whether it was as the contract has it.
"""

from __future__ import annotations

import random
import sys
import time
import uuid
from pathlib import Path

import httpx

sys.path.append(str(Path(__file__).parents[1] / "kills"))

import kill_cycles

PATIENCE_SECONDS = 120


class Polite(kill_cycles.Patient):
    """Repeats what was not answered or not taken, at the next server if one does not answer."""

    def send(self, method, path, body, *, expect, headers=None):
        headers = {"x-request-id": str(uuid.uuid4()), **(headers or {})}
        give_up_at = time.monotonic() + PATIENCE_SECONDS
        repeats = 0
        while time.monotonic() < give_up_at:
            try:
                client = self._clients[self._at]
                answer = client.request(method, path, json=body, headers=headers)
            except httpx.TransportError as error:
                self._notes.add("broken", type(error).__name__)
            else:
                if answer.status_code == expect:
                    return answer.json(), repeats
                note(self._notes, answer)
                if answer.status_code != kill_cycles.UNAVAILABLE:
                    raise SystemExit(answer.text)
            # The other server may be of another mind about the store.
            self._at = (self._at + 1) % len(self._clients)
            repeats += 1
            time.sleep(random.uniform(0.02, 0.1))
        raise SystemExit(f"no answer to {method} {path} for {PATIENCE_SECONDS} s")


def note(notes, answer):
    """Note an answer that is none of those wanted; a proper 503 is no odd one."""
    is_problem = answer.headers.get("content-type") == "application/problem+json"
    if (answer.status_code, is_problem) == (503, True) and int(answer.headers["retry-after"]) > 0:
        notes.add("unavailable", answer.request.url.path.rpartition("/")[2][:8])
        return
    answer.read()
    request = answer.request
    notes.add("odd", f"{request.method} {request.url} {answer.status_code} {answer.text}")


class Notes(kill_cycles.Notes):
    """The SDK's own hooks call each error odd; here it is looked at first."""

    def add(self, kind, *rest):
        if kind == "odd" and str(rest[0]).endswith(" 503"):
            kind = "unavailable"
        super().add(kind, *rest)


kill_cycles.Patient = Polite
kill_cycles.Notes = Notes

if __name__ == "__main__":
    kill_cycles.main(*sys.argv[1:])
