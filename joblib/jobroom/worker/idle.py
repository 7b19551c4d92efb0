"""Why a worker does nothing just now, or what it does: one line for people."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

MOST_NAMED = 3
SECOND, MINUTE, HOUR = 1, 60, 3600


def span(seconds: float) -> str:
    """Return a span as people say it.

    >>> span(2.4), span(250), span(3 * 3600)
    ('2 s', '4 min', '3 h')
    """
    unit, name = (SECOND, "s") if seconds < MINUTE else (MINUTE, "min")
    if seconds >= HOUR:
        unit, name = HOUR, "h"
    return f"{int(seconds // unit)} {name}"


def named(names: Iterable[str]) -> str:
    """Return the first few names, and how many more there are."""
    known = sorted(names)
    shown = ", ".join(known[:MOST_NAMED])
    return shown + (f" and {len(known) - MOST_NAMED} more" if len(known) > MOST_NAMED else "")


def heard(seconds: float | None, *, is_away: bool) -> str:
    """Say how it is with the server."""
    if seconds is None:
        return "the server has not answered yet"
    if is_away:
        return f"the server is away, it answered {span(seconds)} ago"
    return f"server answered {span(seconds)} ago"


def sentence(
    *,
    idle_seconds: float,
    jobs: Iterable[str],
    running: Sequence[tuple[str, float]],
    slots: int,
    server: str,
) -> str:
    """Say what a worker does; ``running`` are the jobs of its tasks, and for how long.

    >>> sentence(idle_seconds=250, jobs=["r1:modifiers:Rotate"], running=[], slots=4,
    ...     server=heard(2, is_away=False))
    'idle for 4 min: no task for r1:modifiers:Rotate; 4 of 4 slots free; server answered 2 s ago'
    """
    free = f"{slots - len(running)} of {slots} slots free"
    if not running:
        return f"idle for {span(idle_seconds)}: no task for {named(jobs)}; {free}; {server}"
    works = ", ".join(f"{job} for {span(seconds)}" for job, seconds in running)
    return f"busy: {works}; {free}; {server}"
