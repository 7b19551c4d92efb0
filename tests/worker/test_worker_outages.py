"""What ``jobroom worker`` bears: a server that is away, and being stopped or killed itself."""

from __future__ import annotations

import signal
import sqlite3
import threading
from contextlib import closing

import pytest
from worker_shop import ADD, BASE, SPIN, TIMEOUT_SECONDS, Room, Shop, spinning, until


def test_a_killed_worker_is_seen_to_be_gone(room):  # C17
    worker = room.worker(ADD)
    worker.kill()
    until(lambda: worker.id not in room.workers())
    found = room.http.get(f"{BASE}/rooms/{room.name}/jobs/{room.name}:modifiers:add").json()
    assert (found["workers"], bool(found["last_seen"])) == ([], True)


def test_a_busy_loop_of_four_worker_timeouts_is_no_loss(room):  # C06
    room.worker(SPIN)
    task = room.submit("spin", seconds=4 * TIMEOUT_SECONDS)
    assert (room.until_completed(task), room.task(task)["attempt"]) == (["spun"], 1)


def test_a_worker_that_was_swept_while_it_was_stopped_goes_on_as_a_new_one(room):
    """C01, C10: its late report is refused, in one line, and the next task is its own."""
    worker = room.worker(SPIN)
    task = room.submit("spin", seconds=1)
    spinning(room)
    worker.send(signal.SIGSTOP)
    error = room.until_status(task, "failed")["error"]
    assert "Worker disconnected" in error
    worker.send(signal.SIGCONT)
    again = room.submit("spin", seconds=0)
    room.until_completed(again)
    assert room.task(task)["error"] == error
    assert len(worker.lines("report.refused")) == 1
    assert len(worker.lines("worker.lost")) == 1
    assert room.task(again)["worker_id"] != worker.id


def test_a_task_whose_worker_is_killed_at_each_run_fails_after_its_attempts(room):  # C07
    dying = """
        import os

        @job(on_worker_lost="requeue", max_attempts=2)
        def die():
            os._exit(9)
    """
    first = room.worker(dying)
    task = room.submit("die")
    assert first.wait() == 9
    room.until_status(task, "pending")
    assert room.start(room.written(dying)).wait() == 9
    assert "start 2 of 2" in room.until_status(task, "failed")["error"]


class TestOutages:
    """The server goes away, and all of these have another one than the others."""

    @pytest.fixture(scope="class")
    @classmethod
    def frail_shop(cls, tmp_path_factory):
        made = Shop(tmp_path_factory.mktemp("frail"))
        yield made
        made.close()

    @pytest.fixture
    def room(self, frail_shop, tmp_path):
        made = Room(frail_shop, tmp_path)
        yield made
        made.close()
        if frail_shop.server.process.poll() is not None:
            frail_shop.server.start().until_ready()

    def test_a_restart_is_survived(self, room):
        worker = room.worker(SPIN)
        task = room.submit("spin", seconds=1)
        spinning(room)
        room.shop.server.kill()
        room.shop.server.start().until_ready()
        assert room.until_completed(task, room.submit("spin", seconds=0)) == ["spun", "spun"]
        assert not worker.has_ended

    def test_an_outage_of_several_worker_timeouts_is_two_lines(self, room):
        """The report of what ended meanwhile comes when the server is back (C12)."""
        worker = room.worker(SPIN, "--slots", "2")
        until(lambda: judges(room.shop.server))  # an outage within the grace of another is none
        task = room.submit("spin", seconds=0.5)
        spinning(room)
        room.shop.server.kill()
        worker.until_told("server.away")
        # The time of an outage is what this is about.
        threading.Event().wait(3 * TIMEOUT_SECONDS)
        room.shop.server.start().until_ready()
        assert room.until_completed(task, room.submit("spin", seconds=0)) == ["spun", "spun"]
        worker.until_told("server.back")
        assert room.task(task)["attempt"] == 1
        assert len(worker.lines("server.")) == 2
        assert worker.lines("WARNING") == worker.lines("server.")

    def test_it_leaves_while_the_server_is_away(self, room):
        worker = room.worker(ADD)
        room.shop.server.kill()
        worker.until_told("server.away")
        worker.send(signal.SIGTERM)
        assert worker.wait() == 0


def judges(server):
    """Whether the server's next sweep loses who is silent: no grace is under way."""
    with closing(sqlite3.connect(server.folder / "jobroom.db", timeout=60)) as opened:
        query = "SELECT max(value) FROM queue_state WHERE name = 'judge_again_at'"
        return not opened.execute(query).fetchone()[0]
