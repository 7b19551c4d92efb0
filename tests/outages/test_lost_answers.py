"""Each request that a use case sends to the store is lost, before it gets there or on its way back.

The client sees the answer that it gets on a quiet day, and the store holds what it holds then:
whatever the store had kept was found again, whatever it had not was done (C36; contract, *Tasks*).
"""

from __future__ import annotations

import os
from collections import Counter

import pytest
from outage_place import Counted
from outage_scene import Scene, left_by
from outage_uses import USES

IS_DEEP = "JOBROOM_OUTAGES_CYCLES" in os.environ


@pytest.fixture(scope="module")
def server(start):
    return start().until_ready()


@pytest.fixture(scope="module")
def losses(place):
    """How many requests were lost, by the way."""
    return Counter()


class Quiet:
    """What a use case answers and leaves on a quiet day, and how many requests that takes."""

    def __init__(self, use, server, place):
        with Scene(server) as scene:
            act = use(scene)
            before = place.proxy.requests
            answer = act()
            self.requests = place.proxy.requests - before
            self.seen = seen(scene, place, answer)


def seen(scene, place, answer):
    """Status, body, and what is in the store."""
    return answer.status_code, scene.common(answer.text), left_by(scene, place)


def lost_of(way, requests):
    """Which of the requests are lost: all of them, or where that takes too long, a telling one.

    A stream that is lost in the middle keeps libSQL's one place to write until its time is up,
    after five seconds; it is not there yet at the first request, and gone after the last.
    """
    if IS_DEEP:
        return range(1, requests + 1)
    return [{"before": 1, "after": requests}[way]]


@pytest.mark.parametrize("use", USES, ids=lambda use: use.__name__)
def test_a_lost_request_or_answer_changes_nothing(place, server, losses, use):
    quiet = Quiet(use, server, place)
    ways = {"before": place.proxy.cut_before_request, "after": place.proxy.cut_after_request}
    for way, lose in ways.items():
        for number in lost_of(way, quiet.requests):
            with Scene(server) as scene:
                act = use(scene)
                faults = place.proxy.faults
                lose(Counted(number))
                try:
                    answer = act()
                finally:
                    place.proxy.heal()
                assert place.proxy.faults == faults + 1
                assert seen(scene, place, answer) == quiet.seen, f"{way} request {number}"
                losses[way] += 1


def test_so_many_were_lost(place, losses, tally):
    """The count of the tests above, for the end of the run."""
    assert min(losses["before"], losses["after"]) >= len(USES)
    tally(**losses, use_cases=len(USES))
