"""Holding the file of a queue open, in whichever process and for as long as it is used."""

from __future__ import annotations

import ctypes
import os
import re
import threading
import weakref
from functools import cache
from pathlib import Path
from urllib.parse import quote

from jobroom.errors import ConfigurationError
from jobroom.service.queue import JobQueue
from jobroom.settings import read_settings

_NAMES_A_SETTING = re.compile(r"(?: by|, or set) ZNDRAW_JOBLIB_DATABASE_URL")


class OpenFile:
    """A queue's file, opened by this process when it is first asked for, and again after a fork.

    It is closed with the object, or by the end of the process.
    """

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self._lock = threading.Lock()
        self._queue: JobQueue | None = None
        self._closing: weakref.finalize[[], OpenFile] | None = None
        _opened().add(self)

    def queue(self) -> JobQueue:
        """The open queue. Raises ConfigurationError with one sentence on what to do."""
        return self._queue or self._open()

    def _open(self) -> JobQueue:
        with self._lock:
            if self._queue is None:
                opened = _open_queue(self.path)
                self._closing = weakref.finalize(self, opened.close)
                self._queue = opened
            return self._queue

    def close(self) -> None:
        """Let go of the file; the next use opens it again."""
        with self._lock:
            self._queue = None
            if self._closing is not None:
                self._closing()

    def forget(self) -> None:
        """This process is a fork: what is open belongs to the other one, and stays untouched."""
        self._lock = threading.Lock()  # a thread of the other process may have held it
        if self._queue is not None and self._closing is not None:
            self._closing.detach()
            # SQLite forbids even to close here what was opened there, as the last reference would.
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._queue))
        self._queue = None


def _open_queue(path: Path) -> JobQueue:
    if _is_missing(path.parent):
        raise ConfigurationError(f"The folder {path.parent} does not exist; make it first.")
    try:
        settings = read_settings()
    except ValueError as error:
        raise ConfigurationError(str(error)) from error
    url = f"sqlite:///{quote(str(path))}"
    try:
        named = {"database_url": url, "database_url_arn": None}
        return JobQueue.open(settings.model_copy(update=named))
    except ConfigurationError as error:
        # Here the caller names the file, and no setting does.
        raise ConfigurationError(_NAMES_A_SETTING.sub("", str(error))) from error


def _is_missing(folder: Path) -> bool:
    try:
        return not folder.is_dir()
    except PermissionError:  # it may be there; SQLite will say that it may not be opened
        return False


@cache
def _opened() -> weakref.WeakSet[OpenFile]:
    """All that may be open in this process; a fork of it forgets them."""
    opened: weakref.WeakSet[OpenFile] = weakref.WeakSet()

    def forget_all() -> None:
        for each in opened:
            each.forget()

    os.register_at_fork(after_in_child=forget_all)
    return opened
