"""Jobs whose tasks do to their process whatever a task may do."""

from __future__ import annotations

import ctypes
import io
import logging
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading
import time
from decimal import Decimal

from pydantic import BaseModel

from jobroom.client.extension import Extension
from jobroom.client.task import current_task
from jobroom.worker.functions import job


@job
def give(value: object) -> object:
    return value


@job
def pid() -> int:
    return os.getpid()


@job
def leave(code: int) -> None:
    os._exit(code)


@job
def crash() -> None:
    ctypes.string_at(0)


@job
def signal_self(number: int) -> None:
    os.kill(os.getpid(), number)
    time.sleep(0.01)


@job
def fail(message: str) -> None:
    raise ValueError(message)


@job
def go_out(code: int) -> None:
    sys.exit(code)


@job
def catastrophe() -> bool:
    return bool(re.match(r"(a+)+$", "a" * 40 + "b"))


@job
def rest(seconds: float, started: str = "") -> str:
    if started:
        pathlib.Path(started).write_text(str(os.getpid()))
    time.sleep(seconds)
    return "rested"


@job
def stubborn(started: str) -> None:
    pathlib.Path(started).touch()
    while True:
        try:
            time.sleep(60)
        except BaseException:  # noqa: BLE001, S112  # as bad code does
            continue


@job(timeout_seconds=0.5)
def too_slow() -> None:
    time.sleep(60)


@job(memory_mb=150)
def eat(children: bool = False) -> int:
    if children:
        subprocess.run([sys.executable, "-c", "x = bytearray(400 << 20); input()"], check=False)
    eaten = []
    while True:
        eaten.append(b"x" * (8 << 20))


@job(memory_mb=150)
def no_memory() -> None:
    raise MemoryError


@job(memory_mb=150)
def modest() -> int:
    return len(bytearray(20 << 20))


@job
def beget(pids: str, apart: bool = False) -> None:
    made = subprocess.Popen(["sleep", "300"], start_new_session=apart)
    pathlib.Path(pids).write_text(f"{os.getpid()} {made.pid}")
    made.wait()


@job
def stepwise() -> list[bool]:
    task = current_task()
    return [task.progress(0.5, "half"), task.progress(None, "more"), task.cancelled]


@job
def complete_itself() -> None:
    current_task().complete(1)


@job
def say(times: int = 1) -> None:
    for number in range(times):
        print(f"out {number}")  # noqa: T201  # it is what is tested
        os.write(1, f"raw {number}\n".encode())
        current_task().log(f"log {number}\n")
        sys.stderr.write(f"err {number}\n")
        subprocess.run(["echo", f"sub {number}"], check=True)


@job
def log_number() -> None:
    current_task().log(5)


@job
def say_in_c(text: str) -> None:
    ctypes.CDLL(None).printf(text.encode())


@job
def warn() -> None:
    logging.getLogger("my.tool").warning("beware")


@job
def spill(size: int) -> int:
    piece = b"\xff\x00binary\n" * 8192
    for _ in range(size // len(piece)):
        os.write(1, piece)
    return size


@job
def halves() -> None:
    for byte in "名前\0".encode():
        os.write(1, bytes([byte]))
        time.sleep(0.002)


@job
def half() -> None:
    os.write(1, "名".encode()[:1])


@job
def haunt() -> None:
    def go_on():
        while True:
            os.write(1, b"ghost\n" * 1000)

    threading.Thread(target=go_on, daemon=True).start()


@job
def fork() -> int:
    forked = os.fork()
    if forked == 0:
        current_task().progress(0.9)
        return -1
    os.waitpid(forked, 0)
    return 1


@job
async def async_rest(started: str) -> None:
    import asyncio

    pathlib.Path(started).touch()  # noqa: ASYNC240  # a moment, on a local disk
    await asyncio.sleep(60)


@job
def exact(value: Decimal) -> str:
    return str(value)


@job
def unjson() -> float:
    return float("inf")


@job
def subprocess_ends_on_sigterm() -> int:
    made = subprocess.Popen(["sleep", "60"])
    made.terminate()
    return made.wait()


@job
def forked_ends_on_sigterm() -> int:
    forked = os.fork()
    if forked == 0:
        time.sleep(60)
    os.kill(forked, signal.SIGTERM)
    return os.waitstatus_to_exitcode(os.waitpid(forked, 0)[1])


@job
def environment(name: str) -> str | None:
    return os.environ.get(name)


@job
def where() -> list[object]:
    umask = os.umask(0)
    os.umask(umask)
    return [str(pathlib.Path.cwd()), umask, signal.getitimer(signal.ITIMER_REAL)[0]]


def _redirect() -> None:
    other = os.open(os.devnull, os.O_WRONLY)
    for number in (1, 2):
        os.dup2(other, number)


def _ignore_signals() -> None:
    for number in (signal.SIGUSR1, signal.SIGCHLD):
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])


SPOILS = {
    "folder": lambda: os.chdir("/"),
    "umask": lambda: os.umask(0o777),
    "alarm": lambda: signal.alarm(600),
    "signals": _ignore_signals,
    "descriptors": lambda: os.closerange(0, 3),
    "redirected": _redirect,
    "nonblocking": lambda: os.set_blocking(1, False),
    "replaced": lambda: setattr(sys, "stdout", io.StringIO()),
    "none": lambda: setattr(sys, "stderr", None),
    "closed": lambda: getattr(sys, "stdout").close(),  # noqa: B009  # that of its moment
    "detached": lambda: getattr(sys, "stderr").detach(),  # noqa: B009  # as above
}


@job
def spoil(what: str) -> int:
    SPOILS[what]()
    return os.getpid()


class Rotate(Extension):
    category = "modifiers"
    angle: float

    def run(self, vis, **kwargs) -> dict:
        return {"angle": self.angle, "vis": vis}


class Point(BaseModel):
    x: int


@job
def move(point: Point, by: int = 1) -> Point:
    return Point(x=point.x + by)
