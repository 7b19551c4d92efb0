"""What the tests of live servers share."""

from __future__ import annotations

from contextlib import ExitStack

import live_server
import pytest


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    """Start a server, by default with the shared secret; it is killed at the module's end."""
    with ExitStack() as stack:

        def started(folder=None, *, ready=True, secret=live_server.SECRET, **settings):
            folder = folder or tmp_path_factory.mktemp("live")
            if secret is not None:
                settings["jwt_secret"] = secret
            server = stack.enter_context(live_server.Server(folder, **settings))
            return server.until_ready() if ready else server

        yield started


@pytest.fixture(scope="session")
def work():
    """What the tests do with a client: register, submit."""
    return Work


class Work:
    register = staticmethod(live_server.register)
    submit = staticmethod(live_server.submit)
    environment = staticmethod(live_server.environment)
    SECRET = live_server.SECRET
    BASE = live_server.BASE
