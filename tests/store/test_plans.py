"""Each hot statement searches the index that was made for it, however large the backlog."""

from __future__ import annotations

import re
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobroom.service.queue import JobQueue
from jobroom.settings import JobLibSettings
from jobroom.store import (
    claims,
    crews,
    edges,
    jobs,
    late_keys,
    lists,
    log_pages,
    notices,
    outlook,
    overdue,
    planned,
    prospects,
    reports,
    rosters,
    state,
    task_logs,
    tasks,
    turns,
    workers,
)
from jobroom.store.statement import Statement

STATUSES = ("pending", "claimed", "running", "completed", "failed", "cancelled", "blocked")
BY_ID = "(id=?)"
BY_SEQ = "task USING INTEGER PRIMARY KEY (rowid=?)"
LINKS = "worker_job_link USING COVERING INDEX"

PLAINLY = [
    BY_SEQ,
    LINKS,
    "ahead USING INDEX ix_task_ready (job_seq=?)",
    "due USING INDEX ix_task_delayed (job_seq=? AND run_at<?)",
    "served USING INDEX ix_task_held (worker_id=?)",
    "worker USING INDEX sqlite_autoindex_worker_1 (id=?)",
]

OF_AN_ATTEMPT = "sqlite_autoindex_task_log_1 (task_seq=? AND attempt=?)"
APPENDED = [
    f"task USING INDEX sqlite_autoindex_task_1 {BY_ID}",
    f"last USING COVERING INDEX {OF_AN_ATTEMPT}",
    f"worker USING INDEX sqlite_autoindex_worker_1 {BY_ID}",
]
EXTENDED = [
    f"task USING INDEX sqlite_autoindex_task_1 {BY_ID}",
    f"task_log USING INDEX {OF_AN_ATTEMPT[:-1]} AND upto=?)",
    f"later USING COVERING INDEX {OF_AN_ATTEMPT[:-1]} AND upto>?)",
]

HOT: dict[str, tuple[Statement, list[str]]] = {
    "insert": (tasks._ADD, ["job USING INTEGER PRIMARY KEY"]),
    "insert, telling": (tasks._ADD_TELLING, ["job USING INTEGER PRIMARY KEY"]),
    "insert in turn": (tasks._ADD_IN_TURN, ["fair_turn USING", "(job_seq=? AND priority=?"]),
    "by idempotency key": (tasks._BY_KEY, ["ix_task_idempotency (created_by_id=? AND"]),
    "free a key": (tasks._FORGET_KEY, [BY_SEQ]),
    "fair turn": (
        turns.TAKE,
        [
            "ix_task_ready (job_seq=? AND priority=?",
            "ix_fair_turn_next (job_seq=? AND priority=?)",
            "ix_task_idempotency (created_by_id=? AND",
        ],
    ),
    "claim": (claims._CLAIM, [BY_SEQ, LINKS, "ahead USING INDEX ix_task_ready (job_seq=?)"]),
    "claim and start": (claims._CLAIM_AND_START, [BY_SEQ, LINKS, "ix_task_ready (job_seq=?)"]),
    "claim plainly": (claims._CLAIM_PLAINLY, PLAINLY),
    "claim and start plainly": (claims._CLAIM_AND_START_PLAINLY, PLAINLY),
    "claim what fits": (
        claims._CLAIM_OF_WHAT_FITS[False, True],
        [BY_SEQ, LINKS, "ahead USING INDEX ix_task_ready (job_seq=?)"],
    ),
    "claim what fits plainly": (claims._CLAIM_OF_WHAT_FITS[True, False], PLAINLY),
    "too large": (prospects._TOO_LARGE, [BY_SEQ, LINKS, "ix_task_ready (job_seq=?)"]),
    "promote": (prospects._PROMOTE, [LINKS, "ix_task_delayed (job_seq=? AND run_at<?)"]),
    "dead heads": (prospects._DEAD_HEADS, [LINKS, "ix_task_ready (job_seq=?)"]),
    "claimed by request": (claims._CLAIMED_BY_REQUEST, ["ix_task_held (worker_id=?)"]),
    "has claimable": (
        prospects._WAITED_FOR,
        [LINKS, "ix_task_ready (job_seq=?)", "ix_task_delayed (job_seq=? AND run_at<?)"],
    ),
    "outlook of jobs": (
        outlook._of_jobs(4),
        [
            "job USING INTEGER PRIMARY KEY",
            "ahead USING INDEX ix_task_ready (job_seq=?)",
            "delayed USING INDEX ix_task_delayed (job_seq=?)",
        ],
    ),
    "outlook of workers": (
        outlook._of_workers(4),
        [
            f"worker USING COVERING INDEX sqlite_autoindex_worker_1 {BY_ID}",
            LINKS,
            "ix_task_ready (job_seq=?)",
            "ix_task_delayed (job_seq=?",
        ],
    ),
    "idle": (
        prospects._IDLE,
        [
            f"worker USING INDEX sqlite_autoindex_worker_1 {BY_ID}",
            LINKS,
            "ix_task_ready (job_seq=?)",
            "ix_task_delayed (job_seq=? AND run_at<?)",
            "ix_task_held (worker_id=?)",
        ],
    ),
    "start": (reports.START, [f"task USING INDEX sqlite_autoindex_task_1 {BY_ID}"]),
    "progress": (reports.NOTE_PROGRESS, [f"sqlite_autoindex_task_1 {BY_ID}"]),
    "complete": (reports.COMPLETE, [f"sqlite_autoindex_task_1 {BY_ID}"]),
    "fail": (reports.FAIL_FOR_GOOD, [f"sqlite_autoindex_task_1 {BY_ID}"]),
    "hand back": (reports.HAND_BACK, [f"sqlite_autoindex_task_1 {BY_ID}"]),
    "cancel": (reports.CANCEL, [f"sqlite_autoindex_task_1 {BY_ID}"]),
    "log alone": (task_logs.LOOK, [f"sqlite_autoindex_task_1 {BY_ID}"]),
    "append beside a log": (task_logs._APPEND_BESIDE[task_logs.LOOK], APPENDED),
    "append beside progress": (task_logs._APPEND_BESIDE[reports.NOTE_PROGRESS], APPENDED),
    "append beside an end": (task_logs._APPEND_BESIDE[reports.COMPLETE], APPENDED),
    "extend beside a log": (task_logs._EXTEND_BESIDE[task_logs.LOOK], EXTENDED),
    "extend beside an end": (task_logs._EXTEND_BESIDE[reports.COMPLETE], EXTENDED),
    "append": (task_logs._APPEND, APPENDED),
    "reach of a log": (task_logs._REACH, [f"sqlite_autoindex_task_1 {BY_ID}", OF_AN_ATTEMPT]),
    "read a log": (
        log_pages._READ,
        [
            f"sqlite_autoindex_task_1 {BY_ID}",
            f"last USING COVERING INDEX {OF_AN_ATTEMPT}",
            f"last_shown USING COVERING INDEX {OF_AN_ATTEMPT[:-1]} AND upto>?)",
            f"task_log USING INDEX {OF_AN_ATTEMPT[:-1]} AND upto>? AND upto<?)",
        ],
    ),
    "end": (reports._END, [BY_SEQ]),
    "requeue": (reports._REQUEUE, [BY_SEQ]),
    "get": (tasks._GET, [f"sqlite_autoindex_task_1 {BY_ID}"]),
    "get with its place": (
        tasks._GET_PLACED,
        [
            f"sqlite_autoindex_task_1 {BY_ID}",
            *(
                f"ix_task_ready (job_seq=? AND {rest})"
                for rest in (
                    "priority>?",
                    "priority=? AND turn<?",
                    "priority=? AND turn=? AND seq<?",
                )
            ),
        ],
    ),
    "queue position": (
        tasks._POSITION,
        [
            f"ix_task_ready (job_seq=? AND {rest})"
            for rest in ("priority>?", "priority=? AND turn<?", "priority=? AND turn=? AND seq<?")
        ],
    ),
    "queue positions": (tasks._LINE, ["ahead USING INDEX ix_task_ready (job_seq=?)"]),
    "held by nobody": (overdue._HELD_BY_NOBODY, ["ix_task_held (worker_id=?)"]),
    "held by": (overdue._HELD_BY, ["ix_task_held (worker_id=?)"]),
    "due": (overdue._OVERDUE, ["ix_task_due (status=? AND due_at>? AND due_at<?)"]),
    "remove old": (overdue._REMOVE, [BY_SEQ, "ix_task_due (status=? AND due_at>? AND due_at<?)"]),
    "beat": (workers._BEAT, [f"worker USING INDEX sqlite_autoindex_worker_1 {BY_ID}"]),
    "touch": (workers._TOUCH, [f"sqlite_autoindex_worker_1 {BY_ID}"]),
    "touch a speaker": (workers.TOUCH_SPEAKER, [f"sqlite_autoindex_worker_1 {BY_ID}"]),
    "touch a holder": (workers.TOUCH_HOLDER, [f"worker_1 {BY_ID}", f"task_1 {BY_ID}"]),
    "stale workers": (workers._STALE, ["ix_worker_beat (last_heartbeat<?)"]),
    "vanished workers": (workers._HELD_BY_NOBODY, [f"sqlite_autoindex_worker_1 {BY_ID}"]),
    "notices": (notices._LIST, ["notice USING INDEX sqlite_autoindex_notice_1 (worker_id=?)"]),
    "drop notice": (notices._DROP, ["(worker_id=? AND task_id=?)"]),
    "drop notices of": (notices._DROP_OF, ["notice_1 (worker_id=? AND task_id=?)"]),
    "drop old notices": (notices._DROP_OLD, ["ix_notice_created (created_at<?)"]),
    "job by name": (jobs._BY_NAME, ["(room_id=? AND category=? AND name=?)"]),
    "workers of a job": (jobs._workers_of(1), ["ix_worker_job_link_job (job_seq=?)"]),
    "workers of jobs": (jobs._workers_of(4), ["ix_worker_job_link_job (job_seq=?)"]),
    "hide an orphan": (jobs._HIDE, ["ix_task_job (job_seq=? AND status>? AND status<?)"]),
    "orphans": (jobs._ORPHANS, ["ix_task_job (job_seq=? AND status>? AND status<?)"]),
    "workers of an identity": (rosters._OWN, ["ix_worker_identity (identity=? AND id>?)"]),
    "jobs of a room": (jobs._LIST, ["(room_id=?)"]),
    "state": (state._GET, ["queue_state"]),
    "settle": (
        edges._SETTLE,
        [
            "edge USING PRIMARY KEY (dependency_id=?)",
            "way USING PRIMARY KEY (dependency_id=?)",
            "end_of_way USING INTEGER PRIMARY KEY (rowid=?)",
        ],
    ),
    "fail dependents": (
        edges._FAIL,
        [
            BY_SEQ,
            "way USING PRIMARY KEY (dependency_id=?)",
            "ix_edge_dependent (dependent_seq=? AND state=?)",
        ],
    ),
    "set dependents free": (
        edges._PROMOTE,
        [
            BY_SEQ,
            "way USING PRIMARY KEY (dependency_id=?)",
            "open USING COVERING INDEX ix_edge_dependent (dependent_seq=? AND state=?)",
        ],
    ),
    "find dependencies": (planned._find(4), [f"sqlite_autoindex_task_1 {BY_ID}"]),
    "look at tasks": (planned._look_at(4), [f"sqlite_autoindex_task_1 {BY_ID}"]),
    "expect dependents": (planned._expect(4), [f"sqlite_autoindex_task_1 {BY_ID}"]),
    "add in a graph": (planned._ADD, []),
    "add in a graph, in turn": (planned._ADD_IN_TURN, ["fair_turn USING"]),
    "add an edge": (planned._ADD_EDGE, [f"sqlite_autoindex_task_1 {BY_ID}"]),
    "get what was added": (
        planned._get(4),
        [
            f"task USING INDEX sqlite_autoindex_task_1 {BY_ID}",
            "needed USING INDEX ix_edge_dependent (dependent_seq=?)",
            f"dependency USING INDEX sqlite_autoindex_task_1 {BY_ID}",
        ],
    ),
}
OF_ROOMS = [
    "its_job USING INTEGER PRIMARY KEY (rowid=?)",
    "json_each VIRTUAL TABLE INDEX 1:",
]
for (plain, start, fits), claim in claims._CLAIM_IN_ROOMS.items():
    way = PLAINLY if plain else HOT["claim"][1]
    HOT[f"claim in rooms {plain=} {start=} {fits=}"] = (claim, [*way, *OF_ROOMS])
for name, statement in {
    "too large": prospects._TOO_LARGE_IN_ROOMS,
    "promote": prospects._PROMOTE_IN_ROOMS,
    "dead heads": prospects._DEAD_HEADS_IN_ROOMS,
    "has claimable": prospects._WAITED_FOR_IN_ROOMS,
    "idle": prospects._IDLE_IN_ROOMS,
}.items():
    HOT[f"{name} in rooms"] = (statement, [*HOT[name][1], *OF_ROOMS])
HOT["workers of an identity in rooms"] = (
    rosters._OWN_IN_ROOMS,
    [LINKS, "ix_task_held (worker_id=?)", OF_ROOMS[1]],
)
HOT["crew in rooms"] = (
    crews._CREW_IN_ROOMS,
    ["ix_worker_job_link_job (job_seq=?)", "ix_task_held (worker_id=?)", OF_ROOMS[1]],
)
HOT["free a late key"] = (late_keys._FREE, ["ix_task_idempotency (created_by_id=? AND"])
HOT["keep a late key"] = (late_keys._KEEP, [BY_SEQ])
HOT["keep late keys"] = (late_keys._keep_all(4), ["ix_task_idempotency (created_by_id=? AND"])
HOT["linked to in rooms"] = (jobs._LINKED_IN_ROOMS, [LINKS, *OF_ROOMS])
for count in (1, len(STATUSES)):
    HOT[f"page, {count} statuses"] = (
        lists._page(count, of_job=False),
        ["ix_task_room (room_id=? AND status=? AND seq<?)"],
    )
    HOT[f"page of a job, {count} statuses"] = (
        lists._page(count, of_job=True),
        ["ix_task_job (job_seq=? AND status=? AND room_id=? AND seq<?)"],
    )
    HOT[f"count, {count} statuses"] = (
        lists._count(count, of_job=False),
        ["ix_task_room (room_id=? AND status=?)"],
    )
    HOT[f"count of a job, {count} statuses"] = (
        lists._count(count, of_job=True),
        ["ix_task_job (job_seq=? AND status=? AND room_id=?)"],
    )

SORTS = "USE TEMP B-TREE FOR ORDER BY"
ALLOWED: dict[str, tuple[str, str]] = {
    # name of the statement: what its plan may hold besides searches, and why that is bounded
    "claim": (SORTS, "the heads: one row for each job of the worker"),
    "claim and start": (SORTS, "the heads: one row for each job of the worker"),
    "claim plainly": (SORTS, "the heads: one row for each job of the worker"),
    "claim and start plainly": (SORTS, "the heads: one row for each job of the worker"),
    "claim what fits": (SORTS, "the heads: one row for each job of the worker"),
    "claim what fits plainly": (SORTS, "the heads: one row for each job of the worker"),
    "too large": (SORTS, "the heads: one row for each job of the worker"),
    **{
        name: (SORTS, "the heads: one row for each job of the worker")
        for name in HOT
        if name.startswith(("claim in rooms", "too large in"))
    },
    "claimed by request": (SORTS, "what one worker holds"),
    "queue position": ("SCAN CONSTANT ROW", "the one row that holds three counts"),
    "vanished workers": ("SCAN task USING INDEX ix_task_held", "only what is held"),
    "notices": (SORTS, "the notices of one worker"),
    "workers of a job": (SORTS, "the workers of one job"),
    "workers of jobs": (SORTS, "the workers of a page of jobs"),
    "orphans": ("SCAN job", "the sweep looks at each job; jobs are few, its tasks are searched"),
    "workers of an identity": (rosters._OWN, ["ix_worker_identity (identity=? AND id>?)"]),
    "jobs of a room": (SORTS, "two rooms' jobs, which are few"),
}
# A "search" for a key greater than some other is a scan by another name.
MARKS = re.compile(
    r"SEARCH (?!.*\((rowid|id)>\?\))|(CORRELATED )?(SCALAR|LIST) SUBQUERY|CO-ROUTINE"
    r"|COMPOUND QUERY|LEFT-MOST SUBQUERY|UNION ALL|MERGE \(UNION ALL\)|LEFT$|RIGHT$"
    # The rooms of a token, which come with the request.
    r"|SCAN json_each VIRTUAL TABLE INDEX 1:$"
    # What one task depends on, found by its index; and what is reached in a graph, step by step.
    r"|SCAN (needs|ordered|ending|breaking|fallen)$|SETUP$|RECURSIVE STEP$|MATERIALIZE fallen$"
)
EDGES = ("CO-ROUTINE needs", "CO-ROUTINE ordered")
# A page merges, for each status, the newest rows up to its own LIMIT.
OF_A_PAGE = re.compile(r"SCAN (anon_\d+|first)|USE TEMP B-TREE FOR ORDER BY")


@pytest.fixture(scope="module", params=["fresh", "analyzed"])
def populated(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, empty_database: Path
) -> Iterator[JobQueue]:
    """300 jobs, 60 workers, 6,000 tasks in all states, 100,000 edges; counted or not."""
    path = tmp_path_factory.mktemp("plans") / "queue.db"
    shutil.copy(empty_database, path)
    with sqlite3.connect(path) as connection:
        _fill(connection)
        if request.param == "analyzed":
            connection.execute("ANALYZE")
    connection.close()
    with JobQueue.open(JobLibSettings(database_url=f"sqlite:///{path}")) as queue:
        yield queue


def _fill(connection: sqlite3.Connection) -> None:
    connection.executemany(
        "INSERT INTO job (seq, id, room_id, category, name, schema, schema_version, version,"
        " hidden, max_attempts, on_worker_lost, claim_order, validate, created_at)"
        " VALUES (?1, 'job' || ?1, 'r' || (?1 % 100), 'modifiers', 'n' || ?1, '{}', 1, 1,"
        " 0, 1, 'fail', 'fifo', 1, 1)",
        [(n,) for n in range(1, 301)],
    )
    connection.executemany(
        "INSERT INTO worker VALUES ('w' || ?1, 'u' || (?1 % 7), 'instance', 'active', NULL, 1, ?1)",
        [(n,) for n in range(1, 61)],
    )
    connection.executemany(
        "INSERT INTO worker_job_link VALUES ('w' || ?, ?)",
        [(n, n % 30 + 1) for n in range(1, 61)],
    )
    connection.executemany(
        "INSERT INTO task (id, job_seq, room_id, created_by_id, status, ready, priority, turn,"
        " payload, schema_version, created_at, run_at, worker_id, completed_at, attempt, starts,"
        " idle_claims, max_attempts, due_at, idempotency_key, has_dependencies, has_dependents,"
        " version)"
        " VALUES ('t' || ?1, ?1 % 30 + 1, 'r' || (?1 % 5), 'u' || (?1 % 7), ?2, ?1 % 2, ?1 % 3, 0,"
        " '{}', 1, ?1, ?1, ?3, ?4, 0, 0, 0, 1, ?1, 'k' || ?1, ?1 % 2, 1, 1)",
        [_task(n) for n in range(6000)],
    )
    connection.executemany(
        "INSERT INTO edge SELECT 't' || (?1 * 7 % 6001), seq, 'afterok', ?2, NULL FROM task"
        " WHERE seq > ?1 * 100",
        [(n, ("waiting", "met", "broken")[n % 3]) for n in range(1, 45)],
    )
    connection.execute(
        "INSERT INTO task_log SELECT seq, number, upto, 'x' FROM task, (SELECT 1 AS number"
        " UNION SELECT 2), (SELECT 10 AS upto UNION SELECT 20 UNION SELECT 30) WHERE seq % 3 = 0"
    )
    connection.execute("INSERT INTO notice SELECT worker_id, id, 1 FROM task WHERE worker_id > ''")
    connection.execute("INSERT INTO fair_turn SELECT seq, 0, room_id, 5 FROM job")


def _task(n: int) -> tuple[int, str, str | None, int | None]:
    status = STATUSES[n % 13] if n % 13 < len(STATUSES) else "pending"
    holder = f"w{n % 60 + 1}" if status in {"claimed", "running"} else None
    ended = n if status in {"completed", "failed", "cancelled"} else None
    return n, status, holder, ended


def plan_of(queue: JobQueue, statement: Statement) -> list[str]:
    text = statement.compiled(queue.database.spelling).text
    parameters = (1,) * text.count("?")
    rows = queue.writer._connection.execute(f"EXPLAIN QUERY PLAN {text}", parameters)
    lines = {row[0]: (row[1], row[3]) for row in rows}
    # Those of one task are sorted, however the statement comes by the task.
    return [
        line
        for parent, line in lines.values()
        if line != SORTS or lines.get(parent, ("", ""))[1] not in EDGES
    ]


@pytest.mark.parametrize("name", HOT)
def test_a_hot_statement_only_searches(populated: JobQueue, name: str) -> None:
    """Design, *Cost that does not grow*: no scan of a table, no sort of the backlog."""
    allowed = ALLOWED.get(name, ("", ""))[0]
    plan = plan_of(populated, HOT[name][0])
    others = [line for line in plan if not MARKS.match(line) and line != allowed]
    if name.startswith(("page", "count", "queue position", "get with")):
        others = [line for line in others if not OF_A_PAGE.fullmatch(line)]
    assert others == []


@pytest.mark.parametrize("name", HOT)
def test_a_hot_statement_uses_the_index_that_was_made_for_it(
    populated: JobQueue, name: str
) -> None:
    plan = "\n".join(plan_of(populated, HOT[name][0]))
    for wanted in HOT[name][1]:
        assert wanted in plan


def test_every_exception_is_one_of_a_statement_that_exists() -> None:
    assert ALLOWED.keys() <= HOT.keys()
