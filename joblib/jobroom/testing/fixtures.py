"""A pytest plugin: ``pytest_plugins = ["jobroom.testing.fixtures"]`` in the top ``conftest.py``."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from jobroom.testing.rig import Jobroom


@pytest.fixture(name="jobroom")
def fresh_jobroom() -> Iterator[Jobroom]:
    """A queue of the test's own; ``jobroom.register(...)`` names what it shall run."""
    with Jobroom() as room:
        yield room
