"""What may stand between this machine and a running task, looked at one thing after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import httpx

from jobroom.cli import rights, way
from jobroom.cli.checkpoint import Finding, Place, Skipped, Wrong, said_of

Check = Callable[[Place], str]
CHECKS: tuple[tuple[str, Check], ...] = (
    ("proxy", way.proxy),
    ("dns", way.dns),
    ("tcp", way.tcp),
    ("tls", way.tls),
    ("health", way.healthz),
    ("ready", way.readyz),
    ("version", way.versions),
    ("clock", way.clock),
    ("token", rights.token),
    ("rights", rights.rights),
    ("register", rights.registering),
    ("submit", rights.submitting),
    ("long-poll", rights.long_poll),
)
NEEDED = frozenset({"dns", "tcp", "tls", "health", "token"})
"""Without these, what follows is not worth a look."""


def findings(place: Place) -> Iterator[Finding]:
    """Look at one thing after the other; what needs a thing that is wrong is skipped."""
    broken: str | None = None
    for name, check in CHECKS:
        if broken is not None:
            yield Finding(name, None, f"not looked at: {broken} comes first")
            continue
        try:
            yield Finding(name, True, check(place))
        except Skipped as reason:
            yield Finding(name, None, str(reason))
        except Wrong as wrong:
            yield Finding(name, False, str(wrong), wrong.advice)
            broken = name if name in NEEDED else None
        except httpx.HTTPError as failure:
            yield Finding(
                name, False, said_of(failure), "Try again; the way to the server is not steady."
            )
