"""One client process: submit, claim, run, complete, again and again; every answer is written down.

Run as ``kill_cycles.py plain|sdk WHO CYCLES NOTES URL...``. ``CYCLES`` 0 goes on until there is a
file ``stop`` beside ``NOTES``. The notes are JSON lines, each written at once after the answer
that it tells of, so that they can be read while this process goes on.

A claim follows a submission of this process that was acknowledged, and each process claims once
for each of its submissions. So at each claim more was submitted than was taken, and an empty
answer is a false one.
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
import uuid
from pathlib import Path

import httpx
import live_server

BASE, JOB = live_server.BASE, live_server.JOB
PATIENCE_SECONDS = 120
UNAVAILABLE = 503
# As pydantic says it of the SDK's class: both kinds of client register the same.
ROTATE = {
    "category": "modifiers",
    "name": "Rotate",
    "schema": {
        "type": "object",
        "title": "Rotate",
        "properties": {"nonce": {"type": "string", "title": "Nonce"}},
        "required": ["nonce"],
    },
}


class Notes:
    def __init__(self, path):
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def add(self, *note):
        os.write(self._file, json.dumps(note).encode() + b"\n")


class Patient:
    """Repeats what was not answered, at the next server if there are several."""

    def __init__(self, who, urls, notes):
        head = {"authorization": f"Bearer {live_server.token_of(who, is_admin=True)}"}
        self._clients = [httpx.Client(base_url=url, headers=head, timeout=30) for url in urls]
        self._at = int(who[1:]) % len(urls)
        self._notes = notes

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
                self._at = (self._at + 1) % len(self._clients)
            else:
                if answer.status_code == expect:
                    return answer.json(), repeats
                self._notes.add("odd", f"{method} {path} {answer.status_code} {answer.text}")
                if answer.status_code != UNAVAILABLE:
                    raise SystemExit(answer.text)
            repeats += 1
            time.sleep(random.uniform(0.02, 0.1))
        raise SystemExit(f"no answer to {method} {path} for {PATIENCE_SECONDS} s")


def plain(who, urls, notes):
    """A cycle in four requests."""
    client = Patient(who, urls, notes)
    worker, _ = client.send("POST", f"{BASE}/workers", {}, expect=201)
    job = {**ROTATE, "worker_id": worker["id"]}
    client.send("PUT", f"{BASE}/rooms/r1/jobs", job, expect=200)

    def cycle(number):
        nonce = f"{who}-{number}"
        task, _ = client.send(
            "POST",
            JOB,
            {"payload": {"nonce": nonce}},
            expect=202,
            headers={"idempotency-key": nonce},
        )
        notes.add("submitted", task["id"], nonce)
        task = None
        for look in range(100):
            claim = {"worker_id": worker["id"], "request_id": f"{nonce}-{look}"}
            answer, _ = client.send("POST", f"{BASE}/tasks/claim", claim, expect=200)
            if (task := answer["task"]) is not None:
                break
            notes.add("empty", nonce)
        notes.add("claimed", task["id"], task["attempt"])
        fence = {"worker_id": worker["id"], "attempt": task["attempt"]}
        path = f"{BASE}/tasks/{task['id']}"
        _, repeats = client.send("PATCH", path, {"status": "running", **fence}, expect=200)
        if repeats:  # a repeat is a heartbeat and a note of progress: it writes the row again
            notes.add("running again", task["id"], repeats)
        result = {"by": who, "nonce": nonce}
        ended = {"status": "completed", "result": result, **fence}
        client.send("PATCH", path, ended, expect=200)
        notes.add("completed", task["id"], result)

    return cycle


class Noting(httpx.HTTPTransport):
    """Notes what was not answered."""

    def __init__(self, notes):
        super().__init__()
        self._notes = notes

    def handle_request(self, request):
        try:
            return super().handle_request(request)
        except httpx.TransportError as error:
            self._notes.add("broken", type(error).__name__)
            raise


def sdk(who, urls, notes):
    """A cycle as a program with our SDK makes it."""
    from jobroom import Connection, Extension, JobManager
    from jobroom.client.task import current_task

    reported: dict[str, int] = {}

    def asked(request):
        if b'"status":"running"' in request.content:
            path = request.url.path
            reported[path] = reported.get(path, 0) + 1
            if reported[path] > 1:
                notes.add("running again", path.rpartition("/")[2], 1)

    def answered(response):
        if response.is_error:
            notes.add("odd", f"{response.request.method} {response.url} {response.status_code}")
        if response.url.path.endswith("/claim") and response.is_success:
            response.read()
            # Not even for a moment may there be nothing.
            if response.json()["task"] is None or "preference-applied" in response.headers:
                notes.add("empty", who)

    class Rotate(Extension):
        nonce: str

        def run(self, vis, **kwargs):
            task = current_task()
            notes.add("claimed", task.id, task.attempt)
            return {"by": who, "nonce": self.nonce}

    hooks = {"request": [asked], "response": [answered]}
    http = httpx.Client(transport=Noting(notes), event_hooks=hooks)
    url = urls[int(who[1:]) % len(urls)]
    jobs = JobManager(Connection(url, live_server.token_of(who, is_admin=True), http=http))
    jobs.register(Rotate, room="r1")
    stream = jobs.listen(1.0)

    def cycle(number):
        nonce = f"{who}-{number}"
        notes.add("submitted", jobs.submit(Rotate(nonce=nonce))["id"], nonce)
        task = next(stream)
        task.run()
        notes.add("completed", task.id, {"by": who, "nonce": task.payload["nonce"]})

    return cycle


def main(kind, who, cycles, path, *urls):
    cycle = {"plain": plain, "sdk": sdk}[kind](who, urls, Notes(path))
    number, stop = 0, Path(path).with_name("stop")
    while number < int(cycles) or (cycles == "0" and not stop.exists()):
        cycle(number)
        number += 1


if __name__ == "__main__":
    main(*sys.argv[1:])
