"""A shop for each file of tests that asks for one, and a room of it for each test."""

from __future__ import annotations

import pytest
from worker_shop import Room, Shop


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    made = Shop(tmp_path_factory.mktemp("shop"))
    yield made
    made.close()


@pytest.fixture
def room(shop, tmp_path):
    made = Room(shop, tmp_path)
    yield made
    made.close()
