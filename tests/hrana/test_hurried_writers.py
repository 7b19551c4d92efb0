"""Writes that share a request: each is waited for as long as whoever asked for it has time."""

from __future__ import annotations

import contextlib
import threading
import time

import pytest

from jobroom.store import patience
from jobroom.store.hrana.errors import OperationalError
from jobroom.store.hrana.writers import Write, Writers

MUCH = 10.0


class Line:
    """One place for writers, at a server that answers each request when it is told to."""

    def __init__(self):
        self.sent = []
        self.errors = []
        self._answers = threading.Semaphore(0)
        self._threads = []
        self._writers = Writers(1, MUCH, self._send)

    def _send(self, group):
        self.sent.append(group)
        assert self._answers.acquire(timeout=MUCH)
        for one in group:
            one.results = []

    def write(self, *, seconds):
        """Write on a thread that has so much time."""
        self._threads.append(threading.Thread(target=self._write, args=[seconds]))
        self._threads[-1].start()

    def _write(self, seconds):
        with patience.until(time.monotonic() + seconds):
            try:
                self._writers.write(Write("{}"))
            except OperationalError as error:
                self.errors.append((error.code, error.applied))

    def answer(self):
        self._answers.release()

    def until(self, *, sent, waiting):
        end = time.monotonic() + MUCH
        while (len(self.sent), len(self._writers._queue)) != (sent, waiting):
            assert time.monotonic() < end, (self.sent, self._writers._queue)
            time.sleep(0.001)

    def until_error(self):
        end = time.monotonic() + MUCH
        while not self.errors:
            assert time.monotonic() < end
            time.sleep(0.001)

    def close(self):
        for _each in self._threads:
            self.answer()
        for each in self._threads:
            each.join(MUCH)


@pytest.fixture
def line():
    with contextlib.closing(Line()) as made:
        yield made


def test_a_write_that_never_got_a_place_was_not_applied(line):
    line.write(seconds=60)
    line.until(sent=1, waiting=0)
    line.write(seconds=0.05)
    line.until_error()
    assert line.errors == [("BUSY_HERE", False)]
    assert len(line.sent) == 1


def test_a_write_that_another_carries_is_given_up_in_its_own_time_and_may_be_applied(line):
    line.write(seconds=60)
    line.until(sent=1, waiting=0)
    line.write(seconds=60)
    line.until(sent=1, waiting=1)
    line.write(seconds=1)
    line.until(sent=1, waiting=2)
    line.answer()  # the second goes, and takes the hurried one along
    line.until(sent=2, waiting=0)
    assert [len(group) for group in line.sent] == [1, 2]
    line.until_error()
    assert line.errors == [("TIMEOUT", None)]


def test_whoever_has_time_is_answered_after_one_who_had_none(line):
    line.write(seconds=60)
    line.until(sent=1, waiting=0)
    line.write(seconds=0.05)
    line.until_error()
    line.answer()
    line.write(seconds=60)
    line.until(sent=2, waiting=0)
    assert len(line.errors) == 1
