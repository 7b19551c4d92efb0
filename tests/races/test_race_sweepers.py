"""Sweepers in processes of their own, together on one file, one of them stopped in the middle."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
import racing
from racing import PATIENCE_SECONDS, SWEEP, Answer, claim, registration, report, taken

SWEEPER = [sys.executable, str(Path(__file__).with_name("pausing_sweeper.py"))]
COMMAND = [sys.executable, "-m", "jobroom.cli.main", "sweep"]
WINNERS = {"expected": (), "perhaps": ("first", "second", "both")}
WORDS = {"workers lost": "lost_workers", "tasks failed": "failed_tasks"}


@contextmanager
def process(pair, command, **pipes):
    """A process on the servers' file; killed at the end, stopped or not."""
    started = subprocess.Popen(
        command, cwd=pair.folder, env=pair.environment, stdout=subprocess.PIPE, text=True, **pipes
    )
    try:
        yield started
    finally:
        started.kill()
        started.communicate()


def counts_told(output):
    """The counts of ``jobroom sweep``, read from what it prints."""
    told = dict(re.findall(r"^(.+): (\d+)$", output, re.MULTILINE))
    return {field: int(told[words]) for words, field in WORDS.items()}


def test_two_commands_that_sweep_together_add_up(pair, crews, outcomes_of):
    """C04: 50 stale workers x 2 running tasks, two processes of ``jobroom sweep``."""
    outcomes, rounds = [], 2
    for number in range(rounds):
        room = f"two-commands-{number}"
        pair.make_stale([held.worker_id for held in crews.hold(room, 50, tasks=2)])
        with ExitStack() as stack:
            both = [
                stack.enter_context(process(pair, COMMAND, stderr=subprocess.PIPE))
                for _ in range(2)
            ]
            said = [sweeper.communicate(timeout=PATIENCE_SECONDS) for sweeper in both]
        assert [sweeper.returncode for sweeper in both] == [0, 0]
        assert [errors for _, errors in said] == ["", ""]
        first, second = (counts_told(output) for output, _ in said)
        assert {name: first[name] + second[name] for name in first} == {
            "lost_workers": 50,
            "failed_tasks": 100,
        }
        outcomes.append(check_all_failed_once(pair, room, first))
    outcomes_of("jobroom sweep || jobroom sweep, 50 x 2", outcomes, **WINNERS, rounds=rounds)


def test_two_servers_that_sweep_together_add_up(pair, crews, outcomes_of):
    """C04 over HTTP: two servers asked at the same instant."""
    outcomes, rounds = [], 5
    with racing.Race(pair, racing.ADMIN, racing.ADMIN) as race:
        for number in range(rounds):
            room = f"two-servers-{number}"
            pair.make_stale([held.worker_id for held in crews.hold(room, 50, tasks=2)])
            first, second = race.run(SWEEP, SWEEP)
            assert taken(first, second) == {"lost_workers": 50, "failed_tasks": 100}
            outcomes.append(check_all_failed_once(pair, room, first.body))
            race.learn(first_won=first.body["failed_tasks"] > 50)
    outcomes_of("POST /sweep || POST /sweep, 50 x 2", outcomes, **WINNERS, rounds=rounds)


def check_all_failed_once(pair, room, first):
    assert [task[:3] for task in pair.tasks_of(room)] == [("failed", 1, 3)] * 100
    [[told]] = pair.rows(
        "SELECT count(*) FROM notice JOIN task ON task.id = task_id WHERE room_id = ?", room
    )
    assert told == 100
    return {0: "second", 100: "first"}.get(first["failed_tasks"], "both")


class Sweeper:
    """A process that sweeps when it is told to, and may stop in the middle of it."""

    def __init__(self, started):
        self._process = started
        assert started.stdout.readline() == "ready\n"

    def sweep(self, *, stop_at="never"):
        self._process.stdin.write(f"{stop_at}\n")
        self._process.stdin.flush()
        if stop_at != "never":
            _, status = os.waitpid(self._process.pid, os.WUNTRACED)
            assert os.WIFSTOPPED(status)

    def go_on(self):
        self._process.send_signal(signal.SIGCONT)

    def has_answered(self, *, within):
        answered, _, _ = select.select([self._process.stdout], [], [], within)
        return bool(answered)

    def counts(self):
        assert self.has_answered(within=PATIENCE_SECONDS)
        return Answer(200, json.loads(self._process.stdout.readline()), {})


@pytest.fixture(scope="module")
def sweepers(pair):
    """Four that wait for the word to sweep."""
    with ExitStack() as stack:
        begun = [
            stack.enter_context(process(pair, SWEEPER, stdin=subprocess.PIPE)) for _ in range(4)
        ]
        yield [Sweeper(each) for each in begun]


@pytest.fixture
def stale_crew(pair, crews, me):
    """100 stale workers with 2 running tasks each, and a living worker of the same job."""
    room = f"four-{me}"
    held = crews.hold(room, 100, tasks=2, on_worker_lost="requeue")
    pair.make_stale([each.worker_id for each in held])
    with pair.line(racing.OWNER) as lost, pair.line(me, 1) as living:
        living.expect(200, *registration(room, on_worker_lost="requeue"))
        yield StaleCrew(pair, room, held, lost, living)


class StaleCrew:
    """The lost workers' tasks, and lines of their owner and of the worker that lives."""

    def __init__(self, pair, room, held, lost, living):
        self.pair, self.room, self.held, self.lost, self.living = pair, room, held, lost, living

    def claim_again(self):
        """The living worker takes one of the lost tasks; the row as it is then."""
        task = self.living.expect(200, *claim(start=True))["task"]
        assert task["attempt"] == 2
        return task["id"], self.pair.task(task["id"])

    def check(self, again, counts):
        """Each worker handled once; what was claimed again is as it was, and its worker's."""
        task_id, stored = again
        assert taken(*counts) == {"lost_workers": 100, "requeued_tasks": 200}
        assert self.pair.task(task_id) == stored
        assert stored[:3] == ("running", 2, 4)
        left = [task[:3] for task in self.pair.tasks_of(self.room)]
        assert sorted(left) == [("pending", 1, 3)] * 199 + [("running", 2, 4)]
        told = self.pair.rows("SELECT worker_id FROM notice WHERE task_id = ?", task_id)
        assert told == [(held.worker_id,) for held in self.held if task_id in held.task_ids]
        self.lost.expect(409, *report(task_id, "completed", attempt=1))
        self.living.expect(200, *report(task_id, "completed", attempt=2))


@pytest.mark.parametrize(("place", "handled"), [("verdict", 0), ("step", 50)])
def test_a_sweeper_that_slept_leaves_alone_what_was_claimed_meanwhile(
    stale_crew, sweepers, place, handled, outcomes_of
):
    """Number 6: it stops, the other three sweep, one task is claimed again, and it goes on."""
    paused, *others = sweepers
    paused.sweep(stop_at=place)
    for other in others:
        other.sweep()
    counts = [other.counts() for other in others]
    again = stale_crew.claim_again()
    paused.go_on()
    late = paused.counts()
    assert late.body["lost_workers"] == handled
    stale_crew.check(again, [late, *counts])
    told = "each worker handled once"
    outcomes_of(f"4 sweepers, one stopped ({place})", [told], expected=(told,), rounds=1)


def test_a_sweeper_stopped_in_its_transaction_delays_the_others_and_no_more(
    stale_crew, sweepers, outcomes_of
):
    """Number 6, between read and write: they wait, and no request fails (contract, 503)."""
    paused, *others = sweepers
    paused.sweep(stop_at="read")
    for other in others:
        other.sweep()
    with ThreadPoolExecutor(1) as background:
        claiming = background.submit(stale_crew.claim_again)
        # It holds the one write lock: two seconds long nobody gets past it.
        assert not others[0].has_answered(within=2)
        assert not claiming.done()
        paused.go_on()
        again = claiming.result(PATIENCE_SECONDS)
    stale_crew.check(again, [sweeper.counts() for sweeper in (paused, *others)])
    told = "each worker handled once"
    outcomes_of("4 sweepers, one stopped (read)", [told], expected=(told,), rounds=1)
