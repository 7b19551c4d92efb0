"""What a request says of a task that is to be added."""

from __future__ import annotations

from typing import NamedTuple


class NewTask(NamedTuple):
    """What a submission says. ``payload`` is JSON text, times are microseconds.

    ``fingerprint`` stands for the whole request where it may come twice: with an idempotency key,
    or with an ``id`` chosen by the client. ``depends_on`` pairs what the task depends on with the
    condition: a stored task by its id, one of the same request by its place in it. ``key`` is what
    others of the request call it.
    """

    payload: str = "{}"
    priority: int = 0
    run_at: int | None = None
    expires_at: int | None = None
    max_attempts: int | None = None
    timeout_seconds: float | None = None
    id: str | None = None
    idempotency_key: str | None = None
    fingerprint: str | None = None
    key: str | None = None
    depends_on: tuple[tuple[str | int, str], ...] = ()
    parent: str | None = None
