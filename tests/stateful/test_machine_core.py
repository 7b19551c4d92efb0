"""The core against the model, on every store."""

from __future__ import annotations

from collections.abc import Callable

from core_door import CoreDoor
from draws import profile
from hypothesis.stateful import run_state_machine_as_test
from machine import driving


def test_the_core_does_what_the_model_does(store: str, fresh_database: Callable[[], str]) -> None:
    """Contract and rules: every answer, and the state after each step."""
    machine = driving(lambda: CoreDoor(fresh_database()))
    run_state_machine_as_test(machine, settings=profile(store))
