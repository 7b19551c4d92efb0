"""Long-polls at a server process, by the hundred: acceptance cases C28, C29 and C30."""

from __future__ import annotations

import contextlib
import json
import os
import select
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from live_stage import (
    CLAIM,
    SUBMIT,
    Person,
    address,
    beside,
    connect,
    raw_request,
    read_answer,
    serving,
    slug,
    submit_many,
    taken,
    until,
)

CAP = 25
CROWD = 500
POLLS = 300
QUICK_SECONDS = 0.5

CLIENTS = """
import json, select, socket, sys
port, count, refused = map(int, sys.argv[1:])
requests = [text.encode() for text in json.loads(sys.stdin.readline())]
opened = []
for number in range(count):
    connection = socket.create_connection(("127.0.0.1", port))
    connection.sendall(requests[number % len(requests)])
    opened.append(connection)
watched = select.poll()
for connection in opened:
    watched.register(connection, select.POLLIN)
answered = set()
while len(answered) < refused:
    answered |= {descriptor for descriptor, _ in watched.poll(100)}
print("waiting", flush=True)
sys.stdin.read()
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    # As many waiters as there are clients: one that were never counted out would lock others out.
    with serving(
        tmp_path_factory.mktemp("crowds"), long_poll_max_wait_seconds=CAP, max_waiters=CROWD
    ) as started:
        yield started


@pytest.fixture
def alice(server):
    with Person(server, "alice") as person:
        person.register()
        person.drain()
        yield person


class Process:
    """What the kernel tells about the server."""

    def __init__(self, server):
        self._folder = Path(f"/proc/{server.process.pid}")

    def _status(self, name):
        lines = (self._folder / "status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))

    @property
    def threads(self):
        return self._status("Threads")

    @property
    def memory_mb(self):
        return self._status("VmRSS") / 1024

    @property
    def _opened(self):
        for descriptor in (self._folder / "fd").iterdir():
            with contextlib.suppress(FileNotFoundError):  # it was closed meanwhile
                yield str(descriptor.readlink())

    @property
    def databases(self):
        return sum(name.endswith("queue.db") for name in self._opened)

    @property
    def sockets(self):
        return sum(name.startswith("socket:") for name in self._opened)

    @property
    def cpu_seconds(self):
        fields = (self._folder / "stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


PREFER = {
    # the lines of Prefer: (what Preference-Applied says, seconds that it takes)
    ("wait=abc",): None,
    ("wait=-1",): None,
    ("wait=0",): None,
    ("wait=1.5",): None,
    ("wait=\xb2",): None,
    ("wait",): None,
    ("",): None,
    ('foo="wait=2',): None,
    (): None,
    ("wait=99999999999999999999",): 3,
    ("wait=" + "9" * 4000,): 3,
    ("respond-async", "wait=2"): 2,
    ("respond-async, wait=2",): 2,
    ("respond-async,wait=2;a=b,handling=lenient",): 2,
    ('Wait="2"',): 2,
    ("wait=2", "wait=1"): 2,
}


def test_each_form_of_prefer_on_a_pending_task(tmp_path):
    """Acceptance C28: what cannot be read is ignored; the capped value is told, and waited for."""
    with serving(tmp_path, long_poll_max_wait_seconds=3) as server, Person(server) as person:
        person.register()
        task = person.submit()
        opened = {}
        with contextlib.ExitStack() as stack:
            started = time.monotonic()
            for lines in PREFER:
                opened[lines] = stack.enter_context(connect(server))
                text = raw_request(person, "GET", f"/tasks/{task['id']}")
                extra = "".join(f"Prefer: {line}\r\n" for line in lines).encode("latin-1")
                opened[lines].sendall(text[:-2] + extra + b"\r\n")
            seconds, answers = {}, {}
            waiting = {connection: lines for lines, connection in opened.items()}
            while waiting:
                for connection in select.select(list(waiting), [], [], 20)[0]:
                    lines = waiting.pop(connection)
                    seconds[lines] = time.monotonic() - started
                    answers[lines] = read_answer(connection)
        for lines, applied in PREFER.items():
            status, headers, body = answers[lines]
            assert (status, '"pending"' in body) == (200, True), lines
            expected = None if applied is None else f"wait={applied}"
            assert headers.get("preference-applied") == expected, lines
            assert seconds[lines] >= (applied or 0) - 0.05, lines
        at_once = [seconds[lines] for lines, applied in PREFER.items() if applied is None]
        assert max(at_once) < 2  # those that wait at all do so longer


def timed(person, method, path, body=None):
    started = time.monotonic()
    assert person.ask(method, path, body).is_success
    return time.monotonic() - started


def test_300_long_polls_slow_nobody_and_hold_nothing(server, alice):
    """Acceptance C29: POST, claim, heartbeat, /healthz in < 500 ms; no connection, no thread."""
    process = Process(server)
    tasks = [alice.submit() for _ in range(POLLS)]
    # Once around, so that everything that is opened once is open.
    taken(alice.get(f"/tasks/{tasks[0]['id']}", headers={"prefer": "wait=1"}))
    threads, databases = process.threads, process.databases
    with contextlib.ExitStack() as stack:
        opened = []
        for task in tasks:
            opened.append(stack.enter_context(connect(server)))
            headers = {"prefer": "wait=20"}
            opened[-1].sendall(raw_request(alice, "GET", f"/tasks/{task['id']}", headers=headers))
        until(lambda: process.sockets >= POLLS, "that all were connected")
        taken(alice.get(f"/tasks/{tasks[0]['id']}"))
        times = {}
        for method, path, body in (
            ("POST", SUBMIT, {"payload": {"angle": 1}}),
            ("POST", CLAIM, None),
            ("PATCH", address("/workers/alice"), None),
            ("GET", "/healthz", None),
            ("GET", "/readyz", None),
            ("GET", address("/rooms/r1/tasks?limit=50"), None),
        ):
            times[path] = [timed(alice, method, path, body) for _ in range(9)]
        assert select.select(opened, [], [], 0)[0] == []  # they all wait still
        assert process.databases == databases
        assert process.threads <= threads + 1
        for task in tasks:
            taken(alice.report(task, "cancelled"))
        answers = [read_answer(connection) for connection in opened]
    assert {status for status, _, _ in answers} == {200}
    assert all('"status":"cancelled"' in body for _, _, body in answers)
    assert {headers["preference-applied"] for _, headers, _ in answers} == {"wait=20"}
    medians = {path: round(statistics.median(taken_) * 1000, 1) for path, taken_ in times.items()}
    print(f"ms while {POLLS} wait: {medians}")  # noqa: T201 - the figures of the case
    assert all(median < QUICK_SECONDS * 1000 for median in medians.values()), medians


def test_a_server_full_of_waiters_says_so_to_one_more(server, alice):
    """Acceptance C29, its kind: past the limit 429, at once; those who ask without wait go on."""
    later = alice.submit(run_at="2100-01-01T00:00:00Z")
    path = f"/tasks/{later['id']}"
    with crowd(server, [raw_request(alice, "GET", path, headers={"prefer": "wait=25"})]):
        answer = refusal(alice, path)
        assert slug(answer) == "429 too-many-requests"
        assert alice.get(path).is_success
        assert alice.submit()["status"] == "pending"
    until(lambda: refusal(alice, path) is None, "the end of all waits")


def refusal(person, path):
    answer = person.get(path, headers={"prefer": "wait=1"})
    return None if answer.is_success else answer


@contextlib.contextmanager
def crowd(server, requests, *, spare=5):
    """So many clients in a process of their own, which is killed at the end."""
    clients = subprocess.Popen(
        # A few more than there are places: once these are refused, all the others wait.
        [sys.executable, "-c", CLIENTS, str(server.port), str(CROWD + spare), str(spare)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        clients.stdin.write(json.dumps([text.decode() for text in requests]) + "\n")
        clients.stdin.flush()
        assert clients.stdout.readline() == "waiting\n"
        yield
    finally:
        clients.kill()
        clients.wait()
        clients.stdin.close()
        clients.stdout.close()


def test_500_clients_killed_in_the_middle_of_their_wait_leave_nothing(server, alice):
    """Acceptance C30: sockets, wait entries and memory go back, round after round; then rest."""
    process = Process(server)
    later = alice.submit(run_at="2100-01-01T00:00:00Z")
    wait = {"prefer": f"wait={CAP}"}
    requests = [
        raw_request(alice, "GET", f"/tasks/{later['id']}", headers=wait),
        raw_request(alice, "POST", CLAIM, headers={**wait, "content-length": "0"}),
    ]
    sockets, threads, memory = process.sockets, process.threads, []
    for _ in range(3):
        with crowd(server, requests):
            # All 500 places are taken (max_waiters), so none was lost to an earlier round.
            assert slug(refusal(alice, f"/tasks/{later['id']}")) == "429 too-many-requests"
            assert process.sockets >= sockets + CROWD
        until(lambda: process.sockets <= sockets, "that the server let go of them")
        until(lambda: refusal(alice, f"/tasks/{later['id']}") is None, "the end of all waits")
        memory.append(round(process.memory_mb, 1))
    print(f"MB after each of 3 rounds of {CROWD} clients: {memory}")  # noqa: T201 - as above
    assert memory[-1] < memory[0] + 5
    # A claim that was parked by a dead client takes no task away.
    task = alice.submit()
    assert (alice.claim()["id"], alice.show(task)["attempt"]) == (task["id"], 1)
    until(lambda: process.threads <= threads, "the end of the looking thread")
    before = process.cpu_seconds
    time.sleep(1.0)  # how much work is done in a second in which nobody asks
    assert process.cpu_seconds - before < 0.2


def test_killed_clients_while_the_tasks_change(server, alice):
    """Acceptance C30, its kind: answers on their way to clients that die hurt nobody."""
    with beside(server.folder) as queue:
        ids = submit_many(queue, 50, payload='{"angle": 1}')
    wait = {"prefer": f"wait={CAP}"}
    requests = [raw_request(alice, "GET", f"/tasks/{one}", headers=wait) for one in ids]
    process = Process(server)
    sockets = process.sockets
    with crowd(server, requests), ThreadPoolExecutor(4) as pool:
        cancelled = [pool.submit(alice.report, {"id": one}, "cancelled") for one in ids[:25]]
    assert {one.result().status_code for one in cancelled} == {200}
    until(lambda: process.sockets <= sockets + 4, "that the server let go of them")
    assert taken(alice.get("/rooms/r1/tasks?status=pending&limit=0"))["total"] >= 25
