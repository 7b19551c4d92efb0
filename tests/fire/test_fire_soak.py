"""Random faults all the time: nothing reported twice, nothing lost."""

from __future__ import annotations

import collections
import os
import random
import threading
import time

import faultproxy as fp
import pytest
from workshop import DEEP, until

from jobroom.client.manager import JobManager
from jobroom.errors import JobroomError

SEED = int(os.environ.get("JOBROOM_FIRE_SEED", "20261129"))
SECONDS = 300 if DEEP else 3
WORKERS = 3
FAULTY_SHARE = 0.25
FAULTS = [
    *(fp.RESET_BEFORE, fp.RESET_AMID, fp.RESET_AFTER, fp.SWALLOW, fp.CUT, fp.GARBAGE),
    *(fp.NO_HTTP, fp.STRANGE, fp.delay(0.2), fp.page(502), fp.page(503, html=False)),
    *(fp.page(504), fp.page(500), fp.page(404), fp.page(503, retry_after="0")),
]


class Dice:
    """Chooses the faults; the same seed chooses the same."""

    def __init__(self, seed):
        self._random = random.Random(seed)
        self._lock = threading.Lock()
        self.chosen = collections.Counter()

    def __call__(self, request):
        with self._lock:
            if self._random.random() >= FAULTY_SHARE:
                return None
            fault = self._random.choice(FAULTS)
            self.chosen[repr(fault)] += 1
            return fault


def submit_all(shop, api, stopped, submitted):
    """Submit numbers until told to stop; a call that raises is made again with its key."""
    jobs = JobManager(api)
    while not stopped.is_set():
        number = len(submitted)
        until(lambda: submitted_one(jobs, shop, number))  # noqa: B023
        submitted.append(number)
        stopped.wait(0.01)


def submitted_one(jobs, shop, number):
    try:
        key = f"{shop.room}-{number}"
        return jobs.submit(shop.job, {"number": number}, idempotency_key=key)
    except JobroomError:
        return None


def soak(shop, *, outage_seconds=0.0, **options):
    runs, lock, submitted, stopped = collections.Counter(), threading.Lock(), [], threading.Event()

    def work(one):
        with lock:
            runs[one.number] += 1
        return {"twice": one.number * 2}

    workers = [shop.hire(work, **options) for _ in range(WORKERS)]
    dice = shop.proxy.choose = Dice(SEED)
    submitter = threading.Thread(
        target=submit_all, args=(shop, shop.connect(), stopped, submitted), daemon=True
    )
    submitter.start()
    time.sleep(SECONDS / 2)
    if outage_seconds:
        shop.proxy.refuse()
        time.sleep(outage_seconds)
        shop.proxy.accept()
    time.sleep(SECONDS / 2)
    stopped.set()
    submitter.join(60)
    until(lambda: all(one["status"] == "completed" for one in shop.tasks()), SECONDS + 60)
    shop.proxy.choose = lambda _request: None
    assert [one.error for one in workers] == [None] * WORKERS
    assert sum(dice.chosen.values()) > 20
    print(  # noqa: T201  # the counts are what the soak is for
        f"soak: seed {SEED}, {len(submitted)} tasks, {len(shop.proxy.seen)} requests,"
        f" {sum(dice.chosen.values())} faults, {sum(runs.values())} runs"
    )
    return runs, submitted, {one["payload"]["number"]: one for one in shop.tasks()}


def test_each_task_is_there_once_and_done_once(patient_shop):
    runs, submitted, tasks = soak(patient_shop)
    assert len(patient_shop.tasks()) == len(submitted)
    assert sorted(tasks) == submitted
    for number, task in tasks.items():
        assert (task["status"], task["result"]) == ("completed", {"twice": number * 2})
        assert (task["starts"], runs[number]) == (1, 1), task


def test_with_workers_that_are_lost_each_task_is_there_once_and_ends_once(shop):
    """A timeout of a second: workers are swept, come back, and their tasks are done again."""
    runs, submitted, tasks = soak(
        shop, outage_seconds=1.5, on_worker_lost="requeue", max_attempts=100
    )
    assert len(shop.tasks()) == len(submitted)
    assert sorted(tasks) == submitted
    for number, task in tasks.items():
        assert (task["status"], task["result"]) == ("completed", {"twice": number * 2})
        assert 1 <= runs[number] <= task["starts"], task


@pytest.mark.parametrize("seed", [SEED, SEED + 1])
def test_the_same_seed_chooses_the_same_faults(seed):
    first, second = Dice(seed), Dice(seed)
    assert [first(None) for _ in range(200)] == [second(None) for _ in range(200)]
