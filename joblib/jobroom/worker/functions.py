"""Typed functions as jobs: ``@job`` makes the payload's model from a function's signature."""

from __future__ import annotations

import inspect
import math
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, TypeVar, Unpack, cast, get_args, get_type_hints, overload

from pydantic import BaseModel, ConfigDict, TypeAdapter, create_model
from pydantic.errors import PydanticUserError
from pydantic.fields import FieldInfo

from jobroom.client import options as job_options
from jobroom.client import result as results
from jobroom.client.extension import Category
from jobroom.client.options import JobOptions, Registration
from jobroom.client.submission import JOB_MARK
from jobroom.domain import names
from jobroom.domain.names import GLOBAL_ROOM

F = TypeVar("F", bound=Callable[..., Any])

Isolation = Literal["thread", "process"]


@dataclass(frozen=True, slots=True)
class JobFunction:
    """A function as a job: its payload's model, whose ``run`` calls it, and how it is served.

    ``room`` None is the room that the worker serves by default.
    """

    function: Callable[..., Any]
    model: type[BaseModel]
    room: str | None
    options: JobOptions
    isolate: Isolation | None = None
    memory_mb: float | None = None


class _Payload(BaseModel):
    """The base of all payload models: what a call would refuse is refused here too."""

    model_config = ConfigDict(
        extra="forbid", protected_namespaces=(), serialize_by_alias=True, validate_by_alias=True
    )
    category: ClassVar[str]
    job_function: ClassVar[Callable[..., Any]]
    job_result: ClassVar[TypeAdapter[Any] | None]

    def run(self, _vis: Any = None, **_: Any) -> Any:
        """Call the function with the payload, and return the result as JSON's types."""
        fields = type(self).model_fields
        arguments = {info.alias or name: getattr(self, name) for name, info in fields.items()}
        result = type(self).job_function(**arguments)
        return self._awaited(result) if inspect.isawaitable(result) else self._plain(result)

    async def _awaited(self, result: Any) -> Any:
        return self._plain(await result)

    def _plain(self, result: Any) -> Any:
        adapter = type(self).job_result
        if adapter is None:
            return results.plain(result)
        try:
            return adapter.dump_python(result, mode="json", warnings=False)
        except Exception:  # noqa: BLE001  # whoever sends the result says what is wrong with it
            return result


@overload
def job(function: F, /) -> F: ...


@overload
def job(
    function: None = None,
    /,
    *,
    room: str | None = None,
    name: str | None = None,
    category: str = Category.MODIFIER,
    isolate: Isolation | None = None,
    memory_mb: float | None = None,
    **options: Unpack[JobOptions],
) -> Callable[[F], F]: ...


def job(
    function: F | None = None,
    /,
    *,
    room: str | None = None,
    name: str | None = None,
    category: str = Category.MODIFIER,
    isolate: Isolation | None = None,
    memory_mb: float | None = None,
    **options: Unpack[JobOptions],
) -> F | Callable[[F], F]:
    """Make a typed function a job of the workers that serve its module; it stays callable.

    The payload is checked against the parameters with their defaults and ``Annotated`` limits;
    what is returned becomes the result by the return annotation. An ``async`` function runs in
    an event loop of its own. Raises ``TypeError`` for a signature that no payload can fill, and
    ``ValueError`` for an ``isolate`` or a ``memory_mb`` that nobody could keep.
    """
    job_options.check_options(options)
    if room is not None:
        job_options.check_room(room)
    check_isolation("@jobroom.job", isolate, memory_mb)
    around = sys._getframe(1).f_locals  # noqa: SLF001  # annotations may name what is local there

    def decorate(function: F) -> F:
        model = _model_of(function, name or function.__name__, str(category), around)
        made = JobFunction(function, model, room, options, isolate, memory_mb)
        setattr(function, JOB_MARK, made)
        return function

    return decorate if function is None else decorate(function)


def job_of(function: object) -> JobFunction | None:
    """Return the job that ``@job`` made of a function; None for anything else."""
    found = getattr(function, JOB_MARK, None) if inspect.isroutine(function) else None
    return found if isinstance(found, JobFunction) else None


def check_isolation(whose: str, isolate: object, memory_mb: object) -> None:
    """Raise ``ValueError`` for an ``isolate`` or a ``memory_mb`` that cannot be kept."""
    if isolate is not None and isolate not in get_args(Isolation):
        raise ValueError(
            f"{whose} has  isolate={isolate!r}: write 'thread' or 'process', or leave it out."
        )
    if memory_mb is None:
        return
    is_number = isinstance(memory_mb, int | float) and not isinstance(memory_mb, bool)
    if not (is_number and 0 < cast("float", memory_mb) < math.inf):
        raise ValueError(
            f"{whose} has  memory_mb={memory_mb!r}: write a number of MiB above 0, or leave it out."
        )
    if isolate == "thread":
        raise ValueError(
            f"{whose} has memory_mb and  isolate='thread': memory is watched in processes of their"
            " own only, so write  isolate='process'  or leave one of them out."
        )


def check_yields_nothing(whose: str, function: Any) -> None:
    """Raise ``TypeError`` for a generator function: what it returns is no result yet."""
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise TypeError(
            f"{whose} cannot be a job: it yields; return one result instead, a list for example."
        )


def registration_of(
    made: JobFunction, room: str | None = None, *, source: str | None = None
) -> Registration:
    """Describe a function's job; ``room`` is where it belongs if it names none itself."""
    place = made.room or room or GLOBAL_ROOM
    job_options.check_room(place)
    plain = job_options.registration_of(made.model, place, _options_of(made))
    return replace(plain, isolate=made.isolate, memory_mb=made.memory_mb, source=source)


def _model_of(
    function: Callable[..., Any], name: str, category: str, around: Mapping[str, Any]
) -> type[BaseModel]:
    names.check_category(category, (category,))  # which are allowed, the server knows
    names.check_name(name)
    check_yields_nothing(_named(function), function)
    hints = _hints_of(function, around)
    parameters = inspect.signature(function).parameters.values()
    fields = dict(_field_of(function, one, hints) for one in parameters)
    try:
        model = create_model(name, __base__=_Payload, __module__=function.__module__, **fields)
        model.model_json_schema()
        returned = hints.get("return")
        # Of anything at all, pydantic would make JSON silently: sets into lists, nan into null.
        result = None if returned in (None, Any, object) else TypeAdapter(returned)
    except PydanticUserError as refused:
        why = str(refused).partition("\n")[0].rstrip(".")
        raise TypeError(f"{_named(function)} cannot be a job: {why}.") from None
    model.__doc__ = inspect.getdoc(function)
    for attribute, value in (
        ("category", category),
        ("job_function", staticmethod(function)),
        ("job_result", result),
    ):
        setattr(model, attribute, value)
    return model


def _hints_of(function: Callable[..., Any], around: Mapping[str, Any]) -> dict[str, Any]:
    try:
        return get_type_hints(function, localns=dict(around), include_extras=True)
    except NameError as unknown:
        raise TypeError(
            f"{_named(function)} cannot be a job: its annotation {unknown.name!r} is not defined"
            " where the function is; import it there, outside of TYPE_CHECKING."
        ) from None


def _field_of(
    function: Callable[..., Any], parameter: inspect.Parameter, hints: Mapping[str, Any]
) -> tuple[str, Any]:
    if why := _refusal(parameter, hints):
        raise TypeError(f"{_named(function)} cannot be a job: its parameter {why}")
    name, default = parameter.name, parameter.default
    given = ... if default is parameter.empty else default
    if not (name.startswith("_") or hasattr(_Payload, name) or name == "category"):
        return name, (hints[name], given)
    # The model has a use of its own for that name.
    hidden = f"p_{name.strip('_')}_of_payload"
    field = FieldInfo.from_annotated_attribute(hints[name], given)
    field.alias = field.validation_alias = field.serialization_alias = name
    return hidden, (hints[name], field)


def _refusal(parameter: inspect.Parameter, hints: Mapping[str, Any]) -> str | None:
    """Say what is wrong with a parameter, naming it; None if nothing is."""
    kind, name = parameter.kind, parameter.name
    if kind is parameter.VAR_POSITIONAL:
        return f"*{name} takes any number of values; a payload has named ones, so write a list."
    if kind is parameter.VAR_KEYWORD:
        return f"**{name} takes any names; a payload has known ones, so write a dict."
    if kind is parameter.POSITIONAL_ONLY:
        return f"{name!r} is positional-only, and a payload gives it by name; remove the '/'."
    if name not in hints:
        return f"{name!r} has no annotation; write its type, as in  {name}: float"
    if isinstance(parameter.default, FieldInfo):
        return (
            f"{name!r} has Field(...) for a default, which a plain call would be given; write"
            f"  {name}: Annotated[..., Field(...)] = ...  instead."
        )
    return None


def _named(function: Callable[..., Any]) -> str:
    return f"The function {getattr(function, '__qualname__', repr(function))}"


def _options_of(made: JobFunction) -> JobOptions:
    """Return what a registration says of a function's job, its docstring for a description."""
    said = inspect.getdoc(made.function)
    if said and "description" not in made.options:
        return cast("JobOptions", {**made.options, "description": said.partition("\n\n")[0]})
    return made.options
