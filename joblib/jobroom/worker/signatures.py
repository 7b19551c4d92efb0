"""What may become a job: a function to call with its name, types and parameters, or why not."""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn, Self, get_type_hints

from pydantic.errors import PydanticUserError
from pydantic.fields import FieldInfo
from pydantic_core import SchemaError

METHODS_OWN = ("self", "cls")
UNFILLED = {
    inspect.Parameter.VAR_POSITIONAL: (
        "*{name} takes any number of values; a payload has named ones, so write a list."
    ),
    inspect.Parameter.VAR_KEYWORD: (
        "**{name} takes any names; a payload has known ones, so write a dict."
    ),
    inspect.Parameter.POSITIONAL_ONLY: (
        "'{name}' is positional-only, and a payload gives it by name; remove the '/'."
    ),
}
"""The kinds of parameters that no payload fills, and what to write instead."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Where ``@job`` stands: the names that its annotations may use, its module and its line."""

    names: Mapping[str, Any]
    module: str
    place: str

    @classmethod
    def of(cls, frame: FrameType) -> Self:
        """Return what a frame says."""
        place = _place(frame.f_code.co_filename, frame.f_lineno)
        return cls(frame.f_locals, str(frame.f_globals.get("__name__")), place)


def function_of(thing: Any, caller: Caller) -> Callable[..., Any]:
    """Return a function that can be marked as a job and called as the thing.

    Functions are themselves; bound methods, partials and callable objects get one around them.
    Raises ``TypeError`` for all others.
    """
    if (why := _unfit(thing)) is not None:
        raise TypeError(f"{_what(thing)} cannot be a job: {why.rstrip('.')} ({caller.place})")
    check_yields_nothing(_beneath(thing), whose=_what(thing))
    is_itself = inspect.isroutine(thing) and hasattr(thing, "__dict__")
    return thing if is_itself and not inspect.ismethod(thing) else _around(thing, caller)


def check_yields_nothing(function: Any, *, whose: str) -> None:
    """Refuse a generator function: what it returns is no result yet."""
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise TypeError(
            f"{whose} cannot be a job: it yields; return one result instead, a list for example"
            f" ({place_of(function)})"
        )


def refuse(function: Any, why: str, *, at: str | None = None) -> NoReturn:
    """Raise ``TypeError`` with one sentence that names the function, and its place."""
    where = ", ".join(one for one in (at, place_of(function)) if one)
    raise TypeError(f"{_what(function)} cannot be a job: {why.rstrip('.')} ({where})") from None


def place_of(function: Any) -> str:
    """Return file and line of a function; of one that is not written in Python its module."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    if code is None:
        return str(getattr(function, "__module__", None))
    return _place(code.co_filename, code.co_firstlineno)


def hints_of(function: Callable[..., Any], names: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the annotations mean."""
    try:
        return get_type_hints(function, localns=dict(names), include_extras=True)
    except NameError as unknown:
        refuse(
            function,
            f"its annotation {unknown.name!r} is not defined where the function is; import it"
            " there, outside of TYPE_CHECKING.",
        )
    except Exception as raised:  # noqa: BLE001  # an annotation in quotes is code, which may do anything
        why = f"{type(raised).__name__}: {str(raised).partition(chr(10))[0]}"
        refuse(function, f"an annotation of it cannot be evaluated, {why}; write a type.")


def check_parameter(
    function: Callable[..., Any], parameter: inspect.Parameter, hints: Mapping[str, Any]
) -> None:
    """Refuse a parameter that no payload can fill."""
    if (why := _refusal(parameter, hints)) is not None:
        refuse(function, f"its parameter {why}")


def check_fields(function: Callable[..., Any], fields: Mapping[str | None, FieldInfo]) -> None:
    """Refuse parameters that would have another name in a payload, or none."""
    for name in inspect.signature(function).parameters:
        field = fields.get(name)
        if field is None or field.exclude:
            refuse(function, f"the type of its parameter {name!r} keeps it out of every payload.")
        if any(
            one not in (None, name)
            for one in (field.alias, field.validation_alias, field.serialization_alias)
        ):
            refuse(
                function,
                f"its parameter {name!r} has an alias, and a payload gives it by its own name;"
                " name it so instead.",
            )


def first_words(raised: Exception) -> str:
    """Return what an exception of pydantic's, or of a type of the user's, says in a sentence."""
    lines = [line.strip() for line in str(raised).splitlines() if line.strip()] or [""]
    if isinstance(raised, PydanticUserError):
        return lines[0].partition(". Set `arbitrary_types_allowed")[0]
    # The validator's errors go from the outside to the inside.
    words = lines[-1 if isinstance(raised, SchemaError) else 0]
    return f"its type is refused, {type(raised).__name__}: {words}"


def _refusal(parameter: inspect.Parameter, hints: Mapping[str, Any]) -> str | None:
    """Say what is wrong with a parameter, naming it; None if nothing is."""
    name = parameter.name
    if parameter.kind in UNFILLED:
        return UNFILLED[parameter.kind].format(name=name)
    if name not in hints and name in METHODS_OWN:
        return (
            f"{name!r} is a method's own; make the method of an object the job, as in"
            "  rotate = jobroom.job(Rotator().rotate)"
        )
    if name not in hints:
        return f"{name!r} has no annotation; write its type, as in  {name}: float"
    if isinstance(parameter.default, FieldInfo):
        return (
            f"{name!r} has Field(...) for a default, which a plain call would be given; write"
            f"  {name}: Annotated[..., Field(...)] = ...  instead."
        )
    return None


def _unfit(thing: Any) -> str | None:
    if isinstance(thing, type):
        return "only functions can; a pydantic class with a method run needs no @jobroom.job."
    if isinstance(thing, staticmethod | classmethod | functools.partialmethod):
        return "put @jobroom.job on a function outside of a class, or on a method of an object."
    if not callable(thing):
        return "it cannot be called; put @jobroom.job on a function."
    try:
        inspect.signature(thing)
    except (TypeError, ValueError):
        return "it tells no parameters; write a function with types that calls it."
    if not isinstance(getattr(_beneath(thing), "__name__", None), str):
        return "it has no name; write a function that calls it."
    return None


def _around(thing: Any, caller: Caller) -> Callable[..., Any]:
    def called(*args: Any, **kwargs: Any) -> Any:
        return thing(*args, **kwargs)

    called.__annotations__ = {}  # what is not written in Python has none to put in their place
    written = _beneath(thing)
    functools.update_wrapper(called, written)
    called.__signature__ = inspect.signature(thing)  # type: ignore[attr-defined]  # as inspect has it
    called.__module__ = caller.module
    if written.__name__ == "__call__":
        called.__name__ = type(thing).__name__
        called.__doc__ = written.__doc__ or inspect.getdoc(thing)
    return called


def _beneath(thing: Any) -> Any:
    """Return the function that was written for what is called."""
    while isinstance(thing, functools.partial):
        thing = thing.func
    if inspect.isroutine(thing):
        return thing
    return type(thing).__call__


def _what(thing: Any) -> str:
    if isinstance(thing, type):
        return f"The class {thing.__qualname__}"
    name = getattr(_beneath(thing), "__qualname__", None) if callable(thing) else None
    kind = type(thing).__name__
    return f"What was given, of the type {kind}," if name is None else f"The function {name}"


def _place(file: str, line: int) -> str:
    with contextlib.suppress(OSError, ValueError):  # the folder is gone, or not above the file
        file = str(Path(file).relative_to(Path.cwd()))
    return f"{file}:{line}"
