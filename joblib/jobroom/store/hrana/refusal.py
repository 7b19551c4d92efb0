"""What a libSQL server says where it refuses a whole request: a status, and JSON or a line."""

from __future__ import annotations

import json

from jobroom.store.hrana.errors import DataError, Error, InternalError, OperationalError

_UNAUTHORIZED, _FORBIDDEN, _TOO_LARGE, _TOO_MANY = 401, 403, 413, 429
_NOT_FOUND = 404
_FAULT_OF_THE_SERVER = 500
_BEFORE_ANYTHING = (_UNAUTHORIZED, _TOO_LARGE, _TOO_MANY)
_LONGEST = 200


def read_refusal(status: int, content: bytes, *, lost: bool | None, is_shared: bool) -> Error:
    """The error for an answer that is not 200.

    ``lost`` is what ``applied`` is to be where the answer does not tell. If several transactions
    shared the request (``is_shared``), some may be done before one was refused.
    """
    code, said = _read(content)
    is_certain = status in _BEFORE_ANYTHING or (status < _FAULT_OF_THE_SERVER and not is_shared)
    applied = False if is_certain else lost
    if status == _UNAUTHORIZED:
        message = f"The store refused the token: {said}."
        return OperationalError(message, code="UNAUTHORIZED", applied=applied)
    if status == _FORBIDDEN:
        message = f"The store's token does not allow it: {said}."
        return OperationalError(message, code="FORBIDDEN", applied=applied)
    if status == _TOO_LARGE:
        message = "The request is too large for the store."
        return DataError(message, code="HTTP_413", applied=applied)
    if code.startswith("STREAM_"):
        return OperationalError(f"{said} ({code}).", code=code, applied=applied)
    message = f"The store answered HTTP {status}: {said}."
    known = code or f"HTTP_{status}"
    if status >= _FAULT_OF_THE_SERVER or status in (_NOT_FOUND, _TOO_MANY):
        return OperationalError(message, code=f"HTTP_{status}", applied=applied)
    return InternalError(message, code=known, applied=applied)


def _read(content: bytes) -> tuple[str, str]:
    """The code, perhaps empty, and the sentence of a refusal, in one line."""
    text = content.decode(errors="replace")
    code = ""
    try:
        found = json.loads(text)
        text = str(found.get("message") or found.get("error") or "no reason given")
        code = str(found.get("code") or "")
    except (ValueError, AttributeError):
        pass  # a plain line, or a proxy's page
    if not code and ("baton" in text or "stream not found" in text.lower()):
        code = "STREAM_INVALID"
    said = " ".join(text.split()).rstrip(".")[:_LONGEST]
    return code, said or "no reason given"
