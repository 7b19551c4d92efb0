"""Typed functions as jobs: ``@job`` makes the payload's model from a function's signature."""

from __future__ import annotations

import inspect
import math
import sys
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, TypeVar, Unpack, cast, get_args, overload

from pydantic import BaseModel, ConfigDict, TypeAdapter, create_model
from pydantic.fields import FieldInfo

from jobroom.client import options as job_options
from jobroom.client import result as results
from jobroom.client.extension import Category
from jobroom.client.options import JobOptions, Registration
from jobroom.client.submission import JOB_MARK
from jobroom.domain import names
from jobroom.domain.names import GLOBAL_ROOM
from jobroom.worker import signatures

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
    an event loop of its own. A bound method, a partial or a callable object comes back as a
    function that calls it. Raises ``TypeError`` for a signature that no payload can fill, and
    ``ValueError`` for an ``isolate`` or a ``memory_mb`` that nobody could keep.
    """
    job_options.check_options(options)
    if room is not None:
        job_options.check_room(room)
    check_isolation("@jobroom.job", isolate, memory_mb)
    caller = signatures.Caller.of(sys._getframe(1))  # noqa: SLF001  # annotations may name its locals

    def decorate(thing: F) -> F:
        function = signatures.function_of(thing, caller)
        model = _model_of(function, name or function.__name__, str(category), caller.names)
        setattr(function, JOB_MARK, JobFunction(function, model, room, options, isolate, memory_mb))
        return cast("F", function)

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
    hints = signatures.hints_of(function, around)
    parameters = inspect.signature(function).parameters
    for one in parameters.values():
        signatures.check_parameter(function, one, hints)
    model = _made(function, name, parameters.values(), hints)
    fields = model.model_fields.items()
    signatures.check_fields(function, {n if n in parameters else f.alias: f for n, f in fields})
    model.__doc__ = inspect.getdoc(function)
    for attribute, value in (
        ("category", category),
        ("job_function", staticmethod(function)),
        ("job_result", _adapter_of(function, hints.get("return"))),
    ):
        setattr(model, attribute, value)
    return model


def _made(
    function: Callable[..., Any],
    name: str,
    parameters: Collection[inspect.Parameter],
    hints: Mapping[str, Any],
) -> type[BaseModel]:
    try:
        fields = _fields_of(parameters, hints)
        model = create_model(name, __base__=_Payload, __module__=function.__module__, **fields)
        model.model_json_schema()
    except Exception as raised:  # noqa: BLE001  # pydantic asks the types, and a user's may raise
        if len(parameters) > 1:
            for one in parameters:
                _made(function, name, (one,), hints)  # which is it?
        at = " and ".join(f"parameter {one.name!r}" for one in parameters)
        signatures.refuse(function, signatures.first_words(raised), at=at)
    return model


def _adapter_of(function: Callable[..., Any], returned: Any) -> TypeAdapter[Any] | None:
    # Of anything at all, pydantic would make JSON silently: sets into lists, nan into null.
    if returned in (None, Any, object):
        return None
    try:
        return TypeAdapter(returned)
    except Exception as raised:  # noqa: BLE001  # as above
        signatures.refuse(function, signatures.first_words(raised), at="what it returns")


def _fields_of(
    parameters: Collection[inspect.Parameter], hints: Mapping[str, Any]
) -> dict[str, Any]:
    taken = {one.name for one in parameters}
    fields: dict[str, Any] = {}
    for one in parameters:
        name = one.name
        given = ... if one.default is one.empty else one.default
        if not (name.startswith("_") or hasattr(_Payload, name) or name == "category"):
            fields[name] = (hints[name], given)
            continue
        # The model has a use of its own for that name.
        hidden = f"p_{name.strip('_')}_of_payload"
        while hidden in taken:
            hidden += "_"
        taken.add(hidden)
        field = FieldInfo.from_annotated_attribute(hints[name], given)
        field.alias = field.validation_alias = field.serialization_alias = name
        fields[hidden] = (hints[name], field)
    return fields


def _options_of(made: JobFunction) -> JobOptions:
    """Return what a registration says of a function's job, its docstring for a description."""
    said = inspect.getdoc(made.function)
    if said and "description" not in made.options:
        return cast("JobOptions", {**made.options, "description": said.partition("\n\n")[0]})
    return made.options
