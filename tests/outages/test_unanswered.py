"""What the store kept and nobody could be told of is taken back when the store answers again."""

from __future__ import annotations

import threading
import time

import live_server
import pytest
from outage_place import is_write
from outage_scene import Scene, check_problem, sound

BASE = live_server.BASE
LONGEST_SECONDS = 30


@pytest.fixture(scope="module")
def server(start):
    return start(database_busy_seconds=1).until_ready()


@pytest.fixture
def scene(server, place):
    with Scene(server) as opened:
        sound(opened.register())
        sound(opened.submit())  # the server knows the job, and there is something to claim
        yield opened
    place.proxy.heal()


def lose_for_good(place, act):
    """Let the store carry a request out, and be gone for longer than anybody waits."""
    is_lost = threading.Event()

    def is_first_write(text):
        if is_write(text):
            is_lost.set()
        return is_lost.is_set()

    place.proxy.cut_after_request(is_first_write)
    place.proxy.cut_before_request(lambda _: is_lost.is_set(), times=None)
    check_problem(act())
    place.proxy.heal()


def until(condition):
    deadline = time.monotonic() + LONGEST_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "it was not taken back"
        time.sleep(0.1)


@pytest.mark.parametrize("is_started", [False, True], ids=["claimed", "started"])
def test_a_claim_that_nobody_was_told_of_is_given_back(place, scene, is_started):
    """Nothing held by a beating worker expires (rules, *Claim*): it would stay there for ever."""
    lose_for_good(place, lambda: scene.claim(start=is_started))
    [row] = place.tasks_of(scene.who)
    assert row.status == ("running" if is_started else "claimed")
    until(lambda: scene.tasks()[0]["status"] == "pending")
    with Scene(scene.server) as other:
        other.job = scene.job
        sound(other.register())
        task = sound(other.claim(start=True))["task"]
    assert (task["id"], task["attempt"], task["starts"]) == (row.id, 2, 1)


def test_a_claim_with_a_request_id_is_kept_for_who_asks_again(place, scene):
    lose_for_good(place, lambda: scene.claim(request_id="asked once"))
    time.sleep(3)
    task = sound(scene.claim(request_id="asked once"))["task"]
    assert (task["status"], task["attempt"]) == ("claimed", 1)


def test_a_submission_that_nobody_was_told_of_is_removed(place, scene):
    """Its client sends it again, as another task."""
    before = len(scene.tasks())
    lose_for_good(place, lambda: scene.submit(payload={"number": 1}))
    assert len(place.tasks_of(scene.who)) == before + 1
    until(lambda: len(scene.tasks()) == before)
    sound(scene.submit(payload={"number": 1}))
    assert len(scene.tasks()) == before + 1


def test_a_submission_with_a_key_is_kept_for_who_asks_again(place, scene):
    before = len(scene.tasks())
    lose_for_good(place, lambda: scene.submit(key="a key"))
    time.sleep(3)
    answer = scene.submit(key="a key")
    assert (answer.status_code, answer.headers["idempotency-replayed"]) == (202, "true")
    assert len(scene.tasks()) == before + 1
