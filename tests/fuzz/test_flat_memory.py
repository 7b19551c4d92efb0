"""A server under fuzz load takes no more memory, files or threads as time goes on (issue 2)."""

from __future__ import annotations

import json
import random
import threading
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import quote

import live_server
from fuzz_kit import BASE, COUNTS, IS_DEEP, NOTES, SUBMIT
from test_hostile_addresses import NASTY as NASTY_PARTS
from test_hostile_bodies import MEMBERS, NASTY_NUMBERS, NASTY_SHAPES, NASTY_TEXTS, SCHEMAS, TAKERS

REQUESTS = 20_000 if IS_DEEP else 2_500
CLIENTS = 4
# For SQLite's cache of pages and the collector's slack: a leak of 1.5 KiB a request is over it in
# a deep run, one of 6 KiB in a short one.
GROWTH_BYTES = (30 if IS_DEEP else 15) * 2**20
NASTY = [*NASTY_NUMBERS, *NASTY_TEXTS, *NASTY_SHAPES, *SCHEMAS]


# Fewer than are remembered, so that the memory of them is full before the count begins.
TOKENS = [
    live_server.token_of(f"user {number}", is_admin=not number % 2, rooms=["r1", f"r{number}"])
    for number in range(100)
]


class Figures:
    """What a process takes, by /proc."""

    def __init__(self, pid: int) -> None:
        folder = Path(f"/proc/{pid}")
        status = dict(
            line.split(":", 1)
            for line in (folder / "status").read_text().splitlines()
            if ":" in line
        )
        # Without the pages of the database file that are mapped: they belong to the system.
        self.memory = int(status["RssAnon"].split()[0]) * 1024
        self.threads = int(status["Threads"])
        self.files = len(list((folder / "fd").iterdir()))


Request = tuple[str, str, bytes]


def _hostile(chance: random.Random) -> Request:
    method, path = chance.choice(TAKERS)
    pairs = [
        f'"{chance.choice(MEMBERS)}":{chance.choice(NASTY)}' for _ in range(chance.randrange(3))
    ]
    return method, path, f"{{{','.join(pairs)}}}".encode("utf-8", "replace")


def _address(chance: random.Random) -> Request:
    room, job = (chance.choice(NASTY_PARTS) for _ in range(2))
    return "GET", f"{BASE}/rooms/{room}/jobs/{job}", b""


def _query(chance: random.Random) -> Request:
    text = quote(chance.choice([*NASTY_NUMBERS, "x" * chance.randrange(3000)])[:3000])
    return "GET", f"{BASE}/rooms/r1/tasks?limit={text}&cursor={text}", b""


def _register(chance: random.Random) -> Request:
    schema = {"type": "object", "title": f"{chance.random()}"}
    job = {"category": "modifiers", "name": f"J{chance.randrange(50)}", "schema": schema}
    return "PUT", f"{BASE}/rooms/r1/jobs", json.dumps({**job, "replace": True}).encode()


def _register_at_length(chance: random.Random) -> Request:
    name = f"{chance.random()}" + "x" * 100_000
    job = {"category": "modifiers", "name": name, "schema": {"title": name}}
    return "PUT", f"{BASE}/rooms/r1/jobs", json.dumps(job).encode()


def _submit(chance: random.Random) -> Request:
    return "POST", SUBMIT, json.dumps({"payload": {"x": chance.random()}}).encode()


def _submit_at_length(chance: random.Random) -> Request:
    # Refused, so that the file stays small: a connection's cache of pages is not the matter here.
    payload = {"x": f"{chance.random()}" + "y" * 100_000}
    return "POST", f"{SUBMIT}X", json.dumps({"payload": payload}).encode()


def _claim(_chance: random.Random) -> Request:
    return "POST", f"{BASE}/tasks/claim", b'{"limit":3}'


KINDS = [
    *(_hostile, _address, _query, _register, _register_at_length),
    *(_submit, _submit_at_length, _claim),
]


def _headers(chance: random.Random) -> dict[str, str]:
    token = chance.choice(TOKENS)
    if chance.random() < 0.1:
        token = token[:-4] + f"{chance.randrange(9999):04}"
    return {
        "authorization": f"Bearer {token}",
        "content-type": "application/json",
        "x-request-id": f"{chance.random()}",
        "idempotency-key": f"{chance.random()}",
    }


def _load(server: live_server.Server, requests: int, seed: int) -> list[str]:
    """Send so many from several clients at once; what was answered against the contract."""
    faults: list[str] = []

    def client(number: int) -> None:
        chance = random.Random(f"{seed} {number}")
        connection = HTTPConnection("127.0.0.1", server.port, timeout=30)
        for _ in range(requests // CLIENTS):
            method, path, body = chance.choice(KINDS)(chance)
            connection.request(method, path, body, _headers(chance))
            answer = connection.getresponse()
            text = answer.read()
            if answer.status >= 500 or (answer.status >= 400 and b'"type":' not in text):
                faults.append(f"{method} {path[:200]} -> {answer.status} {text[:200]!r}")
        connection.close()

    clients = [threading.Thread(target=client, args=(number,)) for number in range(CLIENTS)]
    for each in clients:
        each.start()
    for each in clients:
        each.join()
    COUNTS["load"] += requests
    return faults


def test_memory_files_and_threads_stay_flat_under_fuzz_load(tmp_path: Path) -> None:
    """Issue 2, *Fuzzing*: "flat memory"; what is remembered is bounded, what is refused is gone."""
    settings = {"jwt_secret": live_server.SECRET, "sqlite_synchronous": "NORMAL"}
    with live_server.Server(tmp_path, sweeper_interval_seconds=0, **settings) as server:
        with server.until_ready().client() as client:
            live_server.register(client)
        faults = _load(server, REQUESTS, seed=1)
        before = Figures(server.process.pid)
        faults += _load(server, REQUESTS, seed=2)
        after = Figures(server.process.pid)
        assert "Traceback" not in server.output
    assert not faults, "\n".join(faults[:20])
    NOTES.append(
        f"load: memory {before.memory / 2**20:.1f} -> {after.memory / 2**20:.1f} MiB, files"
        f" {before.files} -> {after.files}, threads {before.threads} -> {after.threads}"
        f" after {REQUESTS:,} requests"
    )
    assert after.memory - before.memory < GROWTH_BYTES
    assert abs(after.files - before.files) <= CLIENTS + 2
    assert abs(after.threads - before.threads) <= 2
