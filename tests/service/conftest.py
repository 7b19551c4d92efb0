"""A desk at which a test acts for its users."""

from __future__ import annotations

import pytest
from desk import Desk

from jobroom.domain.records import Caller, Job
from jobroom.service.queue import JobQueue


@pytest.fixture
def desk(queue: JobQueue) -> Desk:
    return Desk(queue)


@pytest.fixture
def rotate(desk: Desk, alice: Caller) -> Job:
    """A job of room r1 that alice's identity worker serves."""
    return desk.job(alice)
