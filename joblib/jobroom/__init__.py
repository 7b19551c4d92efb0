"""A job queue for Python workers; the names below are looked up when they are first used.

``import jobroom`` needs nothing but the base install. A name whose parts come with an extra
says which one: ``ImportError: jobroom.create_app needs starlette, ... "jobroom[server]"``.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jobroom import errors
    from jobroom.bootstrap import create_app
    from jobroom.client.async_client import AsyncClient
    from jobroom.client.connection import ApiManager, Connection
    from jobroom.client.extension import Category, Extension
    from jobroom.client.handle import AsyncTaskHandle, TaskHandle
    from jobroom.client.manager import JobManager
    from jobroom.client.outcome import (
        ResultMismatch,
        TaskFailed,
        TaskNotCompleted,
        TaskWasCancelled,
    )
    from jobroom.client.plan import Plan, when
    from jobroom.client.stream import TaskStream
    from jobroom.client.sweeper import run_cleanup_sweeper
    from jobroom.client.sync_client import Client
    from jobroom.client.task import ClaimedTask, current_task
    from jobroom.client.watching import Progress
    from jobroom.domain.lifecycle import TaskStatus
    from jobroom.domain.records import Job, Task, Worker, WorkerJobLink
    from jobroom.http.problems import ProblemException, ProblemType, problem_exception_handler
    from jobroom.service.queue import JobQueue
    from jobroom.settings import JobLibSettings
    from jobroom.store.schema import metadata
    from jobroom.worker.functions import job
    from jobroom.worker.runner import TaskCancelled

__version__ = "0.1.0"

__all__ = [
    "ApiManager",
    "AsyncClient",
    "AsyncTaskHandle",
    "Category",
    "ClaimedTask",
    "Client",
    "Connection",
    "Extension",
    "Job",
    "JobLibSettings",
    "JobManager",
    "JobQueue",
    "Plan",
    "ProblemException",
    "ProblemType",
    "Progress",
    "ResultMismatch",
    "Task",
    "TaskCancelled",
    "TaskFailed",
    "TaskHandle",
    "TaskNotCompleted",
    "TaskStatus",
    "TaskStream",
    "TaskWasCancelled",
    "Worker",
    "WorkerJobLink",
    "__version__",
    "create_app",
    "current_task",
    "errors",
    "job",
    "metadata",
    "problem_exception_handler",
    "run_cleanup_sweeper",
    "when",
]

_HOMES = {
    "jobroom.bootstrap": ("create_app",),
    "jobroom.client.async_client": ("AsyncClient",),
    "jobroom.client.connection": ("ApiManager", "Connection"),
    "jobroom.client.extension": ("Category", "Extension"),
    "jobroom.client.handle": ("AsyncTaskHandle", "TaskHandle"),
    "jobroom.client.manager": ("JobManager",),
    "jobroom.client.outcome": (
        "ResultMismatch",
        "TaskFailed",
        "TaskNotCompleted",
        "TaskWasCancelled",
    ),
    "jobroom.client.plan": ("Plan", "when"),
    "jobroom.client.stream": ("TaskStream",),
    "jobroom.client.sweeper": ("run_cleanup_sweeper",),
    "jobroom.client.sync_client": ("Client",),
    "jobroom.client.task": ("ClaimedTask", "current_task"),
    "jobroom.client.watching": ("Progress",),
    "jobroom.domain.lifecycle": ("TaskStatus",),
    "jobroom.domain.records": ("Job", "Task", "Worker", "WorkerJobLink"),
    "jobroom.http.problems": ("ProblemException", "ProblemType", "problem_exception_handler"),
    "jobroom.service.queue": ("JobQueue",),
    "jobroom.settings": ("JobLibSettings",),
    "jobroom.store.schema": ("metadata",),
    "jobroom.worker.functions": ("job",),
    "jobroom.worker.runner": ("TaskCancelled",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}
_EXTRA_OF = {
    "jobroom.bootstrap": "server",
    "jobroom.http.problems": "server",
    "jobroom.service.queue": "queue",
    "jobroom.settings": "queue",
    "jobroom.store.schema": "queue",
}


def __getattr__(name: str) -> object:
    if name == "errors":
        return import_module("jobroom.errors")
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'jobroom' has no attribute {name!r}", name=name)
    value: object = getattr(_import_home(home, name), name)
    globals()[name] = value
    return value


def _import_home(home: str, name: str) -> object:
    try:
        return import_module(home)
    except ModuleNotFoundError as missing:
        extra = _EXTRA_OF.get(home)
        if extra is None or (missing.name or "jobroom").partition(".")[0] == "jobroom":
            raise
        raise ImportError(
            f"jobroom.{name} needs {missing.name}, which is not installed: "
            f'run  pip install "jobroom[{extra}]"',
            name=missing.name,
        ) from missing


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
