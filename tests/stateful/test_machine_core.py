"""The core against the model."""

from __future__ import annotations

import itertools
import shutil
from pathlib import Path

from doors import CoreDoor
from draws import PROFILE
from hypothesis.stateful import run_state_machine_as_test
from machine import driving


def test_the_core_does_what_the_model_does(empty_database: Path, tmp_path: Path) -> None:
    """Contract and rules: every answer, and the state after each step."""
    numbers = itertools.count()

    def open_door() -> CoreDoor:
        path = tmp_path / f"{next(numbers)}.db"
        shutil.copy(empty_database, path)
        return CoreDoor(path)

    run_state_machine_as_test(driving(open_door), settings=PROFILE)
