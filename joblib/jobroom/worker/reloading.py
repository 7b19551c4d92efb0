"""``--reload``: the worker is a process beneath this one, and begun anew when its files change.

What changed is looked for by the files' times. The old worker finishes what it runs before the
new one begins; code that does not parse is told, and the old worker goes on until it is mended.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import queue
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import FrameType

from jobroom.worker.guardian import Guardian

LOOK_SECONDS = 0.5
MOST_FILES = 10_000
"""How many files are watched: nobody edits more, and each look asks for all their times."""
SKIPPED = ("__pycache__", "node_modules", "site-packages")
USAGE = 2

State = dict[Path, tuple[int, int]]


def run(modules: Sequence[str], *, command: Sequence[str] | None = None) -> int:
    """Run this very command without ``--reload`` until it is told to stop; its exit code.

    ``modules`` are the arguments of ``jobroom worker``: the folders that they are in are watched.
    """
    if os.name != "posix":
        _say("--reload needs Linux or macOS: start the worker again by hand on this machine.")
        return USAGE
    again = [sys.executable, *(one for one in sys.orig_argv[1:] if one != "--reload")]
    return Reloader(Watch(folders_of(modules)), again if command is None else command).run()


def folders_of(modules: Iterable[str]) -> list[Path]:
    """Return the folders whose files the modules may consist of, or import."""
    return sorted({_folder_of(module) for module in modules})


def _folder_of(module: str) -> Path:
    path, is_file, _ = module.partition(".py")
    if is_file and Path(f"{path}.py").is_file():
        return Path(f"{path}.py").resolve().parent
    top = module.partition(":")[0].partition(".")[0]
    here = Path.cwd()
    if (here / top).is_dir() or (here / f"{top}.py").is_file():
        return here
    with contextlib.suppress(ImportError, ValueError):
        spec = importlib.util.find_spec(top)
        if spec is not None and spec.origin is not None:
            return Path(spec.origin).resolve().parent
    return here  # the worker says what is wrong with the name


class Watch:
    """The Python files below some folders."""

    def __init__(self, folders: Iterable[Path]) -> None:
        self._folders = tuple(folders)
        self._state: State = self._look()

    def changes(self) -> set[Path]:
        """Return the files that are new, gone or changed since it was asked last."""
        before, self._state = self._state, self._look()
        return {path for path, _ in before.items() ^ self._state.items()}

    def _look(self) -> State:
        state: State = {}
        for path in self._files():
            with contextlib.suppress(OSError):
                found = path.stat()
                state[path] = (found.st_mtime_ns, found.st_size)
            if len(state) >= MOST_FILES:
                break
        return state

    def _files(self) -> Iterator[Path]:
        for top in self._folders:
            for folder, below, files in os.walk(top):
                below[:] = sorted(one for one in below if _is_watched(Path(folder) / one))
                yield from (Path(folder) / one for one in files if one.endswith(".py"))


def _is_watched(folder: Path) -> bool:
    skipped = folder.name in SKIPPED or folder.name.startswith(".")
    return not (skipped or (folder / "pyvenv.cfg").exists())


def fault_in(paths: Iterable[Path]) -> str | None:
    """Say what is wrong with the first file that does not parse; None if all do."""
    for path in sorted(paths):
        try:
            if path.is_file():  # a pipe would be waited for
                compile(path.read_bytes(), str(path), "exec", dont_inherit=True)
        except SyntaxError as fault:
            place = path.name if fault.lineno is None else f"{path.name}:{fault.lineno}"
            return f"{place}: {fault.msg}"
        except (ValueError, MemoryError, RecursionError) as fault:
            return f"{path.name}: {str(fault) or 'it is nested too deeply'}"
        except OSError:  # gone, or not ours to read
            continue
    return None


class Reloader:
    """Runs a command, and anew when what it was made of has changed; ``run`` once."""

    def __init__(self, watch: Watch, command: Sequence[str]) -> None:
        self._watch = watch
        self._command = list(command)
        self._events: queue.SimpleQueue[int] = queue.SimpleQueue()
        self._guardian = Guardian()
        self._worker: subprocess.Popen[bytes] | None = None
        self._changed: set[Path] = set()
        self._is_ending = False
        self._is_reloading = False

    def run(self) -> int:
        """Return the exit code of the worker that was told to stop, or came to its end."""
        heard = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1)
        before = {number: signal.signal(number, self._on_signal) for number in heard}
        try:
            self._start()
            while (code := self._mind_worker()) is None:
                self._hear()
                self._mind_files()
            return code
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
            self._guardian.close()
            if self._worker is not None:
                self._worker.wait()

    def _start(self) -> None:
        # In a session of its own: what the terminal sends is passed on, and comes but once.
        self._worker = subprocess.Popen(self._command, start_new_session=True)  # noqa: S603
        self._guardian.guard(self._worker.pid)
        self._changed.clear()
        self._is_reloading = False

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        self._events.put(number)

    def _hear(self) -> None:
        try:
            number = self._events.get(timeout=LOOK_SECONDS)
        except queue.Empty:
            return
        if number != signal.SIGUSR1:
            self._is_ending = True
        self._signal(signal.SIGTERM if number == signal.SIGHUP else number)

    def _signal(self, number: int) -> None:
        if self._worker is not None and self._worker.poll() is None:
            self._worker.send_signal(number)

    def _mind_worker(self) -> int | None:
        """Return the exit code if this is the end; begin the next worker if one is due."""
        if self._worker is None:
            return 0 if self._is_ending else None
        code = self._worker.poll()
        if code is None:
            return None
        self._guardian.forget(self._worker.pid)
        self._worker = None
        if self._is_ending or (code == 0 and not self._is_reloading):
            return 128 - code if code < 0 else code
        if self._is_reloading:
            self._start()
        else:
            _say(f"The worker ended with exit code {code}: it begins again when a file changes.")
        return None

    def _mind_files(self) -> None:
        new = self._watch.changes()
        self._changed |= new
        if not new or self._is_ending or self._is_reloading:
            return
        if (fault := fault_in(self._changed)) is not None:
            _say(f"{fault}. The worker goes on with the old code until this is mended.")
            return
        names = ", ".join(sorted(path.name for path in self._changed)[:3])
        if self._worker is None:
            _say(f"{names} changed: the worker begins again.")
            self._start()
            return
        _say(f"{names} changed: the worker finishes what runs and begins again.")
        self._is_reloading = True
        self._signal(signal.SIGTERM)


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)  # noqa: T201  # a person has asked for it
