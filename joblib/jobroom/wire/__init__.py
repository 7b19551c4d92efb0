"""The bodies of requests and answers, as the contract spells them; server and SDK share them.

A name is looked up when it is first used: a server reads no answers, so it makes no models of them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jobroom.wire.answers import (
        Answer,
        BulkBody,
        ClaimBody,
        FieldFault,
        GraphEdge,
        GraphNode,
        GraphProgress,
        HealthBody,
        HeartbeatBody,
        HeartbeatReply,
        JobBody,
        JobPage,
        JobStats,
        JobSummary,
        Me,
        NewWorkerBody,
        PageBody,
        Problem,
        RetryBody,
        RetryPlan,
        RoomBody,
        RoomPage,
        RoomStats,
        ScheduleBody,
        SchedulePage,
        ScheduleShown,
        StatusCounts,
        SweepBody,
        TaskBody,
        TaskGraph,
        TaskLog,
        TaskPage,
        TaskReport,
        TaskWhy,
        WaitedFor,
        WorkerBody,
        WorkerPage,
    )
    from jobroom.wire.requests import (
        BulkTask,
        ClaimTasks,
        CreateWorker,
        Dependency,
        DependencyInBulk,
        PutSchedule,
        RegisterJob,
        Request,
        SubmitTask,
        SubmitTasks,
        TaskFields,
        UpdateTask,
    )
    from jobroom.wire.validation import validate

__all__ = [
    "Answer",
    "BulkBody",
    "BulkTask",
    "ClaimBody",
    "ClaimTasks",
    "CreateWorker",
    "Dependency",
    "DependencyInBulk",
    "FieldFault",
    "GraphEdge",
    "GraphNode",
    "GraphProgress",
    "HealthBody",
    "HeartbeatBody",
    "HeartbeatReply",
    "JobBody",
    "JobPage",
    "JobStats",
    "JobSummary",
    "Me",
    "NewWorkerBody",
    "PageBody",
    "Problem",
    "PutSchedule",
    "RegisterJob",
    "Request",
    "RetryBody",
    "RetryPlan",
    "RoomBody",
    "RoomPage",
    "RoomStats",
    "ScheduleBody",
    "SchedulePage",
    "ScheduleShown",
    "StatusCounts",
    "SubmitTask",
    "SubmitTasks",
    "SweepBody",
    "TaskBody",
    "TaskFields",
    "TaskGraph",
    "TaskLog",
    "TaskPage",
    "TaskReport",
    "TaskWhy",
    "UpdateTask",
    "WaitedFor",
    "WorkerBody",
    "WorkerPage",
    "validate",
]

_HOMES = ("validation", "requests", "answers")
"""In the order in which a server asks for them."""


def __getattr__(name: str) -> object:
    if name in __all__:
        for home in _HOMES:
            value: object = getattr(import_module(f"{__name__}.{home}"), name, None)
            if value is not None:
                globals()[name] = value
                return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)
