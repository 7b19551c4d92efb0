"""What meets in a graph: processes that end, add, cancel and sweep at the same moment.

No third outcome, nobody blocked for ever, nobody let go early.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from contextlib import suppress

import pytest
from plots import Plot, tangles

from jobroom.domain import names
from jobroom.errors import InvalidTaskTransition

ROUNDS = {"sqlite": 100, "libsql": 30, "postgresql": 100}
AHEAD_SECONDS = 0.01
JITTER_SECONDS = 0.002
NUDGE_SECONDS = {"sqlite": 0.0003, "libsql": 0.003, "postgresql": 0.0003}
"""A longer one where there are few rounds, and some of the requests take two."""
WIDEST_LEAD_SECONDS = 0.1
LATE = "invalid-task-transition"
JOB = "r1:modifiers:Rotate"


class Meeting:
    """Hands that act together; the first one's lead is moved until it wins as often as not."""

    def __init__(self, hands, nudge):
        self._hands = hands
        self._nudge = nudge
        self._lead = 0.0

    def run(self, *commands):
        """Each hand does one command, all at about the same moment; their answers, in order."""
        moment = time.monotonic() + AHEAD_SECONDS + abs(self._lead)
        for number, (hand, (name, said)) in enumerate(zip(self._hands, commands, strict=False)):
            lead = -self._lead if number == 0 else 0.0
            at = moment + lead + random.uniform(0, JITTER_SECONDS)
            hand.send(name, at=at, **said)
        return [hand.answer() for hand, _ in zip(self._hands, commands, strict=False)]

    def learn(self, *, first_won):
        lead = self._lead + (-self._nudge if first_won else self._nudge)
        self._lead = max(-WIDEST_LEAD_SECONDS, min(lead, WIDEST_LEAD_SECONDS))


class Scene:
    """What each round of a race begins with and looks at."""

    def __init__(self, desk, alice, bob, job):
        self.desk, self.alice, self.bob, self.job = desk, alice, bob, job
        self.plot = Plot(desk, bob, job)

    def draw(self, **needs):
        self.plot = Plot(self.desk, self.bob, self.job)
        self.plot.draw(**needs)
        self.desk.beat(self.alice)

    def end(self, name, status, who="alice"):
        return "end", {"who": who, "task_id": self.plot.ids[name], "status": status}

    def depend(self, name, **needs):
        self.plot.ids[name] = names.new_uuid7()
        pairs = [(self.plot.ids[one], condition) for one, condition in needs.items()]
        said = {"job": JOB, "task_id": self.plot.ids[name], "needs": pairs}
        return "depend", {"who": "bob", **said}

    def clear(self):
        """Nobody claims in the next round what this one has left."""
        for name, status in self.plot.statuses().items():
            if status in ("blocked", "pending", "claimed", "running"):
                with suppress(InvalidTaskTransition):  # it has failed by the one before
                    self.plot.cancel(name)


def two_sides_of_a_diamond(scene, meeting):
    """Each sees the other's edge settled, or is seen."""
    scene.draw(a="", b="", c="a b")
    for name in "ab":
        scene.plot.start(name, scene.alice)
    end = random.choice(("completed", "completed", "failed", "cancelled"))
    who = "bob" if end == "cancelled" else "alice"
    assert meeting.run(scene.end("a", end, who), scene.end("b", "completed")) == [end, "completed"]
    [a], [b] = (
        scene.desk.read(f"SELECT completed_at FROM task WHERE id = '{scene.plot.ids[name]}'")  # noqa: S608
        for name in "ab"
    )
    meeting.learn(first_won=a < b)
    ended = scene.plot.rows()["c"]
    said = {"failed": "dependency a failed", "cancelled": "dependency a was cancelled"}
    if end == "completed":
        assert ended == ("pending", 2, None, None)
        return "free"
    assert ended == ("failed", 2, "a", said[end])
    return "failed"


def an_end_and_a_submission(scene, meeting):
    """The edge begins as met, or the end finds it."""
    scene.draw(a="")
    scene.plot.start("a", scene.alice)
    end = random.choice(("completed", "failed"))
    ended, begun = meeting.run(scene.end("a", end), scene.depend("b", a="afterok"))
    assert ended == end
    status, version, failed_by, _ = scene.plot.rows()["b"]
    expected = ("pending", None) if end == "completed" else ("failed", "a")
    assert (status, failed_by) == expected
    assert (begun, version) in {(status, 1), ("blocked", 2)}
    meeting.learn(first_won=version == 1)
    return "ended first" if version == 1 else "added first"


def a_cancellation_and_a_completion(scene, meeting):
    """One of them ends the task, and that one's end is settled."""
    scene.draw(a="", b="a", c="a:afternotok", d="b:afternotok", e="c")
    scene.plot.start("a", scene.alice)
    said = meeting.run(scene.end("a", "cancelled", "bob"), scene.end("a", "completed"))
    won = "cancelled" if said == ["cancelled", LATE] else "completed"
    assert said == (["cancelled", LATE] if won == "cancelled" else [LATE, "completed"])
    rows = {name: row[:2] for name, row in scene.plot.rows().items()}
    if won == "completed":
        expected = {
            "b": ("pending", 2),
            "c": ("failed", 2),
            "d": ("blocked", 1),
            "e": ("failed", 2),
        }
    else:
        expected = {
            "b": ("failed", 2),
            "c": ("pending", 2),
            "d": ("pending", 2),
            "e": ("blocked", 1),
        }
    assert rows == {"a": (won, 3), **expected}
    meeting.learn(first_won=won == "cancelled")
    return won


def a_cascade_and_a_submission_below_it(scene, meeting):
    """What is added below fails with the rest, or has failed as it is added."""
    scene.draw(a="", b="a", c="b", d="c", e="d")
    scene.plot.start("a", scene.alice)
    ended, begun = meeting.run(
        scene.end("a", "failed"), scene.depend("f", c="afterany", e="afterok")
    )
    assert ended == "failed"
    rows = scene.plot.rows()
    assert {rows[name][0] for name in "abcdef"} == {"failed"}
    assert rows["f"][2:] == ("e", "dependency e failed")
    assert (begun, rows["f"][1]) in {("failed", 1), ("blocked", 2)}
    meeting.learn(first_won=begun == "failed")
    return "failed first" if begun == "failed" else "added first"


def two_sweeps_and_a_report(scene, meeting):
    """The lost task is settled once, by whoever ended it."""
    scene.draw(a="", b="a", c="a:afternotok")
    _lose(scene, "a")
    first, second, said = meeting.run(
        ("sweep_at", {}), ("sweep_at", {}), scene.end("a", "completed")
    )
    rows = scene.plot.rows()
    won = rows["a"][0]
    meeting.learn(first_won=won == "failed")
    if won == "failed":
        assert (said, first + second) == (LATE, 1)
        assert (rows["b"][:3], rows["c"][:2]) == (("failed", 2, "a"), ("pending", 2))
        return "swept"
    assert (said, first + second) == ("completed", 0)
    assert (rows["b"][:2], rows["c"][:3]) == (("pending", 2), ("failed", 2, "a"))
    return "completed"


def two_sweeps_and_the_other_side(scene, meeting):
    """A sweep and a report end the two sides of a diamond."""
    scene.draw(a="", b="", c="a:afterany b")
    _lose(scene, "a")
    scene.plot.start("b", scene.alice)
    *swept, said = meeting.run(("sweep_at", {}), ("sweep_at", {}), scene.end("b", "completed"))
    assert (sum(swept), said) == (1, "completed")
    [a], [b] = (
        scene.desk.read(f"SELECT completed_at FROM task WHERE id = '{scene.plot.ids[name]}'")  # noqa: S608
        for name in "ab"
    )
    meeting.learn(first_won=a < b)
    assert scene.plot.rows()["c"] == ("pending", 2, None, None)
    return "free"


def _lose(scene, name):
    """It is held by a worker that is not heard of any more."""
    worker = scene.desk.worker(scene.alice)
    scene.desk.job(scene.alice, worker_id=worker)
    scene.plot.start(name, scene.alice, worker)
    scene.desk.write(
        f"UPDATE worker SET last_heartbeat = last_heartbeat - 61000000 WHERE id = '{worker}'"  # noqa: S608
    )


RACES = {
    two_sides_of_a_diamond: ("end || end of a diamond", ("free", "failed")),
    an_end_and_a_submission: ("end || submission on it", ("ended first", "added first")),
    a_cancellation_and_a_completion: ("cancel || complete", ("cancelled", "completed")),
    a_cascade_and_a_submission_below_it: (
        "cascade || submission below it",
        ("failed first", "added first"),
    ),
    two_sweeps_and_a_report: ("sweep || sweep || report", ("swept", "completed")),
    two_sweeps_and_the_other_side: ("sweep || sweep || report of the other side", ("free",)),
}


@pytest.mark.only_on(*ROUNDS)
def test_what_meets_in_a_graph_has_no_third_outcome(
    desk, hand, alice, *, bob, rotate, store, tally
) -> None:
    """Issue 4: promotion and failure in the transaction that ends a task, whoever else is there."""
    hands = [hand() for _ in range(3)]
    for race, (name, expected) in RACES.items():
        meeting, outcomes = Meeting(hands, NUDGE_SECONDS[store]), Counter()
        scene = Scene(desk, alice, bob, rotate)
        for _ in range(ROUNDS[store]):
            outcomes[race(scene, meeting)] += 1
            scene.clear()
        told = ", ".join(f"{outcome}: {outcomes[outcome]}" for outcome in expected)
        tally(f"{store}: {name} | {ROUNDS[store]} rounds | {told}")
        assert set(outcomes) == set(expected), name
        assert tangles(desk) == [], name
    if store == "postgresql":
        [(deadlocks,)] = desk.read(
            "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
        )
        tally(f"{store}: deadlocks met in these races: {deadlocks}")
