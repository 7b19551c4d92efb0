"""Host applications with the queue mounted in them, asked without sockets."""

from __future__ import annotations

import httpx
import pytest
from pydantic import SecretStr

from jobroom import create_app, tokens

SECRET = "a shared secret of more than 32 bytes"


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.fixture
def mountable(settings):
    """A function that makes an application to be mounted; its queue is let go of at the end."""
    made = []

    def make(**arguments):
        chosen = settings.model_copy(update={"jwt_secret": SecretStr(SECRET)})
        made.append(create_app(chosen, **arguments))
        return made[-1]

    yield make
    for app in made:
        app.state.door.close()


@pytest.fixture
def ask():
    """A function that sends one request to a host."""

    async def send(host, method, path, body=None, *, headers=None, wait=0, sub="alice"):
        token = tokens.issue_token(SECRET, sub=sub)
        sent = {"authorization": f"Bearer {token}"} if headers is None else headers
        sent["prefer"] = f"wait={wait}"
        transport = httpx.ASGITransport(app=host)
        async with httpx.AsyncClient(transport=transport, base_url="http://host") as http:
            return await http.request(method, path, json=body, headers=sent)

    return send
