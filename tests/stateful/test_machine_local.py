"""The embedded queue against its model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from draws import profile
from hypothesis.stateful import run_state_machine_as_test
from local_machine import driving


def test_the_embedded_queue_does_what_its_model_does(fresh_file: Callable[[], Path]) -> None:
    """Graph contract: every method with any argument at any moment, and the state after each."""
    run_state_machine_as_test(driving(fresh_file), settings=profile("sqlite"))
