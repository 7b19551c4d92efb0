"""A door in this process, driven without sockets, and requests whose client can go away."""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import asynccontextmanager

import httpx
import pytest
from pydantic import SecretStr

from jobroom import create_app, tokens
from jobroom.service import watching

SECRET = "a shared secret of more than 32 bytes"
BASE = "/v1/joblib"
FULL_NAME = "r1:modifiers:Rotate"
PATIENCE_SECONDS = 30


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.fixture(autouse=True)
def short_ticks(monkeypatch):
    """A queue that closes waits for the tick of its looking thread to end."""
    monkeypatch.setattr(watching, "TICK_SECONDS", 0.03)


@pytest.fixture
def open_api(settings):
    """A function that opens an application with some settings changed."""

    @asynccontextmanager
    async def open_with(**changes):
        app = create_app(settings.model_copy(update={"jwt_secret": SecretStr(SECRET), **changes}))
        transport = httpx.ASGITransport(app=app)
        try:
            async with httpx.AsyncClient(transport=transport, base_url="http://test") as http:
                yield Api(app, http)
        finally:
            app.state.door.close()

    return open_with


@pytest.fixture
async def api(open_api):
    """An application with the job ``r1:modifiers:Rotate``, served by the worker ``w``."""
    async with open_api() as opened:
        await opened.register()
        yield opened


class Api:
    """What the tests say to the server, and what they see of its waiting room."""

    def __init__(self, app, http):
        self.app = app
        self.http = http
        self.door = app.state.door

    def token(self, sub="w", **claims):
        return tokens.issue_token(SECRET, sub=sub, is_admin=True, **claims)

    async def send(self, method, path, body=None, *, sub="w", wait=None, headers=(), token=None):
        sent = {"authorization": f"Bearer {token or self.token(sub)}", **dict(headers)}
        if wait is not None:
            sent["prefer"] = f"wait={wait}"
        return await self.http.request(method, BASE + path, json=body, headers=sent)

    def sending(self, *args, **kwargs):
        """The same as a task: it goes on while the test does something else."""
        return asyncio.ensure_future(self.send(*args, **kwargs))

    async def register(self, name="Rotate", *, sub="w", **policy):
        body = {"category": "modifiers", "name": name, **policy}
        answer = await self.send("PUT", "/rooms/r1/jobs", body, sub=sub)
        assert answer.is_success, answer.text
        return answer.json()

    async def submit(self, payload=None, *, job=FULL_NAME, **fields):
        body = {"payload": payload or {}, **fields}
        answer = await self.send("POST", f"/rooms/r1/tasks/{job}", body, sub="user")
        assert answer.status_code == 202, answer.text
        return answer.json()

    async def running(self):
        """A task that the worker ``w`` runs."""
        task = await self.submit()
        answer = await self.send("POST", "/tasks/claim", {"start": True})
        assert answer.json()["task"]["id"] == task["id"]
        return answer.json()["task"]

    async def report(self, task, **said):
        answer = await self.send("PATCH", f"/tasks/{task['id']}", said)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def watching(self, task, *, version=0):
        """Until a status wait has read this version of the task or a newer one."""
        known = self.door.watch.known
        await self.until(lambda: known.get(task["id"], -1) >= version)

    async def claims_wait(self, count):
        """Until so many claims wait."""
        await self.until(lambda: self.parked == count)

    @property
    def parked(self):
        return sum(len(works) for works in self.door.queue.waiting._by_worker.values())

    async def until(self, happened):
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not happened():
            assert time.monotonic() < deadline, "it never happened"
            await asyncio.sleep(0.002)

    def by_hand(self, method, path, *, sub="w", wait=30, body=None):
        headers = [
            (b"authorization", f"Bearer {self.token(sub)}".encode()),
            (b"prefer", b"wait=%d" % wait),
        ]
        return ByHand(self.app, method, BASE + path, headers, body)


class ByHand:
    """One ASGI request whose client goes away when the test says so."""

    def __init__(self, app, method, path, headers, body):
        self._gone = asyncio.Event()
        self._messages = [
            {"type": "http.request", "body": b"" if body is None else json.dumps(body).encode()}
        ]
        self.sent = []
        scope = {
            "type": "http",
            "method": method,
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "root_path": "",
            "headers": headers,
        }
        self.done = asyncio.ensure_future(app(scope, self._receive, self._send))

    def go_away(self):
        self._gone.set()

    async def _receive(self):
        if self._messages:
            return self._messages.pop()
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message):
        self.sent.append(message)
