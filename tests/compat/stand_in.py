"""Modules that stand for pyantz's on a Python that it does not run on: its types, and no more."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Mapping
from enum import IntEnum
from types import ModuleType
from typing import Annotated, Any, Literal, Protocol
from uuid import UUID, uuid4

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer


def serialize_function(function: Callable[..., Any]) -> str:
    """The dotted path of a function."""
    return f"{function.__module__}.{function.__qualname__}"


def _imported(given: Any) -> Any:
    return pkgutil.resolve_name(given) if isinstance(given, str) else given


class JobWithContext(BaseModel):
    """As pyantz's, a config holds the function itself, and is read by importing it."""

    model_config = ConfigDict(frozen=True)
    job_id: str = Field(default_factory=lambda: str(uuid4()))
    depends_on: set[str] | None = None
    parameters: Mapping[str, Any]
    function: Annotated[
        Callable[..., Any], BeforeValidator(_imported), PlainSerializer(serialize_function)
    ]
    num_attempted_runs: int = 0
    timeout_seconds: float | None = None
    max_retries: int = 0
    dependency_type: Literal["afterok", "afterany", "afternotok"] = "afterok"


class QueueInterface(Protocol):
    """The methods do not matter to who inherits."""


class JobStatus(IntEnum):
    """pyantz's numbers."""

    READY = 0
    PENDING = 1
    RUNNING = 2
    ERROR = 3
    SUCCESS = 4


class JobStatusReport(BaseModel):
    job_id: str | UUID
    status: JobStatus
    status_details: str | None = None


class JobsReport(BaseModel):
    total: int
    success: int
    error: int
    pending: int
    ready: int
    running: int


class PendingReturn(BaseModel):
    type_: Literal["pending"] = "pending"
    jobs_report: JobsReport


class CompleteReturn(BaseModel):
    type_: Literal["complete"] = "complete"
    jobs_report: JobsReport


class JobReturn(BaseModel):
    type_: Literal["job"] = "job"
    job: JobWithContext


class GetJobReturn(BaseModel):
    payload: JobReturn | CompleteReturn | PendingReturn = Field(discriminator="type_")


RETURNS = (
    CompleteReturn, GetJobReturn, JobReturn, JobsReport, JobStatus, JobStatusReport, PendingReturn,
)  # fmt: skip


def modules() -> dict[str, ModuleType]:
    """By their names, as far as our class imports them."""
    infrastructure = "pyantz.infrastructure"
    queue = f"{infrastructure}.distributed_queue"
    parts: dict[str, tuple[Any, ...]] = {
        "pyantz": (),
        infrastructure: (),
        f"{infrastructure}.config": (),
        f"{infrastructure}.config.fn_utils": (serialize_function,),
        f"{infrastructure}.config.job": (JobWithContext,),
        queue: (),
        f"{queue}.common": (),
        f"{queue}.common.interface": (QueueInterface,),
        f"{queue}.common.return_types": RETURNS,
    }
    made = {name: ModuleType(name) for name in parts}
    for name, contents in parts.items():
        for each in contents:
            setattr(made[name], each.__name__, each)
    return made
