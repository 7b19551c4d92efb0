"""For tests of programs that use the queue: ``Jobroom``, and a job that does nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jobroom.testing.rig import Clock, Jobroom

__all__ = ["Clock", "Jobroom", "do_nothing"]


def do_nothing(parameters: Mapping[str, Any], submit: Callable[[Any], object]) -> bool:  # noqa: ARG001 - what any job is called with
    """Do nothing, successfully; called as any job: with its parameters, and how to submit others.

    >>> do_nothing({"steps": 100}, print)
    True
    """
    return True


def __getattr__(name: str) -> object:
    # Looked up when first used: a process that runs do_nothing needs no server.
    if name not in ("Clock", "Jobroom"):
        raise AttributeError(f"module 'jobroom.testing' has no attribute {name!r}", name=name)
    return getattr(import_module("jobroom.testing.rig"), name)
