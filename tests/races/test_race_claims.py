"""Many claimers on one backlog."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import live_server
import racing
from racing import PATIENCE_SECONDS, ROUNDS, claim, registration, submission

CLAIMER = Path(__file__).with_name("claimer.py")


def test_ten_claimers_in_two_processes_share_a_thousand_tasks(pair, crews, me, outcomes_of):
    """C35: each task is claimed once, nobody is told "nothing" too early, then it is empty."""
    room, subs = "thousand", [f"{me}-{number}" for number in range(10)]
    with ExitStack() as stack:
        lines = [stack.enter_context(pair.line(sub)) for sub in subs]
        for line in lines:
            assert line.send(*registration(room)).status in (200, 201)
        submitted = crews.submit(room, 1000)
        claims = claims_of(pair, subs)
        assert lines[0].expect(200, *claim())["task"] is None
    got = [task_id for task_id, _, _ in claims if task_id]
    assert Counter(got) == Counter(submitted)
    # Nothing comes back in this race: once a claim was told "nothing", no later one gets a task.
    first_empty = min(answered for task_id, _, answered in claims if not task_id)
    last_claim = max(sent for task_id, sent, _ in claims if task_id)
    assert last_claim < first_empty
    assert {task[:3] for task in pair.tasks_of(room)} == {("claimed", 1, 2)}
    assert len({task.worker_id for task in pair.tasks_of(room)}) > 1
    seen = [*(["claimed once"] * len(got)), *(["empty"] * (len(claims) - len(got)))]
    outcomes_of("10 claimers, 1,000 tasks", seen, expected=("claimed once", "empty"), rounds=1010)


def test_claims_that_wait_at_two_servers_share_what_is_sent(pair, me, outcomes_of):
    """Contract, *Tasks*: never the same task to two claims; the hand-off is the claim itself."""
    room, subs, sent = "waiting-claims", [f"{me}-{number}" for number in range(4)], []
    with ExitStack() as stack:
        lines = [stack.enter_context(pair.line(sub, side % 2)) for side, sub in enumerate(subs)]
        creators = [stack.enter_context(pair.line(racing.CREATOR, side)) for side in (0, 1)]
        for line in lines:
            assert line.send(*registration(room)).status in (200, 201)
        pool = stack.enter_context(ThreadPoolExecutor(len(lines)))
        working = [pool.submit(claim_until_told, line) for line in lines]
        for number in range(ROUNDS):
            time.sleep(random.uniform(0, 2 * racing.JITTER_SECONDS))
            sent.append(creators[number % 2].expect(202, *submission(room))["id"])
        for _ in lines:
            creators[0].expect(202, *submission(room, payload={"stop": True}))
        got = [worker.result(PATIENCE_SECONDS) for worker in working]
    assert Counter(task_id for each in got for task_id in each) == Counter(sent)
    assert {task[:3] for task in pair.tasks_of(room)} == {("running", 1, 2)}
    sides = ["first server", "second server"] * 2
    seen = [side for side, each in zip(sides, got, strict=True) for _ in each]
    outcomes_of("waiting claim || waiting claim", seen, expected=sides[:2])


def claim_until_told(line):
    """Claim, waiting each time, until a task says to stop; the ids of those before it."""
    got = []
    while True:
        wish = claim(start=True)._replace(headers={"Prefer": "wait=30"})
        task = line.expect(200, *wish)["task"]
        if task["payload"]:
            return got
        got.append(task["id"])


def claims_of(pair, subs):
    """All claims of two processes with five claimers each, over both servers."""
    command = [sys.executable, str(CLAIMER), *(str(server.port) for server in pair.servers)]
    with ExitStack() as stack:
        both = [
            stack.enter_context(
                subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            )
            for _ in range(2)
        ]
        for started in both:
            stack.callback(started.kill)
            assert started.stdout.readline() == "ready\n"
        for started, half in zip(both, (subs[:5], subs[5:]), strict=True):
            started.stdin.write(" ".join(live_server.token_of(sub) for sub in half) + "\n")
            started.stdin.flush()
        said = [started.communicate(timeout=PATIENCE_SECONDS)[0] for started in both]
    return [got for output in said for got in json.loads(output)]
