"""One task in a process of a slot: what it says is passed on, and its limits are kept."""

from __future__ import annotations

import json
import os
import selectors
import threading
import time
from dataclasses import dataclass, replace
from typing import Any, Literal

from jobroom.worker import limits
from jobroom.worker.channel import Message
from jobroom.worker.process import SlotProcess
from jobroom.worker.runner import Outcome, Tell

Why = Literal["cancelled", "timed_out", "stopped", "too_big"]

TICK_SECONDS = 0.1
"""How often the limits, and whether to stop, are looked at while nothing is said."""
AGAIN_SECONDS = 0.5
"""How often a task is woken that was told to stop."""
GRACE_SECONDS = {"cancelled": 5.0, "timed_out": 5.0, "stopped": 1.5, "too_big": 0.0}
"""How long a task may take to clean up before its process is killed."""
EXIT_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Work:
    """A task, what to import for it, and its limits."""

    task: dict[str, Any]
    target: Message
    timeout_seconds: float | None = None
    memory_mb: float | None = None


class Attempt:
    """Runs one task in the given process; ``run`` once."""

    def __init__(
        self,
        process: SlotProcess,
        work: Work,
        tell: Tell,
        *,
        closed: threading.Event,
        echo: bool = False,
    ) -> None:
        self._process = process
        self._work = work
        self._tell = tell
        self._closed = closed
        self._echo = echo
        self._began_at = time.monotonic()
        self._has_begun = False
        self._outcome: Outcome | None = None
        self._is_gone = False
        self._is_spoilt = False
        self._why: Why | None = None
        self._stopped_at = self._woken_at = 0.0
        self._where = ""
        self.exit_code = 0
        memory = work.memory_mb
        self._memory = None if memory is None else limits.MemoryWatch(process.pid, memory)

    @property
    def is_process_good(self) -> bool:
        """Whether the next task may have the process: it ended this one of its own accord."""
        spoilt = self._is_gone or self._is_spoilt
        return self._outcome is not None and self._why is None and not spoilt

    def run(self) -> Outcome | None:
        """Return what it came to; None if the process ended before it had begun."""
        for _ in self._process.output.read():
            pass  # what a thread of an earlier task has left behind
        self._process.output.text(b"", final=True)
        self._send({"kind": "run", "task": self._work.task, "target": self._work.target})
        with selectors.DefaultSelector() as waiting:
            waiting.register(self._process.channel, selectors.EVENT_READ, self._listen)
            waiting.register(self._process.output_fd, selectors.EVENT_READ, self._pass_output_on)
            while self._outcome is None and not self._is_gone:
                for key, _ in waiting.select(TICK_SECONDS):
                    key.data()
                    if self._process.output.is_at_end and key.fd == self._process.output_fd:
                        waiting.unregister(key.fd)
                self._mind()
        if self._is_gone:
            self._find_out()
        self._pass_output_on()
        self._tell.log(self._process.output.text(b"", final=True))
        return self._judged()

    # While it runs

    def _send(self, message: Message) -> None:
        try:
            self._process.channel.send({**message, "number": id(self)})
        except OSError:
            self._is_gone = True

    def _listen(self) -> None:
        messages = self._process.channel.receive()
        if messages is None:
            self._is_gone = True
            return
        for message in messages:
            self._hear(message)

    def _hear(self, message: Message) -> None:
        match message["kind"]:
            case "begun":
                self._has_begun = True
            case "progress":
                self._tell.progress(message["fraction"], message["message"])
            case "where":
                self._where = message["text"]
            case _:
                self._outcome = _outcome_of(message)
                self._is_spoilt = not message["is_good"]

    def _pass_output_on(self) -> None:
        for data in self._process.output.read():
            self._tell.log(self._process.output.text(data))
            if self._echo:
                os.write(2, data)

    def _mind(self) -> None:
        if self._outcome is not None or self._is_gone:
            return
        now = time.monotonic()
        if self._why is None:
            self._why = self._reason(now)
            self._stopped_at = now
        if self._why is None:
            return
        if now - self._stopped_at >= GRACE_SECONDS[self._why]:
            self._process.kill()
        if now - self._woken_at >= AGAIN_SECONDS:
            self._woken_at = now
            self._send({"kind": "stop", "why": self._why})

    def _reason(self, now: float) -> Why | None:
        if self._closed.is_set():
            return "stopped"
        if self._tell.cancelled.is_set():
            return "cancelled"
        seconds = self._work.timeout_seconds
        if seconds and now - self._began_at >= seconds:
            return "timed_out"
        return "too_big" if self._memory is not None and self._memory.is_over() else None

    # At its end

    def _find_out(self) -> None:
        """Wait for the process that has hung up; one that lives on is of no use any more."""
        while (messages := self._process.channel.receive()) is not None:
            for message in messages:
                self._hear(message)
        code = self._process.exit_code(wait_seconds=EXIT_SECONDS)
        self._process.kill()
        self.exit_code = 0 if code is None else code

    def _judged(self) -> Outcome | None:
        if self._why is not None:
            return self._stopped(self._why)
        outcome, megabytes = self._outcome, self._work.memory_mb
        if outcome is None:
            if not self._has_begun:
                return None
            return Outcome("failed", error=limits.lost(self.exit_code))
        if megabytes is not None and (outcome.error or "").startswith("MemoryError"):
            said = limits.too_big(megabytes)
            return replace(outcome, error=f"{said}\n{outcome.error}")
        return outcome

    def _stopped(self, why: Why) -> Outcome:
        if why == "cancelled":
            return Outcome("cancelled")
        if self._outcome is not None and self._outcome.status == "completed":
            return self._outcome  # it came to its end at the same moment
        if why == "stopped":
            return Outcome("handed_back")
        if why == "timed_out":
            said = limits.too_long(self._work.timeout_seconds or 0, self._where)
        else:
            said = limits.too_big(self._work.memory_mb or 0)
        return Outcome("failed", error=said)


def _outcome_of(message: Message) -> Outcome:
    result = json.loads(message["result"])["result"]
    return Outcome(message["status"], result, message["error"], message["final"])
