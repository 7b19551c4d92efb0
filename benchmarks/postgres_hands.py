"""One process that works on a queue in PostgreSQL: raw psycopg, ours, or a peer.

Run: python benchmarks/postgres_hands.py KIND URL NUMBER

It does what the lines of its input say, ``submit 100`` say, and answers each by ``ready``.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import json
import logging
import sys
import time
import uuid
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

PAYLOAD = {"angle": 90, "axis": "z", "note": "x" * 160}
TEXT = json.dumps(PAYLOAD)
NAME = "bench"


class Hands(Protocol):
    """What one process can do."""

    def submit(self) -> None:
        """Add a task, durably."""

    def work(self) -> bool:
        """Take a task, then complete it, by two transactions; False if it got none."""

    def close(self) -> None:
        """Let go of the connection."""


class Raw:
    """The least that may be called a queue: one table, one index, one statement a step."""

    TABLE = (
        "CREATE TABLE task (seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,"
        " job bigint NOT NULL, status text NOT NULL, priority int NOT NULL, payload text NOT NULL,"
        " created_at bigint NOT NULL, worker text, attempt int NOT NULL)"
    )
    INDEX = "CREATE INDEX ix_task_pending ON task (priority DESC, seq) WHERE status = 'pending'"
    SUBMIT = (
        "INSERT INTO task (job, status, priority, payload, created_at, attempt)"
        " VALUES (%s, 'pending', %s, %s, %s, 0) RETURNING seq"
    )
    CLAIM = (
        "UPDATE task SET status = 'running', worker = %s, attempt = attempt + 1 WHERE seq ="
        " (SELECT seq FROM task WHERE status = 'pending' ORDER BY priority DESC, seq"
        " FOR UPDATE SKIP LOCKED LIMIT 1) RETURNING seq, payload, attempt"
    )
    COMPLETE = (
        "UPDATE task SET status = 'completed' WHERE seq = %s AND status = 'running'"
        " AND attempt = %s AND worker = %s"
    )

    def __init__(self, url: str, number: int) -> None:
        import psycopg

        self._connection = psycopg.connect(url, autocommit=True, prepare_threshold=0)
        self._run = self._connection.cursor().execute
        self.close = self._connection.close
        self._me = f"{NAME}{number}"

    def set_up(self) -> None:
        """Its schema."""
        for statement in (self.TABLE, self.INDEX):
            self._run(statement)

    def submit(self) -> None:
        """One INSERT."""
        values = (1, 0, TEXT, 1_790_000_000_000_000)
        self._run(self.SUBMIT, values).fetchone()

    def work(self) -> bool:
        """Two UPDATEs."""
        row = self._run(self.CLAIM, (self._me,)).fetchone()
        if row is None:
            return False
        done = self._run(self.COMPLETE, (row[0], row[2], self._me))
        assert done.rowcount == 1
        return True


class Ours:
    """The use cases, as an embedding program calls them."""

    def __init__(self, url: str, number: int) -> None:
        from embedded import OurQueue

        from jobroom.service.queue import JobQueue
        from jobroom.settings import JobLibSettings

        self._queue = JobQueue.open(JobLibSettings(database_url=url))
        self._ours = OurQueue(self._queue.run, identity=f"{NAME}{number}")
        self.submit = self._ours.submit
        self.claim = self._ours.claim
        self.complete = self._ours.complete
        self.close = self._queue.close

    @property
    def held_id(self) -> str:
        """The task claimed last."""
        return self._ours.held.id

    def work(self) -> bool:
        """Two transactions."""
        self._ours.claim_and_complete()
        return True


class Statements:
    """Our own statements on our own schema, recorded from one call each, without our Python."""

    def __init__(self, url: str, number: int) -> None:
        from jobroom.store import postgres_line

        sent: list[tuple[str, tuple[Any, ...]]] = []
        ours = Ours(url, number)
        send = postgres_line.Line.send

        def spy(line: Any, steps: Any) -> Any:
            sent.extend((step.text, step.values) for step in steps)
            return send(line, steps)

        postgres_line.Line.send = spy  # type: ignore[method-assign,assignment]  # for three calls
        try:
            for call in (ours.submit, ours.claim, ours.complete):
                call()
        finally:
            postgres_line.Line.send = send  # type: ignore[method-assign]
            ours.close()
        assert len(sent) == 3, "a submission, a claim and a report are a statement each"
        self._connect(url)
        self._submit, self._claim, self._complete = (
            (postgres_line.numbered(text), values) for text, values in sent
        )
        self._held_id = ours.held_id

    def _connect(self, url: str) -> None:
        import psycopg

        connection = psycopg.connect(
            url, autocommit=True, prepare_threshold=0, cursor_factory=psycopg.RawCursor
        )
        connection.execute(b"SET plan_cache_mode = force_generic_plan")
        connection.execute(b"SET enable_seqscan = off")
        self._run = connection.cursor().execute
        self.close = connection.close

    def submit(self) -> None:
        """One statement."""
        text, values = self._submit
        fresh = str(uuid.uuid4())
        self._run(text, [fresh if _is_id(value) else value for value in values]).fetchone()

    def work(self) -> bool:
        """Two statements."""
        text, values = self._claim
        row = self._run(text, values).fetchone()
        if row is None:
            return False
        text, values = self._complete
        named = [row[1] if value == self._held_id else value for value in values]
        assert self._run(text, named).fetchone() is not None
        return True


def _is_id(value: object) -> bool:
    return isinstance(value, str) and len(value) == 36


class Http:
    """A client of our server."""

    def __init__(self, url: str, number: int) -> None:
        import rawhttp
        import servers

        self._ask = rawhttp.request
        self._connection = rawhttp.Connection(int(url.rpartition(":")[2]))
        self.close = self._connection.close
        self._token = servers.token(f"{NAME}{number}")
        job = {"category": "modifiers", "name": "Rotate"}
        self._call("PUT", "/v1/joblib/rooms/r1/jobs", job)

    def submit(self) -> None:
        """One request."""
        self._call("POST", "/v1/joblib/rooms/r1/tasks/r1:modifiers:Rotate", {"payload": PAYLOAD})

    def work(self) -> bool:
        """Two requests."""
        task = self._call("POST", "/v1/joblib/tasks/claim", {"start": True})["task"]
        if task is None:
            return False
        done = {"status": "completed", "attempt": task["attempt"]}
        self._call("PATCH", f"/v1/joblib/tasks/{task['id']}", done)
        return True

    def _call(self, method: str, path: str, body: object) -> Any:
        return self._connection.call(self._ask(method, path, body, token=self._token))


class Procrastinate:
    """Its own calls: ``defer_async``, and ``fetch_job`` and ``finish_job`` as its worker does."""

    def __init__(self, url: str, number: int) -> None:  # noqa: ARG002 - as all kinds
        import procrastinate
        from procrastinate.jobs import Status

        logging.getLogger("procrastinate").setLevel(logging.ERROR)  # it warns of a script's app
        self._done = Status.SUCCEEDED
        self._loop = asyncio.new_event_loop()
        connector = procrastinate.PsycopgConnector(conninfo=url, min_size=1, max_size=1)
        self._app = procrastinate.App(connector=connector)

        def bench(**payload: object) -> None:
            raise AssertionError(payload)

        self._task = self._app.task(name=NAME, queue=NAME)(bench)
        self._await(self._app.open_async())

    def set_up(self) -> None:
        """Its schema."""
        self._await(self._app.schema_manager.apply_schema_async())

    def close(self) -> None:
        """Its pool."""
        self._await(self._app.close_async())

    def join(self) -> None:
        """Be one of its workers."""
        self._worker = self._await(self._app.job_manager.register_worker())

    def submit(self) -> None:
        """One call."""
        self._await(self._task.defer_async(**PAYLOAD))

    def work(self) -> bool:
        """Two calls."""
        return bool(self._await(self._work()))

    async def _work(self) -> bool:
        job = await self._app.job_manager.fetch_job(queues=[NAME], worker_id=self._worker)
        if job is None:
            return False
        await self._app.job_manager.finish_job(job, status=self._done, delete_job=False)
        return True

    def _await(self, made: Awaitable[Any]) -> Any:
        return self._loop.run_until_complete(made)


class Pgqueuer:
    """Its own calls: ``enqueue``, and ``dequeue`` and ``log_jobs`` as its manager does."""

    def __init__(self, url: str, number: int) -> None:  # noqa: ARG002 - as all kinds
        import asyncpg  # type: ignore[import-untyped]  # ships none
        from pgqueuer.db import AsyncpgDriver
        from pgqueuer.ports.repository import EntrypointExecutionParameter
        from pgqueuer.queries import Queries
        from pgqueuer.types import QueueEntrypoint, QueueManagerId

        self._loop = asyncio.new_event_loop()
        self._connection = self._await(asyncpg.connect(url))
        self._queries = Queries(AsyncpgDriver(self._connection))
        self._entrypoints = {
            QueueEntrypoint(NAME): EntrypointExecutionParameter(concurrency_limit=0)
        }
        self._me = QueueManagerId(uuid.uuid4())
        self._timeout = dt.timedelta(seconds=60)
        self._payload = TEXT.encode()

    def set_up(self) -> None:
        """Its schema; durable is its default."""
        self._await(self._queries.install())

    def close(self) -> None:
        """Its connection."""
        self._await(self._connection.close())

    def submit(self) -> None:
        """One call."""
        self._await(self._queries.enqueue(NAME, self._payload))

    def work(self) -> bool:
        """Two calls."""
        return bool(self._await(self._work()))

    async def _work(self) -> bool:
        jobs = await self._queries.dequeue(
            batch_size=1,
            entrypoints=self._entrypoints,
            queue_manager_id=self._me,
            global_concurrency_limit=None,
            heartbeat_timeout=self._timeout,
        )
        if not jobs:
            return False
        await self._queries.log_jobs([(jobs[0], "successful", None)])
        return True

    def _await(self, made: Awaitable[Any]) -> Any:
        return self._loop.run_until_complete(made)


KINDS: dict[str, Callable[[str, int], Hands]] = {
    "raw": Raw,
    "ours": Ours,
    "statements": Statements,
    "http": Http,
    "procrastinate": Procrastinate,
    "pgqueuer": Pgqueuer,
}
LONGEST_EMPTY_SECONDS = 10


def do(step: str, count: int, hands: Hands) -> None:
    """One step, so many times. A claim that finds what others hold just then is repeated."""
    if step != "work":
        for _ in range(count):
            getattr(hands, step)()
        return
    done = 0
    last = time.monotonic()
    while done < count:
        if hands.work():
            done += 1
            last = time.monotonic()
        assert time.monotonic() - last < LONGEST_EMPTY_SECONDS, "there is nothing to claim"


def main() -> None:
    """Do what the input says."""
    kind, url, number = sys.argv[1:]
    hands = KINDS[kind](url, int(number))
    print("ready", flush=True)
    for line in sys.stdin:
        step, count = line.split()
        do(step, int(count), hands)
        print("ready", flush=True)
    hands.close()


if __name__ == "__main__":
    main()
