"""What tests of a queue put on it: a job that does nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any


def do_nothing(parameters: Mapping[str, Any], submit: Callable[[Any], object]) -> bool:  # noqa: ARG001 - what any job is called with
    """Do nothing, successfully; called as any job: with its parameters, and how to submit others.

    >>> do_nothing({"steps": 100}, print)
    True
    """
    return True
