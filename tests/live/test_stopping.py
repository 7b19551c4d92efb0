"""How a server ends: what waits is answered, and what was acknowledged is kept."""

from __future__ import annotations

import signal
import socket
import sqlite3
import threading
import time

import httpx

from jobroom import tokens

LONG = 60


class Connection:
    """A connection of one client that the server has accepted already."""

    def __init__(self, server, secret, sub="w"):
        self._token = tokens.issue_token(secret, sub=sub, is_admin=True)
        self._socket = socket.create_connection(("127.0.0.1", server.port), timeout=30)
        self.send("GET", "/healthz")
        self.answer()

    def send(self, method, path):
        head = f"{method} {path} HTTP/1.1\r\nhost: test\r\nauthorization: Bearer {self._token}\r\n"
        self._socket.sendall(f"{head}prefer: wait={LONG}\r\ncontent-length: 0\r\n\r\n".encode())

    def answer(self):
        data = b""
        while b"\r\n\r\n" not in data or not data.rstrip().endswith(b"}"):
            more = self._socket.recv(65536)
            if not more:
                break
            data += more
        return data.decode()

    def close(self):
        self._socket.close()


def test_long_polls_are_answered_and_the_process_ends(start, work):
    """Contract: Prefer is a wish; a stop is the end of every wait, with the state as it is."""
    server = start()
    with server.client() as client:
        work.register(client)
        task_id = client.post(
            f"{work.BASE}/rooms/r1/tasks/r1:modifiers:Rotate",
            json={"run_at": "2100-01-01T00:00:00Z"},
        ).json()["id"]
        shown, claims = Connection(server, work.SECRET), Connection(server, work.SECRET)
        shown.send("GET", f"{work.BASE}/tasks/{task_id}")
        claims.send("POST", f"{work.BASE}/tasks/claim")
        # The server has read both before it answers this: their bytes were there first.
        assert client.get("/healthz").is_success
    started = time.monotonic()
    code = server.stop()
    seconds = time.monotonic() - started
    answers = [shown.answer(), claims.answer()]
    shown.close()
    claims.close()
    assert [answer[:12] for answer in answers] == ["HTTP/1.1 200", "HTTP/1.1 200"]
    assert '"status":"pending"' in answers[0]
    assert '"task":null' in answers[1]
    assert code in {0, -signal.SIGTERM}  # uvicorn ends by the signal that it was sent
    assert seconds < LONG / 2
    assert "Traceback" not in server.output


def test_a_submit_during_the_stop_is_answered_or_not_kept(start, work):
    """Design 3: an answered submit is kept, and the writer is drained before the end."""
    server = start()
    with server.client() as client:
        work.register(client)
    acknowledged = []
    enough = threading.Event()

    def submit_on():
        with server.client() as client:
            try:
                while True:
                    answer = client.post(f"{work.BASE}/rooms/r1/tasks/r1:modifiers:Rotate", json={})
                    if answer.status_code == 202:
                        acknowledged.append(answer.json()["id"])
                    if len(acknowledged) > 60:
                        enough.set()
            except httpx.TransportError:
                return

    clients = [threading.Thread(target=submit_on) for _ in range(6)]
    for thread in clients:
        thread.start()
    assert enough.wait(120)
    server.stop()
    for thread in clients:
        thread.join()
    assert stored(server) == set(acknowledged)


def stored(server):
    connection = sqlite3.connect(server.folder / "jobroom.db")
    try:
        return {row[0] for row in connection.execute("SELECT id FROM task")}
    finally:
        connection.close()


def test_kill_9_under_load_loses_no_acknowledged_task(start, work):
    """Design 3: an answered submit survives, whatever happens to the server then."""
    server = start()
    with server.client() as client:
        work.register(client)
    acknowledged = []
    enough = threading.Event()

    def submit_on():
        with server.client() as client:
            try:
                while True:
                    acknowledged.append(work.submit(client))
                    if len(acknowledged) > 200:
                        enough.set()
            except httpx.TransportError:
                return

    clients = [threading.Thread(target=submit_on) for _ in range(4)]
    for thread in clients:
        thread.start()
    assert enough.wait(120)
    server.process.kill()
    for thread in clients:
        thread.join()
    again = start(server.folder)
    assert set(acknowledged) <= stored(again)
    with again.client() as client:
        first = client.post(f"{work.BASE}/tasks/claim").json()["task"]
        assert first["status"] == "claimed"
