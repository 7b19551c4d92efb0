"""Faults of a store and of the way to it, one after the other, round and round."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter

from outage_place import is_write

SLOW_SECONDS = 1.0
AWAY_SECONDS = 0.3
SUSPENDED_SECONDS = 2.0
CUTTING_SECONDS = 1.5
TERMINATIONS = 2
ENOUGH = 8
"""So many more tasks completed are the load going on."""
SUSPICIOUS_SECONDS = 20
LONGEST_SECONDS = 90


class Weather(threading.Thread):
    """Brings a store's faults over it until it is told to stop.

    After each of them the load must go on: ``count`` tells how far it is. What fails here is raised
    at the end of the ``with``.
    """

    def __init__(self, place, count):
        super().__init__(daemon=True)
        self._count = count
        self.counts = Counter()
        self.rounds = 0
        self._place = place
        self._stopped = threading.Event()
        self._failure = None
        self._kinds = [self._kill, self._suspend, self._cut_answers, self._stall, self._delay]
        if place.kind == "postgresql":
            self._kinds.append(self._terminate)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *exc):
        self._stopped.set()
        self.join()
        if self._failure is not None:
            raise self._failure

    def until_round(self, number, seconds):
        """Wait until it has gone round so often."""
        deadline = time.monotonic() + seconds
        while self.rounds < number and self.is_alive():
            assert time.monotonic() < deadline, f"{self.rounds} rounds: {self.counts}"
            time.sleep(0.05)

    def run(self):
        try:
            while not self._stopped.is_set():
                for bring in self._kinds:
                    bring()
                    self._until_it_goes_on(bring.__name__)
                    if self._stopped.is_set():
                        return
                self.rounds += 1
        except BaseException as failure:  # noqa: BLE001 - raised at the end of the ``with``
            self._failure = failure

    def _until_it_goes_on(self, after):
        began, before = time.monotonic(), self._count()
        while self._count() < before + ENOUGH and not self._stopped.wait(0.2):
            seconds = time.monotonic() - began
            assert seconds < LONGEST_SECONDS, f"the load stands still after {after}"
            if seconds > SUSPICIOUS_SECONDS and not self._place.takes_writes():
                # sqld was seen to stop writing for good, whoever asks; only its restart cures that.
                self.counts["stores_stuck"] += 1
                self._kill()
        stood = round(time.monotonic() - began)
        self.counts["longest_standstill"] = max(self.counts["longest_standstill"], stood)

    def _kill(self):
        self._place.server.kill()
        self._stopped.wait(AWAY_SECONDS)
        self._place.server.start()
        self.counts["kills"] += 1

    def _suspend(self):
        self._place.server.suspend()
        self._stopped.wait(SUSPENDED_SECONDS)
        self._place.server.resume()
        self.counts["suspended"] += 1

    def _cut_answers(self):
        """Lose answers at random: the store has kept what was asked, and nobody hears of it."""
        before = self._place.proxy.faults
        until = time.monotonic() + CUTTING_SECONDS
        while time.monotonic() < until and not self._stopped.is_set():
            self._place.proxy.cut_after_request(is_write)
            self._stopped.wait(random.uniform(0, 0.1))
        self._place.proxy.heal()
        self.counts["answers_lost"] += self._place.proxy.faults - before

    def _stall(self):
        """Writes hang, reads do not; what was held never arrives, or arrives late."""
        before = self._place.proxy.faults
        self._place.proxy.stall(is_write)
        self._stopped.wait(SUSPENDED_SECONDS)
        self._place.proxy.heal(deliver=random.random() < 0.5)
        self.counts["writes_stuck"] += self._place.proxy.faults - before

    def _delay(self):
        self._place.proxy.delay(0.05)
        self._stopped.wait(SLOW_SECONDS)
        self._place.proxy.heal()
        self.counts["delays"] += 1

    def _terminate(self):
        for _ in range(TERMINATIONS):
            self.counts["terminated"] += self._place.server.terminate_backends("postgres")
            if self._stopped.wait(1.0):
                return
