"""The process of a slot: imports the user's code once and runs one task after the other.

It never speaks to the server. Standard output and error are a pipe to the worker, and so the log
of the task that runs; all else goes over a socket: what to run, progress, how it ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import faulthandler
import importlib
import logging
import os
import queue
import signal
import socket
import sys
import threading
import traceback
from operator import attrgetter
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn, Self

from pydantic import BaseModel

import jobroom
from jobroom.client import call, failure
from jobroom.client.holds import Alarm, Hold
from jobroom.client.options import Registration
from jobroom.client.problems import NotJson
from jobroom.client.task import ClaimedTask
from jobroom.client.worker import ProcessWorker
from jobroom.errors import ConfigurationError
from jobroom.worker import finding, functions
from jobroom.worker.capture import LINE, OWN_LOGGERS
from jobroom.worker.channel import Channel, Message
from jobroom.worker.footing import Footing
from jobroom.worker.guardian import end_family
from jobroom.worker.runner import Outcome, text_only
from jobroom.worker.threads import ThreadRunner

MODULE = "jobroom.worker.child"
NO_SERVING = (
    "this process runs the tasks of a worker, and imports what defines its jobs: write  if __name__"
    ' == "__main__":  before what begins a worker'
)

FOR_THE_WORKER = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
NOT_THE_TASKS = (str(Path(jobroom.__file__).parent), str(Path(asyncio.__file__).parent), "<frozen ")
"""Where lines are that lead to a task's own, or wait for it."""


class InnerTask(ClaimedTask):
    """A task as its own code sees it here: it may say how far it is, and hear of a cancel."""

    def heard_by(self, alarm: Alarm) -> Self:
        """Say what is set when the work is in vain; returns the task."""
        self._hold = Hold(self.id, self.worker_id or "", self.attempt, alarm=alarm)
        return self

    def _bound(self) -> NoReturn:
        raise RuntimeError("The worker reports how this task ends: return the result, or raise.")


class ChildTell:
    """The ``Tell`` of the task that runs here."""

    def __init__(self, channel: Channel, alarm: Alarm) -> None:
        self._channel = channel
        self._alarm = alarm

    @property
    def cancelled(self) -> Alarm:
        """Set when the work is in vain."""
        return self._alarm

    def progress(self, fraction: float | None, message: str | None = None) -> None:
        """Tell the worker."""
        number = None if fraction is None else float(fraction)
        text = None if message is None else str(message)
        with contextlib.suppress(OSError):  # in a process that the task has forked
            self._channel.send({"kind": "progress", "fraction": number, "message": text})

    def log(self, text: str) -> None:
        """Write it where prints go, in their order."""
        data = text_only(text).encode("utf-8", "backslashreplace")
        _flush()
        while data:
            data = data[os.write(1, data) :]


class Child:
    """Runs what comes over the channel, until the worker hangs up."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._given: queue.SimpleQueue[Message | None] = queue.SimpleQueue()
        self._jobs: dict[str, Registration] = {}
        self._noted: dict[str, Registration] = {}
        self._runner = ThreadRunner(self._jobs)
        self._running: tuple[int, Alarm] | None = None
        self._main = threading.get_ident()
        self._log_level: int | None = None
        self._footing = Footing()

    def serve(self) -> None:
        """Run task after task in this thread, the main one: it alone is woken by signals."""
        _stay_silent(self._noted)
        threading.Thread(target=self._listen, name="jobroom-channel", daemon=True).start()
        while (message := self._given.get()) is not None:
            if message["kind"] == "hello":
                self._log_level = message["log_level"]
                _be_like(message)
            else:
                self._channel.send({"kind": "outcome", **self._run(message)})

    # The main thread

    def _run(self, message: Message) -> Message:
        if not self._footing.restore():  # a thread of an earlier task has spoilt it since
            os._exit(1)  # before it has begun: the task is given to a new process
        said, alarm = message["task"], Alarm()
        self._running = (message["number"], alarm)
        try:
            self._prepare(message["target"])
            task = InnerTask.model_validate(said).heard_by(alarm)
            self._channel.send({"kind": "begun"})
            outcome = self._runner.run(task, ChildTell(self._channel, alarm))
        except finding.CannotImport as failed:
            outcome = Outcome("failed", error="\n".join([str(failed), *failed.frames]))
        except ConfigurationError as wrong:
            outcome = Outcome("failed", error=str(wrong), final=True)
        except ImportError as missing:
            outcome = Outcome("failed", error=failure.text_of(missing))
        self._running = None
        _flush()
        is_good = self._footing.restore()
        _flush()  # what was kept back by a stream that the task had replaced
        return {**_carried(outcome), "is_good": is_good}

    def _prepare(self, target: Message) -> None:
        name: str = target["job"]
        if name not in self._jobs:
            cls = _find_class(target, self._noted)
            self._jobs[name] = Registration(cls, target["room"], {})
        if self._log_level is not None:  # as the worker's, unless the user's module has done it
            logging.basicConfig(level=self._log_level, format=LINE)
        self._footing.note()

    # The thread that listens

    def _listen(self) -> None:
        while (messages := self._channel.receive()) is not None:
            for message in messages:
                if message["kind"] == "stop":
                    self._stop(message)
                else:
                    self._given.put(message)
        if self._running is not None:  # the worker was killed, and nobody waits for this
            end_family(os.getpid())
        self._given.put(None)

    def _stop(self, message: Message) -> None:
        if self._running is None or self._running[0] != message["number"]:
            return
        alarm = self._running[1]
        if not alarm.is_set():
            self._channel.send({"kind": "where", "text": self._where()})
        if message["why"] == "stopped":
            self._runner.close()
        else:
            alarm.set()
        # Whatever it waits for in the kernel is left for the exception that waits for it.
        signal.pthread_kill(self._main, signal.SIGUSR1)

    def _where(self) -> str:
        frame = sys._current_frames().get(self._main)  # noqa: SLF001  # there is no other way
        found = traceback.extract_stack(frame)
        own = [one for one in found if not one.filename.startswith(NOT_THE_TASKS)]
        return "".join(traceback.format_list(own[-failure.MOST_FRAMES :])).rstrip("\n")


def main() -> None:
    """Serve the channel whose descriptor is the argument."""
    descriptor = int(sys.argv[1])
    os.set_inheritable(descriptor, False)  # noqa: FBT003  # it has no name
    channel = Channel(socket.socket(fileno=descriptor))
    # A process that the task forks is not the one that the worker talks to.
    os.register_at_fork(after_in_child=channel.close)
    faulthandler.enable()  # a crash in C leaves its Python lines in the log
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(  # type: ignore[union-attr]  # these are no others' yet
            encoding="utf-8", errors="backslashreplace", line_buffering=True
        )
    _mind_signals()
    for name in OWN_LOGGERS:
        logging.getLogger(name).setLevel(logging.WARNING)
    with contextlib.suppress(OSError):  # nobody is there any more
        Child(channel).serve()


def _mind_signals() -> None:
    for number in (*FOR_THE_WORKER, signal.SIGUSR1):
        signal.signal(number, _leave_it_to_the_worker)
    os.register_at_fork(before=_hold_signals, after_in_parent=_let_signals_come)
    os.register_at_fork(after_in_child=_be_signalled_as_others)


def _leave_it_to_the_worker(_number: int, _frame: FrameType | None) -> None:
    """Do nothing: what a service manager or a terminal sends to all, the worker minds."""


# A process that a task forks means by a signal what others mean. One that comes right after the
# fork would be lost: Python forgets there which it has noticed.


def _hold_signals() -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, FOR_THE_WORKER)


def _let_signals_come() -> None:
    signal.pthread_sigmask(signal.SIG_UNBLOCK, FOR_THE_WORKER)


def _be_signalled_as_others() -> None:
    for number in FOR_THE_WORKER:
        if signal.getsignal(number) is _leave_it_to_the_worker:
            signal.signal(number, signal.SIG_DFL)
    _let_signals_come()


def _stay_silent(noted: dict[str, Registration]) -> None:
    """Let what the user's module registers be noted here, and sent by the worker alone."""

    def register(_: ProcessWorker, registration: Registration) -> None:
        noted[registration.full_name] = registration

    def arrive(_: ProcessWorker, **__: Any) -> NoReturn:
        raise ConfigurationError(NO_SERVING)

    for name, instead in (("register", register), ("arrive", arrive)):
        setattr(ProcessWorker, name, instead)


def _be_like(hello: Message) -> None:
    """Import what the worker imports, from where it does, and pass its environment on."""
    sys.path[:] = hello["path"]
    if hello["pythonpath"] is None:
        os.environ.pop("PYTHONPATH", None)
    else:
        os.environ["PYTHONPATH"] = hello["pythonpath"]


def _find_class(target: Message, noted: dict[str, Registration]) -> type[BaseModel]:
    source, module = target["source"], target["module"]
    loaded = finding.load(source) if source else None
    if module != "__main__":
        loaded = sys.modules.get(module) or importlib.import_module(module)
    if (registration := noted.get(target["job"])) is not None:
        return registration.cls
    value = _found_in(loaded, target)
    made = functions.job_of(value)
    cls = value if made is None else made.model
    if isinstance(cls, type) and issubclass(cls, BaseModel):
        return cls
    raise ConfigurationError(
        f"{target['name']} is not to be found in {Path(source or module).name}: what runs in a"
        " process of its own must be defined at the top of its module."
    )


def _found_in(module: object, target: Message) -> object:
    """Return what is the job: by its own name, for a method's or a partial's leads elsewhere."""
    _, _, wanted = target["job"].partition(":")
    for value in vars(module).values():
        made = functions.job_of(value)
        if made is not None and f"{vars(made.model)['category']}:{made.model.__name__}" == wanted:
            return value
    try:
        found: object = attrgetter(target["name"])(module)
    except AttributeError:
        return None
    return found


def _carried(outcome: Outcome) -> Message:
    """Return the outcome with its result as JSON text, if it has one."""
    said: Message = {"status": outcome.status, "error": outcome.error, "final": outcome.final}
    try:
        return {**said, "result": call.encode({"result": outcome.result}).decode()}
    except NotJson as refusal:
        why = str(refusal)
        return {"status": "failed", "error": why, "final": True, "result": '{"result":null}'}


def _flush() -> None:
    """Let nothing wait in a buffer, of Python's or of C's, that was written before."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):  # a task may have closed or replaced it
            stream.flush()
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).fflush(None)


if __name__ == "__main__":
    main()
