"""The fake server with what clients ask beyond workers: waits, lists, bulk, results, logs."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from fake_server import TERMINAL, FakeServer, Problem, Seen

JOB = "r1:modifiers:Rotate"
LARGEST_IN_ANSWERS = 1000
"""From how many characters on a result is left out of an answer."""


@dataclass
class Log:
    """The log of one attempt."""

    text: str = ""
    ended: bool = False


@dataclass
class FakeQueue(FakeServer):
    """Tasks end when a test says so, or at once by ``work``."""

    most_tasks: int = 1000
    holds_waits: bool = True
    work: Any = None
    logs: dict[str, list[Log]] = field(default_factory=dict)
    schedules: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        FakeServer.__init__(self)
        self.jobs[JOB] = {"full_name": JOB, "schema": {}}

    # What tests do

    def end(self, task_id: str, status: str = "completed", **more: Any) -> None:
        """Bring a task to its end, or wherever it is to be."""
        with self.changed:
            task = self.tasks[task_id]
            task |= {"status": status, "version": task.get("version", 0) + 1, **more}
            self.changed.notify_all()

    def write(self, task_id: str, text: str = "", *, attempt: int = 1, ended: bool = False) -> None:
        """Append to the log of an attempt."""
        with self.changed:
            logs = self.logs.setdefault(task_id, [])
            while len(logs) < attempt:
                logs.append(Log())
            logs[attempt - 1].text += text
            logs[attempt - 1].ended = ended
            self.changed.notify_all()

    # The contract

    def answer(self, seen: Seen) -> tuple[Any, ...]:  # noqa: C901, PLR0911  # routes
        parts = urlsplit(seen.path)
        segments = [unquote(part) for part in parts.path.split("/")[3:]]
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        token = seen.headers.get("authorization", "").removeprefix("Bearer ")
        if not token or token in self.refused_tokens:
            raise Problem(401, "unauthorized", "The token has expired.")
        match (seen.method, *segments):
            case ("GET", "tasks", task_id):
                return self._show(task_id, seen)
            case ("GET", "tasks", task_id, "result"):
                return 200, self._task(task_id)["result"]
            case ("GET", "tasks", task_id, "log"):
                return 200, self._log(task_id, query, seen)
            case ("PATCH", "tasks", task_id) if seen.body == {"status": "cancelled"}:
                if self._task(task_id)["status"] in TERMINAL - {"cancelled"}:
                    raise Problem(409, "invalid-task-transition", "It has ended.")
                self.end(task_id, "cancelled")
                return 200, self._task(task_id)
            case ("POST", "rooms", room, "tasks"):
                return 202, self._submit_all(room, seen)
            case ("GET", "rooms", room, "tasks"):
                found = [task for task in self._ended(query) if task["room_id"] == room]
                return 200, page(found, query)
            case ("GET", "rooms", _room, "schedules"):
                return 200, page(list(self.schedules.values()), query)
            case ("PUT", "rooms", _room, "schedules"):
                self.schedules[seen.body["name"]] = seen.body
                return 200, seen.body
            case ("DELETE", "rooms", _room, "schedules", name):
                del self.schedules[name]
                return 204, None
        return super().answer(seen)

    def _submit(self, room: str, name: str, body: Any, seen: Seen) -> dict[str, Any]:
        return self._worked_on(super()._submit(room, name, body, seen))

    def _worked_on(self, task: dict[str, Any]) -> dict[str, Any]:
        task.setdefault("created_by_id", "me")
        if self.work is not None and task["status"] == "pending":
            self.end(task["id"], **self.work(task["payload"]))
        return task

    def _submit_all(self, room: str, seen: Seen) -> dict[str, Any]:
        key = (seen.path, seen.headers["idempotency-key"])
        asked = seen.body["tasks"]
        if len(asked) > self.most_tasks:
            raise Problem(413, "payload-too-large", f"At most {self.most_tasks} tasks.")
        for n, one in enumerate(asked):
            if one["job"] not in self.jobs:
                raise Problem(404, "job-not-found", f"No {one['job']}.")
            if one["payload"].get("bad"):
                faults = [{"pointer": f"/tasks/{n}/payload/bad", "message": "it is bad"}]
                raise Problem(422, "payload-invalid", f"Task {n} is bad.", errors=faults)
        if key not in self.replays:
            made = [self.add_task(one["job"], one["payload"], room_id=room) for one in asked]
            self.replays[key] = {"items": [self._worked_on(task) for task in made]}
        return self.replays[key]

    def _ended(self, query: dict[str, str]) -> list[dict[str, Any]]:
        found = list(self.tasks.values())
        if "status" in query:
            found = [task for task in found if task["status"] in query["status"].split(",")]
        return found[::-1]

    def _show(self, task_id: str, seen: Seen) -> tuple[Any, ...]:
        known = seen.headers.get("if-none-match")
        self._wait(seen, lambda: self._is_news(task_id, known))
        task = self._task(task_id)
        tag = {"ETag": f'W/"{task.get("version", 0)}"'}
        if known == tag["ETag"]:
            return 304, None, tag
        if len(str(task["result"])) > LARGEST_IN_ANSWERS:
            task = {**task, "result": None, "result_bytes": len(str(task["result"]))}
        return 200, task, tag

    def _is_news(self, task_id: str, known: str | None) -> bool:
        task = self._task(task_id)
        changed = known is not None and known != f'W/"{task.get("version", 0)}"'
        return task["status"] in TERMINAL or changed

    def _wait(self, seen: Seen, question: Any) -> None:
        wait = float(seen.headers.get("prefer", "wait=0").removeprefix("wait="))
        give_up_at = time.monotonic() + (wait if self.holds_waits else 0.0)
        while not question() and self.holds_waits and not self.away:
            if (left := give_up_at - time.monotonic()) <= 0:
                return
            self.changed.wait(left)

    def _log(self, task_id: str, query: dict[str, str], seen: Seen) -> dict[str, Any]:
        offset = int(query["offset"])

        def found() -> tuple[int, Log]:
            logs = self.logs.get(task_id, [])
            number = int(query.get("attempt", len(logs)))
            return number, logs[number - 1] if number else Log()

        self._wait(seen, lambda: found()[1].ended or len(found()[1].text) > offset)
        number, log = found()
        text = log.text[offset : offset + 100]
        return {
            "attempt": number,
            "offset": offset,
            "text": text,
            "next_offset": offset + len(text),
            "ended": log.ended and offset + len(text) == len(log.text),
        }

    def calm(self) -> None:
        self.holds_waits = False
        super().calm()


def page(found: list[Any], query: dict[str, str]) -> dict[str, Any]:
    """One page of a list, as the contract has it."""
    limit, begin = int(query.get("limit", 50)), int(query.get("cursor", 0))
    items = found[begin : begin + limit]
    more = str(begin + limit) if len(found) > begin + limit else None
    return {"items": items, "total": len(found), "limit": limit, "next_cursor": more}
