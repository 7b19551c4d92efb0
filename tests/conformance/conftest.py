"""A desk at which a test acts for its users."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from desk import Desk
from hands import Hand

from jobroom.domain.records import Caller, Job
from jobroom.service.queue import JobQueue
from jobroom.settings import JobLibSettings


@pytest.fixture
def desk(queue: JobQueue) -> Desk:
    return Desk(queue)


@pytest.fixture
def rotate(desk: Desk, alice: Caller) -> Job:
    """A job of room r1 that alice's identity worker serves."""
    return desk.job(alice)


@pytest.fixture
def other(settings: JobLibSettings, queue: JobQueue) -> Iterator[Desk]:
    """A desk at another queue on the same store, as another process has one."""
    with JobQueue.open(settings) as opened:
        yield Desk(opened)


@pytest.fixture
def hand(queue: JobQueue) -> Iterator[Callable[..., Hand]]:
    """Makes another process on the same store; environment variables may be given."""
    with ExitStack() as stack:
        yield lambda **more: stack.enter_context(Hand(queue.settings.database_url, **more))
