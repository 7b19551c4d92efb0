"""What the races share: two servers on one file, and the counts told at the end of the run."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from uuid import uuid4

import live_server
import pytest
import racing


@pytest.fixture
def outcomes_of(tally):
    """Hand in the outcomes of a race: all rounds ended in one that is known, each was seen."""

    def handed_in(race, outcomes, *, expected, rounds=racing.ROUNDS, perhaps=()):
        counted = Counter(outcomes)
        told = ", ".join(f"{outcome}: {counted[outcome]}" for outcome in (*expected, *perhaps))
        tally(f"race {race} | {rounds} rounds | {told}")
        assert set(counted) <= {*expected, *perhaps}
        assert counted.total() == rounds
        assert all(counted[outcome] for outcome in expected), f"not every outcome was seen: {told}"

    return handed_in


@pytest.fixture(scope="session")
def pair(tmp_path_factory):
    """Two servers on one file; nobody is stale by age, and nobody sweeps but the tests."""
    folder = tmp_path_factory.mktemp("races")
    with ExitStack() as stack:
        servers = [
            stack.enter_context(
                live_server.Server(folder, extra=racing.KEPT_OPEN, **racing.SETTINGS)
            )
            for _ in range(2)
        ]
        for server in servers:
            server.until_ready()
        yield stack.enter_context(racing.Pair(folder, servers))
        for server in servers:
            server.stop()


@pytest.fixture(autouse=True)
def quiet(pair):
    """Losing a race is no error: the servers log neither that nor anything worse."""
    yield
    assert pair.complaints() == []


@pytest.fixture
def me():
    """An identity of this test alone: its identity worker has no jobs of other tests."""
    return f"worker-{uuid4()}"


@pytest.fixture
def crews(pair):
    """Make workers that hold tasks, many at once."""
    with racing.Crews(pair) as made:
        yield made
