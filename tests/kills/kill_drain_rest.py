"""A worker over REST, without our SDK: ``kill_drain_rest.py NOTES NUMBER URL...``.

Runs tasks until there is a file ``stop`` beside ``NOTES``. A task adds its children, and ends as it
was planned to; one that is to die stops halfway in its first run, and waits there to be killed.
"""

from __future__ import annotations

import sys
import threading
import uuid
from contextlib import ExitStack, contextmanager
from pathlib import Path

import live_server
from kill_cycles import Patient
from kill_drained import IN_VAIN, Notes, await_kill

BASE = live_server.BASE
TASKS = f"{BASE}/rooms/r1/tasks"
JOBS = {
    "Rotate": {},
    "Scale": {},
    "Fragile": {"on_worker_lost": "fail"},
    "Sturdy": {"on_worker_lost": "requeue", "max_attempts": 3},
}
DYING = {"lost": "Fragile", "again": "Sturdy"}
BEAT_SECONDS = 1.0
IDENTITY = "w0"
"""Of all workers: each has its own id, and may go on with what another one has begun."""


def id_of(name):
    return str(uuid.uuid5(uuid.NAMESPACE_URL, name))


def described(job, parent=None):
    """A job of the plan as one task of a request."""
    kind = DYING.get(job.dies) or list(JOBS)[sum(job.name.encode()) % len(JOBS)]
    first, second = job.added(first=True), job.children[len(job.children) // 2 :]
    return {
        "id": id_of(job.name),
        "job": f"r1:modifiers:{kind}",
        "payload": {
            "name": job.name,
            "ends_well": job.ends_well,
            "dies": job.dies is not None,
            "children": [[described(each, job.name) for each in half] for half in (first, second)],
        },
        "depends_on": [{"id": id_of(name), "condition": how} for name, how in job.needs.items()],
        **({} if parent is None else {"parent": id_of(parent)}),
    }


@contextmanager
def patient(number, urls, notes):
    """A client that begins with another server for each number."""
    made = Patient(IDENTITY, urls, notes)
    made._at = number % len(urls)
    with ExitStack() as stack:
        for each in made._clients:
            stack.enter_context(each)
        yield made


class Worker:
    def __init__(self, path, notes, client):
        self.path, self.notes, self.client = path, notes, client
        made, _ = self.client.send("POST", f"{BASE}/workers", {}, expect=201)
        self.id = made["id"]
        for name, policy in JOBS.items():
            job = {"category": "modifiers", "name": name, "worker_id": self.id, **policy}
            self.client.send("PUT", f"{BASE}/rooms/r1/jobs", job, expect=200)
        self.claims = 0

    @contextmanager
    def beating(self, client):
        ended = threading.Event()

        def beat():
            while not ended.wait(BEAT_SECONDS):
                client.send("PATCH", f"{BASE}/workers/{self.id}", {}, expect=200)

        thread = threading.Thread(target=beat, daemon=True)
        thread.start()
        yield
        ended.set()
        thread.join()

    def claim(self):
        self.claims += 1
        request_id = f"{self.id}-{self.claims}"
        wish = {"worker_id": self.id, "start": True, "request_id": request_id}
        wait = {"prefer": "wait=1"}
        path = f"{BASE}/tasks/claim"
        answer, _ = self.client.send("POST", path, wish, expect=200, headers=wait)
        return answer["task"]

    def run(self, task):
        """Run a task; the next one, if there is one already."""
        payload = task["payload"]
        name = payload["name"]
        self.notes.add("start", name)
        for n, children in enumerate(payload["children"]):
            if n and payload["dies"] and task["attempt"] == 1:
                await_kill(self.path, name)
            if children:
                self.client.send("POST", TASKS, {"tasks": children}, expect=202)
        self.notes.add("end", name)
        report = {"attempt": task["attempt"], "worker_id": self.id, "claim_next": True}
        if payload["ends_well"]:
            report |= {"status": "completed", "result": name}
        else:
            report |= {"status": "failed", "error": IN_VAIN, "final": True}
        answer, _ = self.client.send("PATCH", f"{BASE}/tasks/{task['id']}", report, expect=200)
        return answer["next_task"]


def main(path, number, urls):
    notes, stop, task = Notes(path), path.with_name("stop"), None
    with patient(number, urls, notes) as client, patient(number, urls, notes) as heart:
        worker = Worker(path, notes, client)
        with worker.beating(heart):
            while not stop.exists():
                task = worker.claim() if task is None else worker.run(task)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
