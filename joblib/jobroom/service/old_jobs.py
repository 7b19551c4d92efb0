"""A job of pyantz's tables in our words: what its configuration says, and where it stands."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, NoReturn

from jobroom.domain import graph, jsontext, names
from jobroom.domain.graph import Condition, EdgeState, Need
from jobroom.domain.lifecycle import TaskStatus, is_terminal
from jobroom.service.local_reports import BY_CASCADE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jobroom.store.pyantz_file import OldJob

Running = Literal["requeue", "fail"]
"""What becomes of jobs that were running: nobody can tell whether their worker still lives."""

WAS_RUNNING = "it was running when its queue was imported, and its worker may be gone"
READY, PENDING, RUNNING, ERROR, SUCCESS = range(5)
_STATUSES = (READY, PENDING, RUNNING, ERROR, SUCCESS)
_NO_FUNCTION = "unknown"
_MOST_DETAILS_BYTES = 1024 * 1024
"""As much as the embedded queue keeps of what is said of a job."""


class Config(NamedTuple):
    """What the queue itself needs to know of a configuration; ``columns`` are those of its task."""

    function: str
    condition: str
    attempted: int
    columns: dict[str, Any]
    fault: str | None = None


def read_config(job: OldJob) -> Config:
    """Read a configuration; one that is none of a job's has a ``fault``."""
    if job.config is None:
        return _unreadable(str(job.fault))
    try:
        said = _DECODER.decode(job.config)
    except (ValueError, RecursionError):
        return _unreadable("its configuration is no JSON")
    function = said.get("function") if isinstance(said, dict) else None
    if not isinstance(function, str) or names.name_fault(function):
        return _unreadable("its configuration names no function")
    seconds = said.get("timeout_seconds")
    condition = said.get("dependency_type")
    return Config(
        function,
        condition if condition in list(Condition) else Condition.AFTEROK,
        _count(said.get("num_attempted_runs")),
        {
            "payload": job.config,
            "max_attempts": _count(said.get("max_retries")) + 1,
            "timeout_seconds": seconds if isinstance(seconds, int | float) else None,
        },
    )


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)


def _unreadable(fault: str) -> Config:
    columns = {"payload": "{}", "max_attempts": 1, "timeout_seconds": None}
    return Config(_NO_FUNCTION, Condition.AFTEROK, 0, columns, fault)


def _count(value: object) -> int:
    return min(value, 1_000_000) if isinstance(value, int) and value > 0 else 0


class Stand(NamedTuple):
    """Where a job stands in our queue; ``fault``: it could not be taken over as it was."""

    status: TaskStatus
    fault: str | None = None
    failed_by: str | None = None
    error: str | None = None
    has_run: bool = False

    def columns(self, job: OldJob) -> dict[str, Any]:
        """Those that tell it. What is said of a failure is its error."""
        says_more = job.details is not None and self.status != TaskStatus.FAILED
        return {
            "status": str(self.status),
            "failed_by": self.failed_by,
            "error": _kept(self.error),
            "message": _kept(job.details) if says_more else None,
            "worker_id": job.worker_id if is_terminal(self.status) else None,
        }


def _kept(text: str | None) -> str | None:
    if text is None:
        return None
    return jsontext.cut_text(jsontext.escape_nul(text), _MOST_DETAILS_BYTES)


def find_stand(job: OldJob, config: Config, needs: Sequence[Need], running: Running) -> Stand:
    """Where the job stands here, as far as what it depends on is known by now."""
    fault = config.fault
    if job.status not in _STATUSES:
        fault = f"its status {job.status} is none of pyantz's"
    if job.status == SUCCESS:
        return Stand(TaskStatus.COMPLETED, fault, has_run=True)
    if job.status == ERROR:
        return _failed(job, needs, fault)
    if fault:
        return Stand(TaskStatus.FAILED, fault, error=f"could not be imported: {fault}")
    if job.status == RUNNING and running == "fail":
        return Stand(TaskStatus.FAILED, error=WAS_RUNNING, has_run=True)
    begins = graph.begin(needs)
    return Stand(begins.status, failed_by=begins.failed_by, error=begins.error)


def _failed(job: OldJob, needs: Sequence[Need], fault: str | None) -> Stand:
    """One that failed because of another one is known by that: a retry brings both again."""
    is_cascade = job.details == BY_CASCADE
    cause = next((each for each in needs if each.state == EdgeState.BROKEN), None)
    if is_cascade and cause is not None:
        story = graph.why_failed(cause.dependency_id, cause.status)
        return Stand(TaskStatus.FAILED, fault, failed_by=cause.dependency_id, error=story)
    return Stand(TaskStatus.FAILED, fault, error=job.details, has_run=not is_cascade)
