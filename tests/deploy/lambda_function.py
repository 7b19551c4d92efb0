"""The function in this process: an application, its handler and its sweep, and who calls them."""

from __future__ import annotations

import asyncio
import io
import json

import httpx
import lambda_events as events
from pydantic import SecretStr

from jobroom import create_app, tokens
from jobroom.aws.emf import Reporter
from jobroom.aws.environment import Environment
from jobroom.aws.handler import Handler
from jobroom.aws.sweep import Sweep

SECRET = "a shared secret of more than 32 bytes"
BASE = "/v1/joblib"
ROTATE = "r1:modifiers:Rotate"


class Function:
    """One deployed function. ``close`` is the end of its environment."""

    def __init__(self, settings, **changes):
        self.settings = settings.model_copy(update={"jwt_secret": SecretStr(SECRET), **changes})
        self.app = create_app(self.settings)
        self.environment = Environment(self.app)
        # What it prints is another module's; here it would hide what a test has to say.
        self.environment._reporter = Reporter("jobroom", io.StringIO())
        self.sweep = Sweep(self.environment)
        self.handler = Handler(self.environment, self.sweep)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.app.state.door.close()
        if self.handler._loop is not None:
            self.handler._loop.close()
            asyncio.set_event_loop(None)

    @property
    def door(self):
        return self.app.state.door

    def invoke(self, event, *, seconds=28.0):
        """What the client of this event gets."""
        # As it comes from the platform: through JSON, nothing of it shared with the test.
        sent = json.loads(json.dumps(event))
        return events.read(event, self.handler(sent, events.Context(seconds)))

    def send(self, method, path, body=None, *, kind=events.http_api, headers=(), **options):
        """One request of our API through a gateway; its answer."""
        content = b"" if body is None else json.dumps(body).encode()
        asked = [*bearer(options.pop("sub", "w")), *headers]
        if content:
            asked.append(("content-type", "application/json"))
        seconds = options.pop("seconds", 28.0)
        event = kind(method, BASE + path, asked, content, **options)
        return self.invoke(event, seconds=seconds)

    def register(self, name="Rotate", **policy):
        answer = self.send(
            "PUT", "/rooms/r1/jobs", {"category": "modifiers", "name": name} | policy
        )
        assert answer.status in (200, 201), answer
        return answer.json()

    def submit(self, payload=None, *, job=ROTATE, **options):
        answer = self.send("POST", f"/rooms/r1/tasks/{job}", {"payload": payload or {}}, **options)
        assert answer.status == 202, answer
        return answer.json()

    def directly(self, method, target, headers, content):
        """The same request, put to the application itself."""

        async def ask():
            transport = httpx.ASGITransport(app=self.app)
            async with httpx.AsyncClient(transport=transport) as http:
                request = httpx.Request(
                    method, f"https://{events.HOST}{target}", headers=list(headers), content=content
                )
                return await http.send(request)

        answer = self.handler._enter_loop().run_until_complete(ask())
        headers = sorted((k.lower(), v) for k, v in answer.headers.multi_items())
        return events.Answer(answer.status_code, headers, answer.content)


def bearer(sub="w", **claims):
    """The header that says who asks."""
    token = tokens.issue_token(SECRET, sub=sub, is_admin=True, **claims)
    return [("authorization", f"Bearer {token}"), ("host", events.HOST)]
