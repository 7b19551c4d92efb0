"""What is put on the queue: a job, with all that it needs to be run."""

from __future__ import annotations

import inspect
import json
import re
import sys
from collections.abc import Mapping
from operator import attrgetter
from typing import Annotated, Any, Literal, NoReturn
from uuid import UUID, uuid4

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
)
from pydantic_core import PydanticSerializationError

LONGEST_PATH = 255
_PATH = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)+")


def _as_text(given: object) -> object:
    return str(given) if isinstance(given, UUID) else given


def _as_path(given: object) -> object:
    return _path_of(given) if callable(given) else given


def _path_of(function: Any) -> str:
    """The dotted path by which other processes find a function; they must find this very one."""
    name = getattr(function, "__qualname__", None)
    module = getattr(function, "__module__", None)
    if inspect.ismethod(function):
        _refuse(f"The method {name} belongs to an object, which the queue does not keep")
    if not isinstance(name, str) or not isinstance(module, str):
        _refuse(f"An object of type {type(function).__name__} has no name to be found by")
    if "<lambda>" in name:
        _refuse("A lambda has no name to be found by")
    if "<locals>" in name:
        _refuse(f"The function {name} exists only inside another one")
    try:
        found = attrgetter(name)(sys.modules[module])
    except (AttributeError, KeyError):
        found = None
    if found is not function:
        _refuse(f"What other processes would find as {module}.{name} is not what was given")
    return f"{module}.{name}"


def _refuse(why: str) -> NoReturn:
    raise ValueError(f"{why}; give a function that stands in a module, or its dotted path.")


def _checked_path(path: str) -> str:
    if len(path) > LONGEST_PATH:
        raise ValueError(f"The path of a function has at most {LONGEST_PATH} characters.")
    if not _PATH.fullmatch(path):
        raise ValueError(f"{path!r} is no dotted path of a function, such as package.module.name.")
    return path


def _checked_text(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{text!r} holds half a character, which no file can.") from None
    return text


JobId = Annotated[
    str,
    # In this order the length is checked by the schema of a text itself, and by no function.
    StringConstraints(min_length=1),
    BeforeValidator(_as_text),
    AfterValidator(_checked_text),
]


class JobWithContext(BaseModel):
    """A job: a function by its path, what it is called with, and what it waits for.

    Immutable; ``job.model_copy(update={…})`` makes another. A function may be given itself, and is
    kept as its dotted path: ``pkgutil.resolve_name(job.function)`` finds it again.

    >>> from jobroom.testing import do_nothing
    >>> job = JobWithContext(job_id="relax", function=do_nothing, parameters={"steps": 100})
    >>> job.function
    'jobroom.testing.do_nothing'
    >>> JobWithContext(function=lambda parameters, submit: True, parameters={})
    Traceback (most recent call last):
    ...
    pydantic_core._pydantic_core.ValidationError: 1 validation error for JobWithContext
    function
      Value error, A lambda has no name to be found by; give a function that stands in a module, \
or its dotted path. [type=value_error, ...
    """

    model_config = ConfigDict(frozen=True, ser_json_inf_nan="constants")

    job_id: JobId = Field(default_factory=lambda: str(uuid4()))
    """Its name in the queue: any text, of which a UUID is the id over REST too."""
    depends_on: set[JobId] | None = None
    """The jobs that it waits for; they may be added later."""
    parameters: Mapping[str, Any]
    """What the function is called with: what can be written as JSON."""
    strict: bool = False
    """Kept for whoever runs the job, as are ``name``, ``virtual`` and ``variables``."""
    name: str | None = None
    function: Annotated[str, BeforeValidator(_as_path), AfterValidator(_checked_path)]
    num_attempted_runs: int = Field(default=0, ge=0)
    """How often it was run and is to be run again; its runner counts."""
    timeout_seconds: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    max_retries: int = Field(default=0, ge=0)
    dependency_type: Literal["afterok", "afterany", "afternotok"] = "afterok"
    """How what it waits for must have ended: well, in any way, or badly."""
    virtual: Literal[False] = False
    variables: Mapping[str, Any] | None = None


def written(job: JobWithContext) -> str:
    """A job as JSON; raises ValueError for what JSON cannot hold: it would come back changed."""
    try:
        text = job.model_dump_json()
    except PydanticSerializationError as error:
        raise ValueError(f"The job {job.job_id} cannot be written as JSON: {error}.") from error
    if "NaN" in text or "Infinity" in text:
        _check_numbers(job.job_id, text)
    return text


def _check_numbers(job_id: str, text: str) -> None:
    def refuse(token: str) -> NoReturn:
        raise ValueError(f"The job {job_id} holds {token}, which JSON cannot; write None, say.")

    json.loads(text, parse_constant=refuse)
