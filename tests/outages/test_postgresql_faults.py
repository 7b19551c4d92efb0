"""What only PostgreSQL does: it ends sessions, takes no writes, has no connection to spare."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import live_server
import psycopg
import pytest
from outage_place import Place
from outage_scene import Scene, check_problem, sound, until_ready

BASE = live_server.BASE
CONNECTIONS = 20


@pytest.fixture(scope="module")
def place():
    with Place("postgresql", settings={"max_connections": str(CONNECTIONS)}) as opened:
        yield opened


@pytest.fixture(scope="module")
def server(start):
    return start(database_busy_seconds=1).until_ready()


@pytest.fixture
def scene(server):
    with Scene(server) as opened:
        sound(opened.register())
        yield opened


def test_sessions_that_the_server_ends_are_replaced_unseen(place, scene):
    """``pg_terminate_backend`` of all our sessions between requests, and in the middle of them."""
    for number in range(5):
        place.server.terminate_backends("postgres")
        assert scene.submit(payload={"number": number}).status_code == 202
    with ThreadPoolExecutor(4) as pool:
        answers = [pool.submit(scene.submit, payload={"number": 5 + n}) for n in range(40)]
        while not all(answer.done() for answer in answers):
            place.server.terminate_backends("postgres")
            time.sleep(0.05)
    assert {answer.result().status_code for answer in answers} == {202}
    numbers = sorted(task["payload"]["number"] for task in scene.tasks())
    assert numbers == list(range(45))


def test_a_server_that_takes_no_writes_is_503_and_comes_back(place, scene):
    """A standby, a disk that is nearly full: reads are answered."""
    task = sound(scene.submit())
    place.server.execute("ALTER SYSTEM SET default_transaction_read_only = on")
    place.server.execute("SELECT pg_reload_conf()")
    try:
        until_ready(scene, 503)
        check_problem(scene.submit())
        check_problem(scene.claim())
        shown = sound(scene.client.get(f"{BASE}/tasks/{task['id']}"))
        assert shown["status"] == "pending"
    finally:
        with psycopg.connect(place.own_url, autocommit=True) as opened:
            opened.execute("SET default_transaction_read_only = off")
            opened.execute("ALTER SYSTEM RESET default_transaction_read_only")
            opened.execute("SELECT pg_reload_conf()")
    until_ready(scene)
    assert sound(scene.claim())["task"]["id"] == task["id"]


def test_a_server_without_a_connection_to_spare_is_503_and_comes_back(place, scene):
    place.server.terminate_backends("postgres")
    taken = []
    try:
        while True:
            taken.append(psycopg.connect(place.own_url))
    except psycopg.OperationalError:
        pass
    try:
        check_problem(scene.submit())
    finally:
        for one in taken:
            one.close()
    assert scene.submit().status_code == 202
    until_ready(scene)
    assert len(scene.tasks()) == 1


def test_a_server_that_is_just_starting_is_waited_for(place, scene):
    """A restart within the patience is bridged; the pool's dead connections are replaced."""
    with ThreadPoolExecutor(1) as pool:
        place.server.kill()
        submitted = pool.submit(scene.submit)
        place.server.start()
        answer = submitted.result()
    if answer.status_code != 202:
        check_problem(answer)  # the start took longer than the patience of a second
        assert scene.submit().status_code == 202
    assert len(scene.tasks()) == 1
