"""The errors of ``libsql-client``, and of the aiohttp under it, in our classes."""

from __future__ import annotations

import re
from importlib import import_module
from typing import Any

from jobroom.store.hrana.errors import Error, OperationalError, of_statement
from jobroom.store.hrana.refusal import read_refusal

_STATUS = re.compile(r"Server returned HTTP status (\d+)(?: and error: )?(.*)", re.DOTALL)
_BROKEN = frozenset(
    {"HRANA_WEBSOCKET_ERROR", "CLIENT_CLOSED", "STREAM_CLOSED", "TRANSACTION_CLOSED"}
)
_BROKE = "The connection to the store broke"


def error_of(error: Exception, *, lost: bool | None, timeout_seconds: float) -> Error:
    """Our error for one of theirs; ``lost`` is ``applied`` where it does not tell."""
    if isinstance(error, Error):
        return error
    if isinstance(error, TimeoutError):
        message = f"The store did not answer within {timeout_seconds:g} s."
        return OperationalError(message, code="TIMEOUT", applied=lost)
    if isinstance(error, import_module("libsql_client").LibsqlError):
        return _of_library(error, lost=lost)
    return _of_connection(error, lost=lost)


def _of_connection(error: Exception, *, lost: bool | None) -> Error:
    import aiohttp

    if isinstance(error, aiohttp.ClientConnectorError):
        message = "The store cannot be reached; check that it runs and what its URL says."
        return OperationalError(message, code="TRANSPORT", applied=False)
    if isinstance(error, aiohttp.WSServerHandshakeError):
        return read_refusal(error.status, error.message.encode(), lost=False, is_shared=False)
    if isinstance(error, (aiohttp.ClientError, OSError)):
        message = f"{_BROKE} ({type(error).__name__})."
        return OperationalError(message, code="TRANSPORT", applied=lost)
    # A KeyError, say: the library takes for granted what an answer holds.
    message = f"The answer of the store makes no sense to libsql-client ({type(error).__name__})."
    return OperationalError(message, code="PROTOCOL", applied=lost)


def _of_library(error: Any, *, lost: bool | None) -> Error:
    code, said = str(error.code), str(error.explanation).rstrip(".")
    status = _STATUS.match(said) if code == "SERVER_ERROR" else None
    if status is not None:
        return read_refusal(int(status[1]), status[2].encode(), lost=lost, is_shared=False)
    if code.startswith("AUTH_"):
        message = f"The store refused the token: {said}."
        return OperationalError(message, code="UNAUTHORIZED", applied=False)
    if code in _BROKEN:
        return OperationalError(f"{_BROKE}: {said}.", code="TRANSPORT", applied=lost)
    if code == "HRANA_PROTO_ERROR":
        return OperationalError(f"{said} ({code}).", code="PROTOCOL", applied=lost)
    return of_statement(code, said, applied=lost if code == "RESPONSE_TOO_LARGE" else False)
