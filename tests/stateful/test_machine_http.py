"""The REST door against the model, on every store."""

from __future__ import annotations

from collections.abc import Callable

from draws import profile
from http_door import HttpDoor
from hypothesis.stateful import run_state_machine_as_test
from machine import driving


def test_the_rest_door_does_what_the_model_does(
    store: str, fresh_database: Callable[[], str]
) -> None:
    """Contract and rules: every answer and every problem type, and the state after each step."""
    machine = driving(lambda: HttpDoor(fresh_database()))
    run_state_machine_as_test(machine, settings=profile(store, over_http=True))
