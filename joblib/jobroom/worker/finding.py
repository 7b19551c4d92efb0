"""The jobs that a module or a file defines, to be registered by a worker."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any, get_args

from pydantic import BaseModel

from jobroom.client import failure
from jobroom.client import options as job_options
from jobroom.client.extension import Extension
from jobroom.client.options import Registration
from jobroom.domain.names import GLOBAL_ROOM
from jobroom.errors import ConfigurationError
from jobroom.worker import functions, signatures
from jobroom.worker.functions import Isolation

WHAT_TO_WRITE = (
    "write a function with types and @jobroom.job above it, or a class of jobroom.Extension with"
    " a method run"
)


class CannotImport(ConfigurationError):
    """The user's own code failed; ``frames`` are the lines of it that led there."""

    def __init__(self, message: str, frames: list[str]) -> None:
        super().__init__(message)
        self.frames = frames


def find_jobs(target: str, *, room: str | None = None) -> list[Registration]:
    """Return the jobs of ``module``, ``module:name`` or ``path/to/file.py``.

    ``room`` is where a job belongs that names none itself. Raises ``ConfigurationError``, and
    ``CannotImport`` where the user's own code fails.
    """
    source, name = _split(target)
    module = load(source)
    kept = str(Path(source).resolve()) if source.endswith(".py") else source
    found = list(_jobs_in(module, room, kept, name))
    if not found:
        what = f"{source} defines no job" if name is None else f"{source} has no job {name!r}"
        raise ConfigurationError(f"{what}: {WHAT_TO_WRITE}.")
    return found


def load(source: str) -> ModuleType:
    """Import a module or a file, as ``python -m`` and ``python`` would find what it imports."""
    is_file = source.endswith(".py")
    path = Path(source).resolve()
    if is_file and not path.is_file():
        raise ConfigurationError(f"There is no file {source}.")
    _be_found_first(str(path.parent if is_file else Path.cwd()))
    try:
        return _import_file(path) if is_file else importlib.import_module(source)
    except (Exception, SystemExit) as raised:  # noqa: BLE001  # a user's module may raise anything
        if isinstance(raised, ModuleNotFoundError) and _is_part_of(raised.name, source):
            raise ConfigurationError(
                f"There is no module {raised.name!r} here: name a module as in an import, or a"
                " file as in  path/to/file.py"
            ) from None
        raise CannotImport(
            f"{source} cannot be imported: {failure.headline(raised)}",
            failure.user_frames(raised.__traceback__),
        ) from None


def _split(target: str) -> tuple[str, str | None]:
    source, colon, name = target.rpartition(":")
    if not colon or os.sep in name or name.endswith(".py"):
        return target, None
    return source, name


def _be_found_first(folder: str) -> None:
    if folder not in sys.path:
        sys.path.insert(0, folder)


def _import_file(path: Path) -> ModuleType:
    name = path.stem
    known = sys.modules.get(name)
    if known is not None and getattr(known, "__file__", None) == str(path):
        return known
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ConfigurationError(f"{path.name} is no Python file.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _is_part_of(missing: str | None, source: str) -> bool:
    return missing is not None and (source == missing or source.startswith(f"{missing}."))


def _jobs_in(
    module: ModuleType, room: str | None, source: str, only: str | None
) -> Iterator[Registration]:
    seen: set[int] = set()
    for name, value in vars(module).items():
        if only not in (None, name) or id(value) in seen:
            continue
        seen.add(id(value))
        if (made := functions.job_of(value)) is not None:
            if only == name or made.function.__module__ == module.__name__:
                yield functions.registration_of(made, room, source=source)
        elif _is_job_class(value) and (only == name or value.__module__ == module.__name__):
            yield _registration_of_class(value, room, source)


def _is_job_class(value: Any) -> bool:
    if not (isinstance(value, type) and issubclass(value, BaseModel)):
        return False
    run = getattr(value, "run", None)
    return callable(run) and run is not Extension.run


def _registration_of_class(cls: type[BaseModel], room: str | None, source: str) -> Registration:
    isolate: Isolation | None = None if "isolate" in cls.model_fields else _isolate_of(cls)
    memory_mb = None if "memory_mb" in cls.model_fields else getattr(cls, "memory_mb", None)
    whose = f"The class {cls.__qualname__}"
    signatures.check_yields_nothing(cls.__dict__.get("run"), whose=whose)
    functions.check_isolation(whose, isolate, memory_mb)
    place = room or GLOBAL_ROOM
    job_options.check_room(place)
    plain = job_options.registration_of(cls, place, {})
    return replace(plain, isolate=isolate, memory_mb=memory_mb, source=source)


def _isolate_of(cls: type[BaseModel]) -> Isolation | None:
    isolate: Isolation | None = getattr(cls, "isolate", None)
    # To a pydantic class of any other kind the name may mean something else.
    return isolate if issubclass(cls, Extension) or isolate in get_args(Isolation) else None
