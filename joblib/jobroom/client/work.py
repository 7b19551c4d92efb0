"""The work of a task: its payload as the registered class, and that class's ``run``."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Coroutine
from typing import Any

from pydantic import BaseModel, ValidationError

from jobroom.client import failure

RunAsync = Callable[[Coroutine[Any, Any, Any]], Any]


class Refused(Exception):
    """The task cannot be run here, and trying again would not help."""


def build(cls: type[BaseModel] | None, payload: dict[str, Any], *, job_name: str) -> BaseModel:
    """Return the payload as the job's class; raises ``Refused`` naming the fields at fault."""
    if cls is None:
        raise Refused(f"No class is registered for {job_name} in this worker.")
    try:
        return cls.model_validate(payload)
    except ValidationError as invalid:
        faults = failure.faults_of(invalid)
        raise Refused(f"The payload does not fit the class: {faults}") from None


def carry_out(
    extension: BaseModel, vis: Any, *, run_async: RunAsync = asyncio.run, **kwargs: Any
) -> Any:
    """Call ``run`` and return what it returned; an async one runs in an event loop of its own."""
    run = getattr(extension, "run", None)
    if not callable(run):
        name = type(extension).__name__
        raise Refused(f"The class {name} has no method run, so its tasks cannot be run.")
    result = run(vis, **kwargs)
    return run_async(result) if inspect.iscoroutine(result) else result
