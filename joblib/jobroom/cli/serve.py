"""``jobroom serve``: a server in this process, from what is installed; no checkout is needed."""

from __future__ import annotations

import os
import socket
import sys
from contextlib import closing
from typing import Annotated

import typer

from jobroom.cli import streams
from jobroom.cli.sentences import one_sentence_errors
from jobroom.errors import ConfigurationError

GRACE_SECONDS = 30
"""So long open requests may take when the server is told to stop; then they are cut off."""


def serve(
    host: Annotated[
        str,
        # The names that uvicorn knows, so that the printed address is right whichever is used.
        typer.Option(help="Where to listen; 0.0.0.0 for every network.", envvar="UVICORN_HOST"),
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(help="The port.", min=1, max=65_535, envvar="UVICORN_PORT")
    ] = 8000,
    database_url: Annotated[
        str | None,
        typer.Option(
            help="Where the work is kept; without it ZNDRAW_JOBLIB_DATABASE_URL, or ./jobroom.db."
        ),
    ] = None,
) -> None:
    """Serve the REST API; with nothing configured, print a token and a line that uses it.

    Ctrl-C, or SIGTERM, ends it when the requests that are under way are answered.
    """
    streams.hold_no_answer()  # the log of the requests is no more than a log
    with one_sentence_errors():
        import uvicorn

        from jobroom.bootstrap import create_app
        from jobroom.settings import PREFIX, read_settings

        if database_url is not None:
            os.environ[f"{PREFIX}DATABASE_URL"] = database_url
        settings = read_settings()
        check_free(host, port)
        config = uvicorn.Config(
            create_app(settings),
            host=host,
            port=port,
            lifespan="on",
            timeout_graceful_shutdown=GRACE_SECONDS,
        )
    server = uvicorn.Server(config)
    try:
        server.run()
    except KeyboardInterrupt:
        return  # the server has stopped already, and hands on what stopped it
    except SystemExit:  # with a number of its own
        sys.exit(1)
    if not server.started:
        sys.exit(1)  # it has said why


def check_free(host: str, port: int) -> None:
    """Refuse an address that cannot be listened at, before anything is opened."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, address = found[0]
        with closing(socket.socket(family, kind, protocol)) as probe:
            # As a server does: or one that was stopped a moment ago would be in the way.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except OSError as error:
        message = (
            f"Nothing can listen at {host}, port {port}: {error.strerror or error};"
            " stop what is there, or choose another with --port or --host."
        )
        raise ConfigurationError(message) from error
