"""One task's run, in whatever thread or process: from its payload to its outcome."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sys
from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel

from jobroom.client import failure, result, work
from jobroom.client.problems import NotJson
from jobroom.client.task import ClaimedTask
from jobroom.client.work import RunAsync
from jobroom.worker.runner import Outcome, TaskCancelled, TaskStopped, Tell

log = logging.getLogger("jobroom.worker")


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
            with _ending_forks(task):
                returned = _carry_out(extension, vis, run_async)
            return Outcome("completed", result=result.plain(returned))
    except NotJson as refusal:
        return Outcome("failed", error=f"the result is not JSON: {refusal}", final=True)
    except BaseException as raised:  # noqa: BLE001  # sys.exit() ends the task, not the worker
        return _ended_by(raised)


def _carry_out(extension: BaseModel, vis: Any, run_async: RunAsync) -> Any:
    trace, profile = sys.gettrace(), sys.getprofile()
    try:
        return work.carry_out(extension, vis, run_async=run_async)
    finally:  # a debugger or a profiler that the task left on would go on to look at the worker
        sys.settrace(trace)
        sys.setprofile(profile)


@contextlib.contextmanager
def _ending_forks(task: ClaimedTask) -> Iterator[None]:
    """End in here a process that the task forked: what comes next is for the worker alone."""
    here, code = os.getpid(), 0
    try:
        yield
    except BaseException as raised:
        if os.getpid() == here:
            raise
        code = _code_of(raised, task)
    if os.getpid() != here:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):  # the task may have closed or replaced it
                stream.flush()
        os._exit(code)


def _code_of(raised: BaseException, task: ClaimedTask) -> int:
    """Return what a program ends with that raised it, and tell of what it did not mean."""
    if isinstance(raised, SystemExit) and isinstance(raised.code, int | None):
        return (raised.code or 0) & 0xFF
    error = failure.first_line(failure.text_of(raised))
    log.warning("fork.failed task=%s process=%s error=%r", task.id, os.getpid(), error)
    return 1


def _ended_by(raised: BaseException) -> Outcome:
    if isinstance(raised, TaskCancelled):
        return Outcome("cancelled")
    if isinstance(raised, TaskStopped):
        return Outcome("handed_back")
    if isinstance(raised, work.Refused):
        return Outcome("failed", error=str(raised), final=True)
    return Outcome("failed", error=failure.text_of(raised))
