"""Where the parts meet: settings, queue and door become one application."""

from __future__ import annotations

import asyncio
import gc
import signal
import sys
import threading
from contextlib import asynccontextmanager, contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

from jobroom import keys, logs, scheduler, tokens
from jobroom.errors import ConfigurationError
from jobroom.http import asgi, startup
from jobroom.http.auth import Authenticator, BearerAuthenticator, CallableAuthenticator
from jobroom.http.door import Door
from jobroom.service.queue import JobQueue
from jobroom.settings import JobLibSettings, on_lambda, read_settings, server_address

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from jobroom.http.asgi import Application

FIRST_TOKEN_HOURS = 8


def create_app(
    settings: JobLibSettings | None = None,
    *,
    queue: JobQueue | None = None,
    authenticator: Authenticator | None = None,
    get_current_identity: Callable[[Any], Any] | None = None,
    get_is_admin: Callable[[Any], Any] | None = None,
    me: bool = True,
) -> Application:
    """The application, to be served by itself or mounted in a host's.

    ``settings`` default to the environment's, read at the first use; nothing is opened before
    that. ``queue``: an open one that the caller closes. ``get_current_identity(request) -> str``
    and ``get_is_admin(request) -> bool`` (the seed's names, sync or async) replace bearer tokens
    by the host's own idea of who asks; ``authenticator`` replaces all of it. ``me`` False: the
    host serves ``/v1/me`` itself.
    """
    chosen = cache(lambda: settings or (queue.settings if queue else _environment()))
    bearer = cache(lambda: _bearer_authenticator(chosen()))
    door = Door(
        chosen,
        open_queue=lambda: queue or JobQueue.open(chosen()),
        open_authenticator=lambda: (
            authenticator or _host_authenticator(get_current_identity, get_is_admin) or bearer()[0]
        ),
        close_queue=lambda opened: None if opened is queue else opened.close(),
    )
    is_open_by_token = authenticator is None and get_current_identity is None

    @asynccontextmanager
    async def lifespan(_app: object) -> AsyncIterator[None]:
        try:
            # First of all: what there is to tell of the opening is written in the same way.
            logs.let_logs_be_seen(chosen().log_format)
            opened = door.queue
            if is_open_by_token and bearer()[1]:
                _greet(chosen())
            _calm_the_collector()
            with scheduler.sweeping(opened), _stopping_long_polls(door):
                yield
        finally:
            door.close()

    app = asgi.build_app(door, me=me, lifespan=lifespan)
    startup.explain_failure(app)
    return app


def _environment() -> JobLibSettings:
    try:
        return read_settings()
    except ValueError as error:
        raise ConfigurationError(str(error)) from error


def _host_authenticator(
    get_current_identity: Callable[[Any], Any] | None,
    get_is_admin: Callable[[Any], Any] | None,
) -> Authenticator | None:
    if get_current_identity is None:
        return None
    return CallableAuthenticator(get_current_identity, get_is_admin)


def _bearer_authenticator(settings: JobLibSettings) -> tuple[Authenticator, bool]:
    """The verifier of the settings' tokens, and whether it goes by a key of our own making."""
    verifier, local_key = tokens.verifier_from_settings(
        settings,
        local_key_path=keys.local_key_path_of(settings),
        allow_local=not on_lambda(),
    )
    return BearerAuthenticator(verifier), local_key is not None


def _greet(settings: JobLibSettings) -> None:
    """On a server with nothing configured: a token, and a line that uses it."""
    token = tokens.token_for_settings(settings, sub="local", is_admin=True, hours=FIRST_TOKEN_HOURS)
    address = server_address(sys.argv[1:])
    key_path = keys.local_key_path_of(settings)
    lines = (
        "",
        f"jobroom keeps its work in {settings.database_url}; its key is in {key_path}.",
        f"A token for you (admin, {FIRST_TOKEN_HOURS} hours; make more with `jobroom token`):",
        "",
        f"  {token}",
        "",
        "Try it:",
        "",
        f'  curl -H "Authorization: Bearer {token}" {address}/v1/me',
        "",
        f"Documentation: {address}/docs",
        "",
    )
    sys.stderr.write("\n".join(lines) + "\n")
    sys.stderr.flush()


def _calm_the_collector() -> None:
    """Look for garbage in cycles less often: a request makes none, and looking cost a third of it.

    Only where the process serves nothing but us: this is called by the lifespan, which a host
    that mounts the application does not run.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


@contextmanager
def _stopping_long_polls(door: Door) -> Iterator[None]:
    """Answer the long-polls as soon as the server is told to stop.

    A server waits for its open requests before it ends the lifespan, so the signal is the only
    word of it; the server's own handler goes on after ours.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    replaced: dict[int, Any] = {}

    def stop(number: int, frame: Any) -> None:
        loop.call_soon_threadsafe(door.stop_waiting)
        replaced[number](number, frame)

    for wanted in (signal.SIGTERM, signal.SIGINT):
        handler = signal.getsignal(wanted)
        if callable(handler):
            replaced[wanted] = handler
            signal.signal(wanted, stop)
    try:
        yield
    finally:
        for number, handler in replaced.items():
            if signal.getsignal(number) is stop:
                signal.signal(number, handler)
