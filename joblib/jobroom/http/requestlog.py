"""One line of log for each request: who asked for what, and what became of it; never how.

It holds names and numbers alone: the route's template, ids as the store gave them, the identity
of a verified token. No address, query, header, payload, result or message is ever in it.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any

import orjson

from jobroom.domain.records import Task, TaskView, WorkerView
from jobroom.http.problems import MEDIA_TYPE
from jobroom.http.traffic import REQUEST_ID
from jobroom.service.bulk import SubmittedTasks
from jobroom.service.claiming import claim_tasks
from jobroom.service.reporting import Reported
from jobroom.service.submission import Submitted

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterator, Mapping

    from jobroom.http.exchange import Call, Reply
    from jobroom.service.use_case import UseCase

log = logging.getLogger("jobroom")

MOST_IDS = 20
"""So many tasks of a request are named; of more there is the number."""
MOST_DECIMALS = 3
_PROBLEM = (b"content-type", MEDIA_TYPE.encode())


class Noted:
    """What a request did, as its use cases tell: for the line at its end."""

    __slots__ = ("task_ids", "worker_id")

    def __init__(self) -> None:
        self.task_ids: dict[str, None] = {}
        self.worker_id: str | None = None

    def watch(
        self, use_case: UseCase[Any, Any], said: Mapping[str, Any], future: asyncio.Future[Any]
    ) -> None:
        """Note what comes of a use case; of a refused one only the task that it was about."""

        def done(settled: asyncio.Future[Any]) -> None:
            task_id = said.get("task_id")
            if task_id is not None:
                self.task_ids[task_id] = None
            if settled.cancelled() or settled.exception() is not None:
                return
            result = settled.result()
            # What a reader is shown of a task is not what the reader did.
            holds = isinstance(result, Reported) or use_case is claim_tasks
            for task in _tasks(result):
                self.task_ids[task.id] = None
                if holds and task.worker_id is not None:
                    self.worker_id = task.worker_id
            if isinstance(result, WorkerView):
                self.worker_id = result.worker.id
            elif self.worker_id is None:
                self.worker_id = said.get("worker_id")

        future.add_done_callback(done)


def _tasks(result: object) -> Iterator[Task]:
    if isinstance(result, TaskView):
        yield result.task
    elif isinstance(result, Submitted):
        yield result.view.task
    elif isinstance(result, Reported):
        yield result.view.task
        if result.next_task is not None:
            yield result.next_task.task
    elif isinstance(result, SubmittedTasks):
        yield from (view.task for view in result.views)
    elif isinstance(result, list):
        yield from (view.task for view in result if isinstance(view, TaskView))


def write(
    call: Call, asked: Mapping[str, Any], answer: Reply | None, *, begun: float, has_waited: bool
) -> None:
    """Write the line of a request; ``answer`` None: the client had gone."""
    noted = call.noted or Noted()
    seconds = time.monotonic() - begun
    told: dict[str, Any] = {
        **asked,
        "duration_ms": round(seconds * 1000, MOST_DECIMALS),
        "bytes": 0 if answer is None else len(answer.body),
        "request_id": call.scope[REQUEST_ID],
    }
    if call.caller.identity:
        told["sub"] = call.caller.identity
    if noted.worker_id is not None:
        told["worker_id"] = noted.worker_id
    if noted.task_ids:
        told["task_ids"] = list(noted.task_ids)[:MOST_IDS]
    if len(noted.task_ids) > MOST_IDS:
        told["tasks"] = len(noted.task_ids)
    if has_waited:
        told["waited_seconds"] = round(seconds, MOST_DECIMALS)
    if answer is not None and _PROBLEM in answer.headers:
        told["problem"] = _slug(answer.body)
    message = "http.request " + " ".join(f"{name}=%s" for name in told)
    log.info(message, *told.values())


def _slug(body: bytes) -> str:
    """The kind of a problem: the end of its ``type``."""
    kind: str = orjson.loads(body)["type"]
    return kind.rpartition("/")[2]
