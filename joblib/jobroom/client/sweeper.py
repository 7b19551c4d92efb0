"""The seed's background sweeper: a coroutine that asks a server to sweep, again and again."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import logging
import os
import time
from collections.abc import Callable
from pathlib import Path

import httpx

from jobroom.client import connection, problems
from jobroom.client.api import path_of
from jobroom.errors import ConfigurationError, JobroomError

log = logging.getLogger("jobroom.client")

SWEEP_TIMEOUT_SECONDS = 30.0
LOCAL_TOKEN_SECONDS = 300
DEFAULT_DATABASE_URL = "sqlite:///jobroom.db"


async def run_cleanup_sweeper(
    base_url: str,
    interval_seconds: float = 30,
    token: str | Callable[[], str] | None = None,
) -> None:
    """Ask the server for a sweep every ``interval_seconds``, until cancelled.

    ``token`` is an admin's, or a callable that gives one; without it ``JOBROOM_TOKEN``, else the
    local key that a server with nothing configured has made beside its database. Errors are
    logged, once until they change, and do not end it.
    """
    if interval_seconds <= 0:
        raise ConfigurationError("The sweeper's interval must be over 0 seconds.")
    told: str | None = None
    url = f"{base_url.rstrip('/')}{path_of('sweep')}"
    async with httpx.AsyncClient(timeout=SWEEP_TIMEOUT_SECONDS) as http:
        while True:
            await asyncio.sleep(interval_seconds)
            trouble = await _sweep(http, url, token)
            if trouble is not None and trouble != told:
                log.warning("sweep.failed reason=%r retrying=yes", trouble)
            elif trouble is None and told is not None:
                log.warning("sweep.back")
            told = trouble


async def _sweep(
    http: httpx.AsyncClient, url: str, token: str | Callable[[], str] | None
) -> str | None:
    try:
        headers = connection.bearer(token() if callable(token) else token or _found_token())
        response = await http.post(url, headers=headers)
        if not response.is_success:
            return str(problems.error_of(response))
        _log_counts(response)
    except JobroomError as refusal:
        return str(refusal)
    except httpx.LocalProtocolError:
        return "The token cannot be sent in a header."  # the error's own text holds the token
    except Exception as failure:  # noqa: BLE001  # the task's edge: nobody else would hear of it
        return f"{type(failure).__name__}: {failure}"
    return None


def _log_counts(response: httpx.Response) -> None:
    counts = {name: n for name, n in response.json().items() if n and not isinstance(n, bool)}
    if counts:
        log.info("sweep.done %s", " ".join(f"{name}={count}" for name, count in counts.items()))


def _found_token() -> str:
    token = os.environ.get("JOBROOM_TOKEN")
    if token:
        return token
    path = local_key_file(os.environ.get("ZNDRAW_JOBLIB_DATABASE_URL") or DEFAULT_DATABASE_URL)
    try:
        if path is not None:
            return local_admin_token(path.read_text(encoding="ascii").strip())
    except (OSError, UnicodeError):
        pass
    raise ConfigurationError("Set JOBROOM_TOKEN to an admin's token: there is no local key here.")


def local_key_file(database_url: str) -> Path | None:
    """Return where a server with nothing configured keeps its key: beside its SQLite file."""
    scheme, _, rest = database_url.partition(":///")
    database = rest.partition("?")[0]
    known = scheme in {"sqlite", "sqlite+pysqlite"} and database not in {"", ":memory:"}
    return Path(f"{database}.key") if known and not database.startswith("file:") else None


def local_admin_token(key: str) -> str:
    """Sign a short-lived admin token (RFC 7515, HS256); the base install has no JWT library."""
    claims = {
        "sub": "local-sweeper",
        "is_admin": True,
        "exp": int(time.time()) + LOCAL_TOKEN_SECONDS,
    }
    signed = f"{_part({'alg': 'HS256', 'typ': 'JWT'})}.{_part(claims)}"
    signature = hmac.digest(key.encode(), signed.encode(), hashlib.sha256)
    return f"{signed}.{_base64(signature)}"


def _part(content: dict[str, object]) -> str:
    return _base64(json.dumps(content, separators=(",", ":")).encode())


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
