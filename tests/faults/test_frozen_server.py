"""The server itself stands still, in a cgroup's freezer or with its machine: case C12."""

from __future__ import annotations

import signal
import sqlite3
import threading
import time
from contextlib import closing
from datetime import UTC, datetime, timedelta

import live_server
import pytest
from faultkit import LONGEST_SECONDS, Beating, start_one, status_of, until

from jobroom import scheduler

TIMEOUT = 3
INTERVAL = 1.5
FROZEN_SECONDS = 3.8
"""Longer than a worker may be silent, and shorter than what a sweep calls an outage."""


def test_workers_are_heard_before_a_server_that_stood_still_judges_them(tmp_path):
    """README: a worker goes on with its tasks, and reports them when the server is back."""
    settings = {
        "worker_timeout_seconds": TIMEOUT,
        "sweeper_interval_seconds": INTERVAL,
        "jwt_secret": live_server.SECRET,
    }
    with (
        live_server.Server(tmp_path, **settings) as server,
        server.until_ready().client() as client,
    ):
        task, _ = start_one(client)
        with Beating(client, "w", every=0.5):
            for _ in range(3):
                until(lambda: last_sweep(tmp_path))
                server.process.send_signal(signal.SIGSTOP)
                time.sleep(FROZEN_SECONDS)
                before = last_sweep(tmp_path)
                server.process.send_signal(signal.SIGCONT)
                until(lambda before=before: last_sweep(tmp_path) > before)
                assert status_of(client, task) == "running"


def last_sweep(folder):
    """When a sweep ended last, 0 for never."""
    with closing(sqlite3.connect(folder / "jobroom.db", timeout=LONGEST_SECONDS)) as opened:
        query = "SELECT sum(value) FROM queue_state WHERE name = 'sweep_finished_at'"
        return opened.execute(query).fetchone()[0] or 0


@pytest.mark.parametrize(("late", "waits"), [(30, True), (0.1, False)])
def test_what_was_planned_before_a_standstill_waits_for_a_beat(late, waits):
    """And a sweep that is late by no more than that does not wait."""
    swept, planned = threading.Event(), datetime.now(UTC) - timedelta(seconds=late)
    steady = scheduler._steady_scheduler(3600, 2)
    steady.add_job(swept.set, scheduler._from_now(3600, None), next_run_time=planned)
    steady.start()
    try:
        if waits:
            assert not swept.wait(1)
        assert swept.wait(20)
    finally:
        steady.shutdown()


def test_a_process_that_stands_still_again_and_again_sweeps_all_the_same():
    swept, steady = threading.Event(), scheduler._steady_scheduler(3600, 3600)
    planned = datetime.now(UTC) - timedelta(hours=2)
    trigger = scheduler._from_now(3600, None)
    steady.add_job(swept.set, trigger, next_run_time=planned, misfire_grace_time=None)
    steady.start()
    try:
        [job] = steady.get_jobs()
        assert job.next_run_time > datetime.now(UTC)
        steady.put_off_to = datetime.now(UTC) - timedelta(hours=2)  # two hours pass
        job.modify(next_run_time=steady.put_off_to)
        assert swept.wait(20)
    finally:
        steady.shutdown()
