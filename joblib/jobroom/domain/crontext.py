"""The text of a cron expression: its fields, and the words that are short for some."""

from __future__ import annotations

ALIASES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}


def fields_of(cron: str) -> list[str]:
    """Return what stands between the spaces; five, if it is a good one.

    >>> fields_of(" @Daily ")
    ['0', '0', '*', '*', '*']
    """
    return ALIASES.get(cron.strip().lower(), cron).split()
