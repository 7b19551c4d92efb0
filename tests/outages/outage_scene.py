"""A job and an identity of a trial's own, and what answers have to look like."""

from __future__ import annotations

import itertools
import re
import ssl
import time

import httpx
import live_server

BASE = live_server.BASE
ROOM = f"{BASE}/rooms/r1"
NUMBERS = itertools.count(1)
TLS = ssl.create_default_context()  # no use here, and most of what a client costs to make
DIFFERENT = re.compile(
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|\d{4}-\d\d-\d\dT[\d:.]+Z"
)


class Scene:
    """A job and an identity of its own, so that what one trial leaves is nothing to the next."""

    def __init__(self, server):
        self.server, self.number = server, next(NUMBERS)
        self.who, self.job = f"scene{self.number}", f"Job{self.number}"
        token = live_server.token_of(self.who, is_admin=True)
        headers = {"authorization": f"Bearer {token}"}
        self.client = httpx.Client(base_url=server.url, headers=headers, timeout=60, verify=TLS)
        self.path = f"{ROOM}/tasks/r1:modifiers:{self.job}"

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.client.close()

    def register(self, **more):
        body = {"category": "modifiers", "name": self.job, **more}
        return self.client.put(f"{ROOM}/jobs", json=body)

    def submit(self, key=None, **body):
        headers = {} if key is None else {"idempotency-key": key}
        return self.client.post(self.path, json=body, headers=headers)

    def claim(self, **body):
        return self.client.post(f"{BASE}/tasks/claim", json=body)

    def report(self, task, **body):
        body = {"attempt": task["attempt"], **body}
        return self.client.patch(f"{BASE}/tasks/{task['id']}", json=body)

    def held(self, *, start=False, tasks=1, **job):
        """Register, submit, claim: the task that is held now."""
        sound(self.register(**job))
        for number in range(tasks):
            sound(self.submit(payload={"number": number}))
        return sound(self.claim(start=start))["task"]

    def tasks(self):
        """All tasks of the job."""
        answer = self.client.get(f"{ROOM}/tasks", params={"job": f"r1:modifiers:{self.job}"})
        return sound(answer)["items"]

    def common(self, text):
        """A text without what differs from trial to trial: names, ids in order, times."""
        names: dict[str, str] = {}

        def named(found):
            if "T" in found[0]:
                return "TIME"
            return names.setdefault(found[0], f"ID{len(names)}")

        text = re.sub(rf"\b{self.who}\b", "WHO", text.replace(self.job, "JOB"))
        return DIFFERENT.sub(named, text)


def sound(answer):
    assert answer.is_success, answer.text
    return answer.json()


def check_problem(answer):
    """A 503 as the contract has it: a problem that says when to come again, and no trace."""
    assert answer.status_code == 503, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["type"] == "/v1/problems/store-unavailable"
    assert int(answer.headers["retry-after"]) > 0
    assert "Traceback" not in answer.text


def status_of(scene, path):
    return scene.client.get(path).status_code


def until_ready(scene, status=200):
    """The verdict is kept for a second (rules, *Sweep*)."""
    deadline = time.monotonic() + 30
    while status_of(scene, "/readyz") != status:
        assert time.monotonic() < deadline, f"/readyz never becomes {status}"
        time.sleep(0.05)


LEFT = {
    "job": "SELECT id, schema, schema_version, hidden, description FROM job WHERE name = '{job}'",
    "schema": "SELECT s.version, s.schema FROM job_schema s JOIN job j ON j.seq = s.job_seq"
    " WHERE j.name = '{job}' ORDER BY s.version",
    "worker": "SELECT id, identity, kind, state, name FROM worker WHERE identity = '{who}'"
    " ORDER BY created_at",
    "link": "SELECT l.worker_id FROM worker_job_link l JOIN job j ON j.seq = l.job_seq"
    " WHERE j.name = '{job}' ORDER BY l.worker_id",
    "task": "SELECT t.id, t.status, t.ready, t.turn, t.worker_id, t.attempt, t.starts,"
    " t.idle_claims, t.max_attempts, t.progress, t.message, t.error, t.result, t.payload,"
    " t.idempotency_key FROM task t JOIN job j ON j.seq = t.job_seq WHERE j.name = '{job}'"
    " ORDER BY t.seq",
    "notice": "SELECT n.worker_id, n.task_id FROM notice n JOIN task t ON t.id = n.task_id"
    " JOIN job j ON j.seq = t.job_seq WHERE j.name = '{job}' ORDER BY t.seq",
}


def left_by(scene, place):
    """What the trial has left in the store, without what differs from trial to trial."""
    said = {
        table: place.read(query.format(job=scene.job, who=scene.who))
        for table, query in LEFT.items()
    }
    return scene.common(repr(said))
