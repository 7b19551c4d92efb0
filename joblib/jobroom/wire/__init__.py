"""The bodies of requests and answers, as the contract spells them; server and SDK share them."""

from __future__ import annotations

from jobroom.wire.answers import (
    Answer,
    ClaimBody,
    FieldFault,
    HealthBody,
    HeartbeatBody,
    JobBody,
    JobPage,
    JobSummary,
    Me,
    PageBody,
    Problem,
    RetryPlan,
    SweepBody,
    TaskBody,
    TaskPage,
    TaskReport,
    WorkerBody,
    WorkerPage,
)
from jobroom.wire.requests import (
    ClaimTasks,
    CreateWorker,
    RegisterJob,
    Request,
    SubmitTask,
    UpdateTask,
)
from jobroom.wire.validation import validate

__all__ = [
    "Answer",
    "ClaimBody",
    "ClaimTasks",
    "CreateWorker",
    "FieldFault",
    "HealthBody",
    "HeartbeatBody",
    "JobBody",
    "JobPage",
    "JobSummary",
    "Me",
    "PageBody",
    "Problem",
    "RegisterJob",
    "Request",
    "RetryPlan",
    "SubmitTask",
    "SweepBody",
    "TaskBody",
    "TaskPage",
    "TaskReport",
    "UpdateTask",
    "WorkerBody",
    "WorkerPage",
    "validate",
]
