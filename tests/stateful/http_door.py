"""The REST door: the machine's words as requests to the application, with a token per caller."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

import httpx
from doors import (
    MANY,
    MICROSECONDS,
    ROOT,
    SCHEMAS,
    Accepted,
    DoorError,
    Filters,
    Joined,
    Listed,
    settings_for,
    stored_tasks,
)
from model import Order, Policy, Word
from pydantic import SecretStr

from jobroom.bootstrap import create_app
from jobroom.domain.records import Caller
from jobroom.domain.timetext import format_time
from jobroom.service.queue import JobQueue
from jobroom.tokens import issue_token

SECRET = "a secret of the tests, long enough for HS256"
PREFIX = "/v1/joblib"
SHOWN = (
    "id",
    "job_name",
    "room_id",
    "status",
    "worker_id",
    "error",
    "payload",
    "queue_position",
    "created_by_id",
    "attempt",
    "starts",
    "max_attempts",
    "priority",
    "progress",
    "message",
    "result",
    "schema_version",
    "key",
    "failed_by",
    "depends_on",
)
WAITED_FOR = ("id", "condition", "status")


class HttpDoor:
    """The application in this process; what it answers is read as any client would."""

    def __init__(self, database_url: str) -> None:
        secret = {"jwt_secret": SecretStr(SECRET)}
        self._settings = settings_for(database_url).model_copy(update=secret)
        self._tokens: dict[Caller, str] = {}
        self._runner = asyncio.Runner()
        self._open(0)

    def _open(self, clock_offset: int) -> None:
        self.queue = JobQueue.open(self._settings, clock_offset=clock_offset)
        app = create_app(self._settings, queue=self.queue)
        self._client = httpx.AsyncClient(
            transport=httpx.ASGITransport(app), base_url=f"http://test{PREFIX}"
        )

    def advance(self, seconds: int) -> None:
        """Shift the clock."""
        self.queue.clock_offset += seconds * MICROSECONDS

    def restart(self) -> None:
        """A new application on the same store, at the same time."""
        offset = self.queue.clock_offset
        self._shut()
        self._open(offset)

    def _shut(self) -> None:
        self._runner.run(self._client.aclose())
        self.queue.close()

    def close(self) -> None:
        """Close the application and the loop."""
        self._shut()
        self._runner.close()

    def _ask(
        self, caller: Caller, method: str, path: str, body: Any = None, **more: Any
    ) -> httpx.Response:
        headers = {"Authorization": f"Bearer {self._token(caller)}", **more.pop("headers", {})}
        answer = self._runner.run(
            self._client.request(method, path, json=body, headers=headers, **more)
        )
        if answer.is_error:
            problem = answer.json()
            raise DoorError(problem["type"].rpartition("/")[2], problem["detail"])
        return answer

    def _token(self, caller: Caller) -> str:
        if caller not in self._tokens:
            self._tokens[caller] = issue_token(
                SECRET, sub=caller.identity, is_admin=caller.is_admin, rooms=caller.rooms
            )
        return self._tokens[caller]

    def register(
        self,
        caller: Caller,
        room: str,
        name: str,
        *,
        schema: str,
        policy: Policy,
        worker_id: str | None,
        replace: bool,
    ) -> Joined:
        """PUT the job."""
        body = {
            "category": "modifiers",
            "name": name,
            "schema": json.loads(SCHEMAS[schema]),
            "order": policy.order,
            "on_worker_lost": policy.on_worker_lost,
            "max_attempts": policy.max_attempts,
            "retry_delay_seconds": policy.retry_delay,
            "timeout_seconds": policy.timeout,
            "claim_timeout_seconds": policy.claim_timeout,
            "result_ttl_seconds": policy.result_ttl,
            "worker_id": worker_id,
            "replace": replace,
        }
        answer = self._ask(caller, "PUT", f"/rooms/{room}/jobs", body)
        job = answer.json()
        return Joined(answer.status_code == httpx.codes.CREATED, job["worker_id"], job["workers"])

    def create_worker(self, caller: Caller) -> str:
        """POST a worker."""
        return str(self._ask(caller, "POST", "/workers").json()["id"])

    def heartbeat(self, caller: Caller, worker_id: str) -> list[str]:
        """PATCH the worker."""
        cancel: list[str] = self._ask(caller, "PATCH", f"/workers/{worker_id}").json()["cancel"]
        return cancel

    def delete_worker(self, caller: Caller, worker_id: str) -> None:
        """DELETE the worker."""
        self._ask(caller, "DELETE", f"/workers/{worker_id}")

    def submit(self, caller: Caller, room: str, job: str, order: Order) -> Accepted:
        """POST the task."""
        body = self._body(order)
        headers = {} if order.key is None else {"Idempotency-Key": order.key}
        path = f"/rooms/{room}/tasks/{quote(job, safe='')}"
        answer = self._ask(caller, "POST", path, body, headers=headers)
        replayed = answer.headers.get("Idempotency-Replayed") == "true"
        task = _task(answer.json())
        assert answer.headers["Location"] == f"{PREFIX}/tasks/{task['id']}"
        return Accepted(task, replayed)

    def _body(self, order: Order) -> dict[str, Any]:
        body: dict[str, Any] = {
            "payload": dict(order.payload),
            "priority": order.priority,
            "max_attempts": order.max_attempts,
            "timeout_seconds": order.timeout,
            "id": order.id,
            "depends_on": [{"id": each, "condition": how} for each, how in order.depends_on],
            "parent": order.parent,
        }
        now = self.queue.run(lambda tx: tx.now)
        for name, span in (("run_at", order.run_in), ("expires_at", order.expires_in)):
            if span is not None:
                body[name] = format_time(now + span * MICROSECONDS)
        return body

    def submit_many(
        self, caller: Caller, room: str, wanted: Sequence[tuple[str, Order]], key: str | None
    ) -> tuple[list[dict[str, Any]], bool]:
        """POST them in one body; the plain word for a dependency where the condition is usual."""
        tasks = []
        for job, order in wanted:
            body = self._body(order)
            body["depends_on"] = [
                each["id"] if each["condition"] == "afterok" else each
                for each in body["depends_on"]
            ]
            tasks.append({**body, "job": job, "key": order.label})
        headers = {} if key is None else {"Idempotency-Key": key}
        path = f"/rooms/{room}/tasks"
        answer = self._ask(caller, "POST", path, {"tasks": tasks}, headers=headers)
        replayed = answer.headers.get("Idempotency-Replayed") == "true"
        return [_task(task) for task in answer.json()["items"]], replayed

    def claim(
        self,
        caller: Caller,
        worker_id: str | None,
        *,
        limit: int,
        start: bool,
        request_id: str | None,
    ) -> list[dict[str, Any]]:
        """POST the claim."""
        body = {"worker_id": worker_id, "limit": limit, "start": start, "request_id": request_id}
        got = self._ask(caller, "POST", "/tasks/claim", body).json()
        assert got["task"] == (got["tasks"][0] if got["tasks"] else None)
        return [_task(task) for task in got["tasks"]]

    def report(self, caller: Caller, task_id: str, word: Word) -> dict[str, Any]:
        """PATCH the task; what is not said is not sent."""
        said = {name: value for name, value in dataclasses.asdict(word).items() if value}
        return _task(self._ask(caller, "PATCH", f"/tasks/{task_id}", said).json())

    def retry(self, caller: Caller, task_id: str) -> dict[str, Any]:
        """POST the retry."""
        return _task(self._ask(caller, "POST", f"/tasks/{task_id}/retry").json())

    def would_change(self, caller: Caller, task_id: str) -> tuple[list[str], int]:
        """POST the retry as a dry run."""
        path = f"/tasks/{task_id}/retry?dry_run=true"
        plan = self._ask(caller, "POST", path).json()
        return plan["tasks"], plan["hidden"]

    def task(self, caller: Caller, task_id: str) -> dict[str, Any]:
        """GET the task."""
        return _task(self._ask(caller, "GET", f"/tasks/{task_id}").json())

    def tasks(self, caller: Caller, asked: Filters, *, limit: int, cursor: Any) -> Listed:
        """GET a page; the cursor carries the filters."""
        params: dict[str, Any] = {"limit": limit}
        if cursor is not None:
            params["cursor"] = cursor
        else:
            params.update(job=asked.job, created_by_id=asked.created_by_id)
            params["status"] = list(asked.statuses)
        sent = {name: value for name, value in params.items() if value not in (None, [])}
        page = self._ask(caller, "GET", f"/rooms/{asked.room}/tasks", params=sent).json()
        return Listed([_task(task) for task in page["items"]], page["total"], page["next_cursor"])

    def workers_of(self, caller: Caller, room: str, job: str) -> list[str]:
        """GET the job."""
        workers: list[str] = self._ask(caller, "GET", f"/rooms/{room}/jobs/{job}").json()["workers"]
        return workers

    def jobs(self, caller: Caller, room: str) -> dict[str, list[str]]:
        """GET the jobs."""
        page = self._ask(caller, "GET", f"/rooms/{room}/jobs", params={"limit": MANY}).json()
        assert page["total"] == len(page["items"])
        return {job["full_name"]: job["workers"] for job in page["items"]}

    def workers(self, caller: Caller) -> dict[str, tuple[bool, int, int]]:
        """GET the workers."""
        page = self._ask(caller, "GET", "/workers", params={"limit": MANY}).json()
        assert page["total"] == len(page["items"])
        return {
            worker["id"]: (worker["alive"], worker["job_count"], worker["running_tasks"])
            for worker in page["items"]
        }

    def sweep(self) -> dict[str, int | bool]:
        """POST the sweep."""
        counts: dict[str, int | bool] = self._ask(ROOT, "POST", "/sweep").json()
        return counts

    def stored(self) -> dict[str, dict[str, Any]]:
        """Read the table."""
        return stored_tasks(self.queue)


def _task(document: dict[str, Any]) -> dict[str, Any]:
    waiting = [{name: each[name] for name in WAITED_FOR} for each in document["waiting_on"]]
    return {**{name: document[name] for name in SHOWN}, "waiting_on": waiting}
