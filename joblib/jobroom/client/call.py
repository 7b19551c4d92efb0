"""One request as the contract has it: what stays the same over all its tries."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import httpx

from jobroom.client import problems, result
from jobroom.errors import JobroomError

Json = dict[str, Any]
T = TypeVar("T")


def encode(body: Mapping[str, Any]) -> bytes:
    """Return the body as JSON; raises ``NotJson`` for what JSON cannot carry."""
    try:
        text = json.dumps(body, allow_nan=False, separators=(",", ":"))
    except Exception as failure:  # a user's types may raise anything
        why = result.why_not(body, failure)
        raise problems.NotJson(f"This cannot be sent as JSON: {why}.") from failure
    return text.encode()


@dataclass(frozen=True, eq=False)
class Call(Generic[T]):
    """A request, and how its answer is read: into what it is, or into the error it stands for.

    ``repeatable`` False repeats only what the server certainly did not take.
    """

    method: str
    path: str
    read: Callable[[httpx.Response], T | JobroomError]
    content: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    repeatable: bool = True
    request_id: str = field(default_factory=lambda: str(uuid.uuid4()))

    def all_headers(self, identity: Mapping[str, str]) -> dict[str, str]:
        """Return the headers of a try; the caller's own win."""
        kind = {} if self.content is None else {"Content-Type": "application/json"}
        return {**identity, "X-Request-Id": self.request_id, **self.headers, **kind}


def object_call(
    method: str,
    path: str,
    *,
    body: Mapping[str, Any] | None = None,
    headers: Mapping[str, str] | None = None,
    repeatable: bool = True,
    expect: str | None = None,
) -> Call[Json]:
    """Return a call whose good answer is a JSON object, one with the member ``expect``."""
    return Call(
        *(method, path, lambda response: problems.read(response, expect=expect)),
        content=None if body is None else encode(body),
        headers=dict(headers or {}),
        repeatable=repeatable,
    )
