"""Ours beside the peer zndraw-joblib 0.1.7: submit, and claim + complete, in tasks a second.

The peer is installed into an environment of its own, kept for the next time, and is served by the
smallest host (``peer_host.py``) on a SQLite file. Both are sent the same loads in turn.

Run: python benchmarks/peer.py [--quick] [--json] [--peer-venv FOLDER]
"""

from __future__ import annotations

import argparse
import json
import sqlite3
import statistics
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import fill
import floor
import httpx
import load
import report
import servers
import venvs
from report import Row
from servers import Server

PINS = (
    "sqlalchemy[asyncio]==2.0.51",
    "zndraw-joblib==0.1.7",
    "zndraw-auth==0.2.3",
    "fastapi-users[sqlalchemy]>=15",
    "aiosqlite",
    "uvicorn[standard]",
)
CONNECTIONS = (1, 64)
ROUNDS, QUICK_ROUNDS = 3, 1
SECONDS, PEER_SECONDS = 3, 10  # what is under way at the end is not counted: the peer gets longer
QUICK_SECONDS, QUICK_PEER_SECONDS = 1, 3
PENDING, QUICK_PENDING = 400_000, 60_000
PEER_PENDING = 1_000
"""Less than ours, in its favour: it counts all that wait at each request."""
BAR = 50.0
AGAINST = "zndraw-joblib 0.1.7"
JOB = "room0:modifiers:Rotate0"
PEER_SUBMIT = f"/v1/joblib/rooms/room0/tasks/{JOB}"
ACCOUNT = {"username": "bench@example.com", "password": "benchmark"}  # of peer_host.py


@dataclass(frozen=True, slots=True)
class Peer:
    """The peer at work: a token of its admin, and the worker that serves the one job."""

    server: Server
    token: str
    worker_id: str


@dataclass(frozen=True, slots=True)
class Case:
    """A load on ours; ``requests``: so many make one task."""

    what: str
    script: str
    path: str
    requests: int


@dataclass(frozen=True, slots=True)
class Work:
    """What the peer does, and the ways in which we do the same."""

    script: str
    path: str
    requests: int
    cases: tuple[Case, ...]


SUBMITTING = Work("submit", PEER_SUBMIT, 1, (Case("submit", "submit", floor.SUBMIT, 1),))
CLAIMING = Work(
    "claim_and_complete",
    "/",
    3,
    (
        Case("claim + complete", "claim_and_complete", "/", 2),
        Case("complete and claim next in one", "fused", "/", 1),
    ),
)


def measure(*, quick: bool = False, venv: Path | None = None) -> list[Row]:
    """Tasks a second of both, in turn; the peer works on a shorter queue than we do."""
    python = venvs.prepare(venv or default_venv(), PINS, "zndraw_joblib, aiosqlite, uvicorn")
    with floor.serve_filled(PEER_PENDING) as ours, _serve_peer(python, pending=0) as peer:
        rows = _rows(SUBMITTING, ours, peer, quick=quick)
    pending = QUICK_PENDING if quick else PENDING
    with floor.serve_filled(pending) as ours, _serve_peer(python, pending=PEER_PENDING) as peer:
        rows += _rows(CLAIMING, ours, peer, quick=quick)
        floor.check_not_empty(ours)
    return rows


def default_venv() -> Path:
    """Where the peer's environment is kept between two runs."""
    return venvs.folder_of("zndraw-joblib-0.1.7")


@contextmanager
def _serve_peer(python: Path, *, pending: int) -> Iterator[Peer]:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "peer.db"
        environment = {
            "PEER_DATABASE_URL": f"sqlite+aiosqlite:///{file}",
            "PYTHONPATH": str(Path(__file__).parent),
        }
        with servers.serve(
            "peer_host:app", environment, ready="/openapi.json", python=python, loud=False
        ) as server:
            peer = _register(server)
            _fill(file, pending)
            yield peer


def _register(server: Server) -> Peer:
    answer = httpx.post(f"{server}/auth/jwt/login", data=ACCOUNT, timeout=30).raise_for_status()
    token = answer.json()["access_token"]
    room, category, name = JOB.split(":")
    job = {"category": category, "name": name, "schema": json.loads(fill.SCHEMA)}
    head = {"Authorization": f"Bearer {token}"}
    url = f"{server}/v1/joblib/rooms/{room}/jobs"
    registered = httpx.put(url, json=job, headers=head, timeout=30).raise_for_status().json()
    return Peer(server, token, registered["worker_id"])


def _fill(file: Path, pending: int) -> None:
    connection = sqlite3.connect(file, timeout=30)
    with connection:
        connection.execute(
            "WITH RECURSIVE numbers(n) AS"
            " (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < :rows)"
            " INSERT INTO task (id, job_id, room_id, created_by_id, payload, status, created_at)"
            " SELECT printf('%032x', n), job.id, 'room0', user.id, :payload, 'PENDING',"
            " strftime('%Y-%m-%d %H:%M:%f000', 'now') FROM numbers, job, user WHERE :rows > 0",
            {"rows": pending, "payload": fill.PAYLOAD},
        )
    connection.close()


def _rows(work: Work, ours: Server, peer: Peer, *, quick: bool) -> list[Row]:
    rows = []
    for connections in CONNECTIONS:
        beside: list[float] = []
        mine: dict[Case, list[float]] = {case: [] for case in work.cases}
        for _ in range(QUICK_ROUNDS if quick else ROUNDS):
            beside.append(_load_peer(work, peer, connections, quick=quick))
            for case, found in mine.items():
                found.append(_load_ours(case, ours, connections, quick=quick))
        for case, found in mine.items():
            middle = statistics.median(found), statistics.median(beside)
            rows.append(_row(work, case, connections, *middle))
    return rows


def _row(work: Work, case: Case, connections: int, mine: float, beside: float) -> Row:
    return Row(
        f"{case.what}, {floor.counted(connections)}, against the peer",
        mine,
        beside,
        AGAINST,
        "tasks/s",
        mine / beside if beside else float("inf"),
        bar=BAR if connections == max(CONNECTIONS) else None,
        reason=f"requests a task: ours {case.requests}, the peer {work.requests}",
    )


def _load_ours(case: Case, ours: Server, connections: int, *, quick: bool) -> float:
    done = load.run(
        f"{ours}{case.path}",
        script=case.script,
        token=servers.token(),
        connections=connections,
        workers=floor.workers_of(ours),
        seconds=QUICK_SECONDS if quick else SECONDS,
    )
    if done.errors:
        raise SystemExit(f"{case.what}: {done.errors} of {done.requests} answers were errors")
    return done.per_second / case.requests


def _load_peer(work: Work, peer: Peer, connections: int, *, quick: bool) -> float:
    """Its good answers alone count: under load some of its requests fail on a locked database."""
    done = load.run(
        f"{peer.server}{work.path}",
        script=work.script,
        token=peer.token,
        connections=connections,
        seconds=QUICK_PEER_SECONDS if quick else PEER_SECONDS,
        workers=[peer.worker_id],
        starts=False,
    )
    return done.good_per_second / work.requests


def main() -> None:
    """The benchmark as a command of its own."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="small sizes: does it run at all?")
    parser.add_argument("--json", action="store_true", help="for machines")
    parser.add_argument("--peer-venv", type=Path, help=f"default: {default_venv()}")
    options = parser.parse_args()
    rows = measure(quick=options.quick, venv=options.peer_venv)
    print(report.as_json(rows) if options.json else report.table(rows))


if __name__ == "__main__":
    main()
