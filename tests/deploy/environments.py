"""A function on AWS Lambda: each of its environments is the real runtime client on an artifact."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, Self

from artifact import Built
from runtime_api import LARGEST_EVENT, Answer, Invocation, RuntimeApi, failure

INIT_SECONDS = 60
"""AWS gives 10 s; a busy machine of ours may need more, and that is no fault of the function's."""
EXIT_LOOK_SECONDS = 0.05
SETTLE_SECONDS = 10
RETRIES = 2
"""What was invoked asynchronously is tried again so often."""


class Throttled(Exception):
    """All environments that the function may have are busy."""


class TooLarge(Exception):
    """The event has more bytes than Lambda takes."""


class Launch(NamedTuple):
    """How an environment is started."""

    command: list[str | Path]
    folder: Path
    variables: dict[str, str]
    output: Path


class Environment:
    """One execution environment: started by its first event, frozen whenever it has none."""

    def __init__(self, launch: Launch, *, freezes: bool = True) -> None:
        self._launch = launch
        self._freezes = freezes
        self._api = RuntimeApi()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        return self._process and self._process.pid

    def invoke(self, event: bytes, seconds: float, tell: Callable[[Answer], None]) -> bool:
        """Run the function, and tell what came of it; whether the environment is good for more."""
        if self._process is None and (failed := self._start()) is not None:
            tell(failed)
            return False
        answer = self._run(event, seconds)
        if answer is not None:
            tell(answer)
            # Frozen as soon as it asks for the next event, and no earlier.
            if self._until(lambda: self._api.is_waiting, seconds):
                if self._freezes:
                    self._signal(signal.SIGSTOP)
                return True
            return False
        is_over = self._process is not None and self._process.poll() is None
        self.kill()
        late = failure("Sandbox.Timedout", f"Task timed out after {seconds:.2f} seconds")
        tell(late if is_over else failure("Runtime.ExitError", "Runtime exited"))
        return False

    def kill(self) -> None:
        """End it, whatever it does."""
        self._signal(signal.SIGKILL)
        if self._process is not None:
            self._process.wait()

    def close(self) -> None:
        """Kill it, and close what it spoke to."""
        self.kill()
        self._api.close()

    def _start(self) -> Answer | None:
        """None, or why the function could not be started."""
        launch = self._launch
        address = f"127.0.0.1:{self._api.server_port}"
        with launch.output.open("ab") as output:
            self._process = subprocess.Popen(
                launch.command,
                cwd=launch.folder,
                env={**launch.variables, "AWS_LAMBDA_RUNTIME_API": address},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                # Of our session: else nothing would wake it, and so end it, if we die.
                process_group=0,
            )
        api = self._api
        self._until(lambda: api.is_waiting or api.init_error is not None, INIT_SECONDS)
        if api.is_waiting:
            return None
        self.kill()
        return api.init_error or failure(
            "Runtime.InitError", "the runtime never asked for an event"
        )

    def _run(self, event: bytes, seconds: float) -> Answer | None:
        self._signal(signal.SIGCONT)
        self._api.give(Invocation(str(uuid.uuid4()), event, time.time() + seconds))
        self._until(lambda: self._api.answer is not None, seconds)
        return self._api.answer

    def _until(self, is_so: Callable[[], bool], seconds: float) -> bool:
        ends = time.monotonic() + seconds
        with self._api.changed:
            while not is_so():
                left = ends - time.monotonic()
                if left <= 0 or self._process is None or self._process.poll() is not None:
                    return is_so()
                self._api.changed.wait(min(left, EXIT_LOOK_SECONDS))
        return True

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)


class Function:
    """A function, with the environments that it has now: none before its first event.

    ``variables`` are its environment variables, ``paths`` folders beside the artifact in which its
    handler may be found. What it prints is in ``output``.
    """

    def __init__(
        self,
        handler: str,
        built: Built,
        output: Path,
        *,
        variables: Mapping[str, str] | None = None,
        paths: tuple[Path, ...] = (),
        timeout: float = 29.0,
        concurrency: int = 4,
        freezes: bool = True,
    ) -> None:
        self.timeout = timeout
        self.started = 0  # environments: cold starts
        self.throttled = 0
        self.failed = 0
        self._output = output
        self._freezes = freezes
        self._launch = Launch(
            [built.python, "-m", "awslambdaric", handler],
            built.folder,
            {**platform_variables(handler, built, paths), **(variables or {})},
            output,
        )
        self._concurrency = concurrency
        self._changed = threading.Condition()
        self._idle: list[Environment] = []
        self._all: set[Environment] = set()
        self._settling: set[Environment] = set()  # have answered and are not frozen yet
        self._pool = ThreadPoolExecutor(concurrency)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    @property
    def output(self) -> str:
        """What all its environments have printed."""
        return self._output.read_text(errors="replace") if self._output.exists() else ""

    @property
    def pids(self) -> list[int]:
        """The processes of its environments."""
        with self._changed:
            return [each.pid for each in self._all if each.pid is not None]

    def invoke(self, event: Any) -> Future[Answer]:
        """Invoke it synchronously; the answer comes when it comes."""
        sent = json.dumps(event, ensure_ascii=False).encode()
        if len(sent) > LARGEST_EVENT:
            raise TooLarge
        environment = self._take()
        answer: Future[Answer] = Future()
        self._pool.submit(self._run, environment, sent, answer)
        return answer

    def call(self, event: Any) -> Any:
        """Invoke it and wait: the function's JSON."""
        return self.invoke(event).result().json()

    def send(self, event: Any, *, copies: int = 1, late: float = 0.0) -> list[Future[Answer]]:
        """Invoke it asynchronously, as schedulers do: at least once, and maybe late."""
        deliveries: list[Future[Answer]] = [Future() for _ in range(copies)]
        for delivery in deliveries:
            threading.Thread(target=self._deliver, args=[event, late, delivery]).start()
        return deliveries

    def kill_one(self) -> bool:
        """Kill an environment, one that is busy if there is one; whether there was any."""
        with self._changed:
            running = [each for each in self._all if each.pid is not None]
            if not running:
                return False
            busy = [each for each in running if each not in self._idle]
            chosen = random.choice(busy or running)
            if chosen in self._idle:
                self._idle.remove(chosen)
                self._all.remove(chosen)
                chosen.close()
            else:
                chosen.kill()
            self._changed.notify_all()
        return True

    def close(self) -> None:
        """End all its environments."""
        with self._changed:
            for environment in self._all:
                environment.kill()
        self._pool.shutdown()
        for environment in self._all:
            environment.close()

    def _take(self) -> Environment:
        """The environment that was used last, or a new one."""
        with self._changed:
            # One that has answered is free in a moment: whoever had that answer may be back sooner.
            self._changed.wait_for(lambda: self._idle or not self._settling, SETTLE_SECONDS)
            if self._idle:
                return self._idle.pop()
            if len(self._all) >= self._concurrency:
                self.throttled += 1
                raise Throttled
            self.started += 1
            environment = Environment(self._launch, freezes=self._freezes)
            self._all.add(environment)
            return environment

    def _run(self, environment: Environment, event: bytes, future: Future[Answer]) -> None:
        def tell(answer: Answer) -> None:
            with self._changed:
                self.failed += bool(answer.error)
                self._settling.add(environment)
            future.set_result(answer)

        is_good = environment.invoke(event, self.timeout, tell)
        with self._changed:
            self._settling.discard(environment)
            if is_good:
                self._idle.append(environment)
            else:
                self._all.discard(environment)
            self._changed.notify_all()
        if not is_good:
            environment.close()

    def _deliver(self, event: Any, late: float, delivery: Future[Answer]) -> None:
        time.sleep(late)
        tries = 0
        while True:
            try:
                answer = self.invoke(event).result()
            except Throttled:
                time.sleep(EXIT_LOOK_SECONDS)
                continue
            tries += 1
            if not answer.error or tries > RETRIES:
                delivery.set_result(answer)
                return


def platform_variables(handler: str, built: Built, paths: tuple[Path, ...]) -> dict[str, str]:
    """What every function finds in its environment, with nothing of this machine's user."""
    return {
        "_HANDLER": handler,
        "AWS_ACCESS_KEY_ID": "none",
        "AWS_DEFAULT_REGION": "eu-west-1",
        "AWS_EXECUTION_ENV": f"AWS_Lambda_python{built.version}",
        "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "512",
        "AWS_LAMBDA_FUNCTION_NAME": "jobroom",
        "AWS_LAMBDA_FUNCTION_VERSION": "$LATEST",
        "AWS_LAMBDA_INITIALIZATION_TYPE": "on-demand",
        "AWS_LAMBDA_LOG_FORMAT": "JSON",
        "AWS_LAMBDA_LOG_GROUP_NAME": "/aws/lambda/jobroom",
        "AWS_LAMBDA_LOG_LEVEL": "INFO",
        "AWS_LAMBDA_LOG_STREAM_NAME": "2026/11/30/[$LATEST]0",
        "AWS_REGION": "eu-west-1",
        "AWS_SECRET_ACCESS_KEY": "none",
        "AWS_SESSION_TOKEN": "none",
        "LAMBDA_TASK_ROOT": str(built.folder),
        "LANG": "en_US.UTF-8",
        "PATH": os.defpath,
        "PYTHONPATH": os.pathsep.join(map(str, paths)),
        "TZ": ":UTC",
    }
