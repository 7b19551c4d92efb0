"""One job over many payloads: submitted in bulk, a bounded number at a time, given in order."""

from __future__ import annotations

import logging
import math
from collections import deque
from collections.abc import AsyncIterable, Callable, Iterable
from dataclasses import dataclass
from typing import Any

from jobroom.client import outcome, waiting
from jobroom.client.bulk import Bulk, Entry
from jobroom.client.call import Json
from jobroom.client.collecting import Collector
from jobroom.client.drawing import Supply
from jobroom.client.flow import Flow, Give, draw
from jobroom.client.rules import Rules
from jobroom.errors import JobroomError, ValidationFailed

log = logging.getLogger("jobroom.client")

MOST_DRAWN = 1000

OnProgress = Callable[[int, int, int | None], object]


@dataclass(frozen=True, slots=True)
class Asked:
    """What a caller of ``map`` asks for."""

    job: Any
    payloads: Iterable[Any] | AsyncIterable[Any]
    room: str | None
    window: int
    returns: Any
    on_progress: OnProgress | None
    return_exceptions: bool
    options: Json


def results(rules: Rules, asked: Asked) -> Flow[None]:
    """Give the results in the order of the payloads."""
    return _results(_Run(rules, asked))


def _results(run: _Run) -> Flow[None]:
    try:
        yield from run.give_all()
    except KeyboardInterrupt:
        raise KeyboardInterrupt(run.left_behind) from None
    except (Exception, GeneratorExit):
        raise
    except BaseException:  # an event loop's cancellation, the end of the program
        log.warning("map.stopped reason=%r", run.left_behind)
        raise
    finally:
        run.supply.close()


class _Run:
    """One run of a map; its memory is that of the tasks in its window."""

    def __init__(self, rules: Rules, asked: Asked) -> None:
        if asked.window < 1:
            raise ValidationFailed("The window of a map has at least 1 task.")
        self._line = rules.line
        self._asked = asked
        # In portions: a request for each result given would be one for each task.
        self.supply = Supply(asked.payloads, portion=min(max(1, asked.window // 4), MOST_DRAWN))
        self._bulk = Bulk(rules.line, asked.job, room=asked.room, options=asked.options)
        self._returns = outcome.adapter_of(asked.returns)
        self._collector = Collector(rules.line, asked.window)
        self._entries: deque[Entry] = deque()
        self._is_refused = False
        self._submitted = self._done = self._failed = 0

    @property
    def left_behind(self) -> str:
        """What a caller who stops should know."""
        return (
            f"The map was stopped: {self._submitted:,} tasks were submitted and"
            f" {self._done:,} of them have ended; the others stay, and are worked on."
        )

    def give_all(self) -> Flow[None]:
        """Give the results in the order of the payloads."""
        while True:
            # Before there is anything to look for, payloads are all there is to wait for.
            yield from self._fill(self._collector.rest if self._entries else math.inf)
            while self._entries and self._entries[0].outcome is not None:
                yield from self._give(self._entries.popleft())
                yield from self._fill(0.0)
            if self._entries:
                if not (self._has_room and self._collector.rest > 0):
                    yield from self._collect()
            elif not self._has_more:
                if self.supply.failure is not None and not self._is_refused:
                    raise self.supply.failure
                return

    @property
    def _has_more(self) -> bool:
        return not (self._is_refused or self.supply.is_over)

    @property
    def _has_room(self) -> bool:
        least = self.supply.portion if self.supply.is_at_hand else 1
        return self._has_more and self._asked.window - len(self._entries) >= least

    def _fill(self, seconds: float) -> Flow[None]:
        while self._has_room:
            most = min(MOST_DRAWN, self._asked.window - len(self._entries))
            payloads = yield from draw(self.supply, most=most, seconds=seconds)
            if not payloads:
                return
            stop = not self._asked.return_exceptions
            entries = yield from self._bulk.submit(payloads, stop_at_refusal=stop)
            refused = [entry for entry in entries if entry.outcome is not None]
            if stop and refused:
                self._is_refused = True
            self._collector.expect_more()
            self._submitted += len(entries) - len(refused)
            self._entries.extend(entries)
            if refused:
                self._tell(refused)
            if len(payloads) < most:
                return

    def _collect(self) -> Flow[None]:
        waited_for = [entry for entry in self._entries if entry.outcome is None]
        first = self._bulk.first
        if first is None:
            raise AssertionError("there is nothing to wait for")
        yield from self._collector.collect(waited_for, first, hold=not self._has_room)
        if ended := [entry for entry in waited_for if entry.outcome is not None]:
            self._tell(ended)

    def _tell(self, ended: list[Entry]) -> None:
        self._done += len(ended)
        self._failed += sum(_failure_of(entry) is not None for entry in ended)
        if self._asked.on_progress is not None:
            self._asked.on_progress(self._done, self._failed, self.supply.total)

    def _give(self, entry: Entry) -> Flow[None]:
        try:
            yield Give((yield from self._result_of(entry)))
        except JobroomError as failure:
            if not self._asked.return_exceptions:
                raise
            yield Give(failure)

    def _result_of(self, entry: Entry) -> Flow[Any]:
        if isinstance(entry.outcome, JobroomError):
            raise entry.outcome
        returns = self._bulk.returns if self._returns is None else self._returns
        return (yield from waiting.result_of(self._line, entry.outcome or {}, returns=returns))


def _failure_of(entry: Entry) -> JobroomError | None:
    if isinstance(entry.outcome, JobroomError):
        return entry.outcome
    return outcome.failure_of(entry.outcome or {})
