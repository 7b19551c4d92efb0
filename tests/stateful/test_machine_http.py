"""The REST door against the model."""

from __future__ import annotations

import itertools
import shutil
from pathlib import Path

from draws import HTTP_PROFILE
from http_door import HttpDoor
from hypothesis.stateful import run_state_machine_as_test
from machine import driving


def test_the_rest_door_does_what_the_model_does(empty_database: Path, tmp_path: Path) -> None:
    """Contract and rules: every answer and every problem type, and the state after each step."""
    numbers = itertools.count()

    def open_door() -> HttpDoor:
        path = tmp_path / f"{next(numbers)}.db"
        shutil.copy(empty_database, path)
        return HttpDoor(path)

    run_state_machine_as_test(driving(open_door), settings=HTTP_PROFILE)
