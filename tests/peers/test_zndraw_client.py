"""The clients of zndraw-joblib as they were released, against our server.

The contract: additions never break a client written for the seed or for 0.1.7.
"""

from __future__ import annotations

import signal
import time
from pathlib import Path
from uuid import UUID, uuid4

import live_server
import peer_clients
import pytest
from live_server import BASE, SECRET, token_of
from peer_clients import OLD_VERSION, PATIENCE_SECONDS

ROTATE = "r1:modifiers:Rotate"
MEASURE = "r1:analysis:Measure"
WAIT = {"prefer": "wait=30"}
TERMINAL = ("completed", "failed", "cancelled")


@pytest.fixture(scope="session")
def peers(request, tmp_path_factory):
    """The environment of the peers; pytest's cache keeps it for the next run."""
    cache = getattr(request.config, "cache", None)
    folder = Path(cache.mkdir("zndraw-joblib")) if cache else tmp_path_factory.mktemp("peers")
    return peer_clients.prepare(folder)


def started_server(folder, **settings):
    chosen = {
        "database_url": f"sqlite:///{folder}/queue.db",
        "jwt_secret": SECRET,
        "sqlite_synchronous": "NORMAL",
        **settings,
    }
    return live_server.Server(folder, **chosen)


@pytest.fixture
def server(tmp_path):
    with started_server(tmp_path) as running:
        yield running.until_ready()


def seen_by(client, path, until, **more):
    """Ask again until the answer is as it should be; the answer."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not until(answer := client.get(BASE + path, **more).json()):
        assert time.monotonic() < deadline, answer
        time.sleep(0.05)
    return answer


def submitted(client, job, **payload):
    answer = client.post(f"{BASE}/rooms/r1/tasks/{job}", json={"payload": payload})
    assert answer.status_code == 202, answer.text
    return answer.json()["id"]


def ended(client, task_id):
    """The task at its end, by long-poll."""
    return seen_by(client, f"/tasks/{task_id}", lambda t: t["status"] in TERMINAL, headers=WAIT)


def registered(client):
    def both(page):
        return {job["full_name"] for job in page["items"]} == {ROTATE, MEASURE}

    return seen_by(client, "/rooms/r1/jobs", both)


def test_a_worker_of_the_peer_serves_through_a_restart_until_it_is_told_to_go(
    peers, server, tmp_path, tally
):
    with (
        server.client(token_of("alice")) as client,
        peers.started(server, "serve", token_of("worker"), folder=tmp_path) as worker,
    ):
        registered(client)
        ids = [submitted(client, ROTATE, angle=angle) for angle in range(5)]
        ids.append(submitted(client, MEASURE, unit="pm"))
        tasks = [ended(client, task_id) for task_id in ids]
        assert {task["status"] for task in tasks} == {"completed"}
        assert all(task["started_at"] and task["starts"] == 1 for task in tasks)
        (who,) = {task["worker_id"] for task in tasks}
        assert UUID(who)

        server.kill()
        server.start().until_ready()
        again = ended(client, submitted(client, ROTATE, angle=90))
        assert (again["status"], again["worker_id"]) == ("completed", who)

        worker.send_signal(signal.SIGTERM)
        assert worker.wait(PATIENCE_SECONDS) == 0, worker.output.read_text()
        assert client.get(f"{BASE}/rooms/r1/workers").json()["total"] == 0
        assert client.get(f"{BASE}/rooms/r1/jobs").json()["items"] == []
        tally(completed=len(tasks) + 1, server_killed=1)


def test_a_task_that_raises_in_a_worker_of_the_peer_fails_with_its_words(peers, server, tmp_path):
    with (
        server.client(token_of("alice")) as client,
        peers.started(server, "serve", token_of("worker"), folder=tmp_path),
    ):
        registered(client)
        failed = ended(client, submitted(client, ROTATE, angle=-3))
        assert (failed["status"], failed["error"]) == ("failed", "cannot turn by -3.0")
        after = ended(client, submitted(client, ROTATE, angle=3))
        assert after["status"] == "completed"


def test_heartbeats_of_the_peer_keep_its_worker_alive_while_a_task_runs(peers, tmp_path):
    """The task takes more than twice the worker timeout; only its other thread speaks meanwhile."""
    with (
        started_server(
            tmp_path, worker_timeout_seconds=1.5, sweeper_interval_seconds=0.3
        ) as server,
        server.until_ready().client(token_of("alice")) as client,
        peers.started(server, "serve", token_of("worker"), folder=tmp_path),
    ):
        registered(client)
        done = ended(client, submitted(client, ROTATE, angle=1, pause=3.5))
        assert (done["status"], done["attempt"]) == ("completed", 1)


def test_a_worker_of_the_peer_that_was_lost_ends_by_itself(peers, tmp_path):
    """A 404 to its heartbeat is what it takes for the end of its registration."""
    with (
        started_server(
            tmp_path, worker_timeout_seconds=1.5, sweeper_interval_seconds=0.3
        ) as server,
        server.until_ready().client(token_of("alice")) as client,
        peers.started(server, "serve", token_of("worker"), folder=tmp_path) as worker,
    ):
        registered(client)
        held = submitted(client, ROTATE, angle=1, pause=1)
        seen_by(client, f"/tasks/{held}", lambda task: task["status"] == "running")
        worker.send_signal(signal.SIGSTOP)
        lost = ended(client, held)
        worker.send_signal(signal.SIGCONT)
        assert lost["status"] == "failed"
        assert "Worker disconnected" in lost["error"]
        assert worker.wait(PATIENCE_SECONDS) == 0
        assert "Registration lost" in worker.output.read_text()


def test_each_call_of_the_peer_is_answered_as_its_client_expects(peers, server, tmp_path):
    seen = peers.play(server, "by-hand", token_of("worker"), folder=tmp_path)
    assert seen["jobs"] == [ROTATE]
    assert seen["nothing"] is None
    assert seen["claimed"] == [[task, angle] for angle, task in enumerate(seen["submitted"], 1)]
    with server.client(token_of("worker")) as client:
        ends = [ended(client, task_id) for task_id in seen["submitted"]]
        assert [task["status"] for task in ends] == ["completed", "failed", "cancelled", "failed"]
        assert [task["error"] for task in ends] == [None, "broke", None, "never began"]
        assert {task["worker_id"] for task in ends} == {seen["worker"]}
        assert client.get(f"{BASE}/workers").json()["total"] == 0


@pytest.mark.parametrize(
    ("call", "raised"),
    [
        ("late", "ValueError"),
        ("global", "PermissionError"),
        ("schema", "ValueError"),
        ("unknown", "KeyError"),
        ("wrong", "ValueError"),
        ("beat of the deleted", "KeyError"),
        ("claim of the deleted", "KeyError"),
    ],
)
def test_each_refusal_is_one_that_the_peer_knows(refusals, call, raised):
    kind, _, words = refusals[call].partition(": ")
    assert kind == raised
    assert words, "a refusal says why"


@pytest.fixture(scope="module")
def refusals(peers, tmp_path_factory):
    """What its calls raised, each provoked once."""
    folder = tmp_path_factory.mktemp("refusals")
    with started_server(folder) as server:
        server.until_ready()
        return peers.play(server, "by-hand", token_of("worker"), folder=folder)


def test_an_identity_that_is_a_uuid_needs_no_worker_of_its_own(peers, server, tmp_path):
    """Where the host names people by UUIDs, as ZnDraw does, the identity worker's id is one."""
    sub = str(uuid4())
    seen = peers.play(server, "unnamed", token_of(sub), folder=tmp_path)
    assert seen["worker"] == sub
    assert seen["claimed"] == seen["submitted"]


def test_another_identity_makes_a_worker_first(peers, server, tmp_path):
    """Their client takes ids of workers for UUIDs; the seed's identity worker is a name."""
    seen = peers.play(server, "unnamed", token_of("alice"), folder=tmp_path)
    assert seen["problem"].startswith("ValueError: badly formed hexadecimal UUID string")


def test_a_provider_of_the_peer_is_refused_in_a_way_that_it_knows(peers, server, tmp_path):
    seen = peers.play(server, "provider", token_of("w", is_admin=True), folder=tmp_path)
    assert seen["problem"].startswith("KeyError: ")


def test_the_client_of_the_first_release_claims_and_completes(peers, server, tmp_path):
    """Released as 0.1.1, whose page is the seed."""
    seen = peers.play(server, "old", token_of("w"), folder=tmp_path, version=OLD_VERSION)
    assert seen["nothing"] is None
    assert seen["claimed"] == seen["submitted"]
    with server.client(token_of("w")) as client:
        ends = [ended(client, task_id) for task_id in seen["submitted"]]
    assert [task["status"] for task in ends] == ["completed", "completed"]
    assert {task["worker_id"] for task in ends} == {seen["worker"]}


def test_the_schema_may_have_the_name_that_the_peer_sends(server):
    """Their clients write ``schema_``; where both are there the contract's name counts."""
    angle = {"type": "object", "properties": {"angle": {"type": "number"}}}
    with server.client(token_of("w")) as client:
        path = f"{BASE}/rooms/r1/jobs"
        job = {"category": "modifiers", "name": "Rotate"}
        answers = [
            client.put(path, json={**job, "schema_": angle}),
            client.put(path, json={**job, "schema": angle}),
            client.put(path, json={**job, "schema": angle, "schema_": {}}),
            client.put(path, json={**job, "schema_": {}}),
        ]
    assert [answer.status_code for answer in answers] == [201, 200, 200, 409]
    assert answers[0].json()["schema"] == angle
