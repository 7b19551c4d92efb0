"""One task's run, in whatever thread or process: from its payload to its outcome."""

from __future__ import annotations

import asyncio
from typing import Any

from pydantic import BaseModel

from jobroom.client import failure, result, work
from jobroom.client.problems import NotJson
from jobroom.client.task import ClaimedTask
from jobroom.client.work import RunAsync
from jobroom.worker.runner import Outcome, TaskCancelled, TaskStopped, Tell


def perform(
    task: ClaimedTask,
    cls: type[BaseModel] | None,
    tell: Tell,
    *,
    vis: Any = None,
    run_async: RunAsync = asyncio.run,
) -> Outcome:
    """Run the task's class on its payload; never raises, whatever the task's code does."""
    try:
        with task.speaking(tell):
            extension = work.build(cls, task.payload, job_name=task.job_name)
            returned = work.carry_out(extension, vis, run_async=run_async)
            return Outcome("completed", result=result.plain(returned))
    except NotJson as refusal:
        return Outcome("failed", error=f"the result is not JSON: {refusal}", final=True)
    except BaseException as raised:  # noqa: BLE001  # sys.exit() ends the task, not the worker
        return _ended_by(raised)


def _ended_by(raised: BaseException) -> Outcome:
    if isinstance(raised, TaskCancelled):
        return Outcome("cancelled")
    if isinstance(raised, TaskStopped):
        return Outcome("handed_back")
    if isinstance(raised, work.Refused):
        return Outcome("failed", error=str(raised), final=True)
    return Outcome("failed", error=failure.text_of(raised))
