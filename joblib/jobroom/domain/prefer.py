"""The ``Prefer`` request header (RFC 7240): how long a caller wants to wait."""

from __future__ import annotations

import re
from collections.abc import Iterable

MAX_WAIT = 10**9

_ELEMENT = re.compile(r'(?:[^,"]|"(?:[^"\\]|\\.)*+"?)++', re.DOTALL)
_WAIT = re.compile(
    r'[ \t]*wait[ \t]*=[ \t]*(?:"(?P<quoted>[0-9]+)"|(?P<plain>[0-9]+))[ \t]*(?:;.*)?',
    re.ASCII | re.DOTALL | re.IGNORECASE,
)


def requested_wait(values: Iterable[str]) -> int | None:
    """The seconds of the first readable ``wait`` in the header's lines; None when there is none.

    Never raises: what cannot be read is as if it had not been sent.

    >>> requested_wait(["respond-async", 'handling=lenient; note="wait=1, wait=2", wait=30'])
    30
    """
    for line in values:
        for element in _ELEMENT.findall(line):
            if found := _WAIT.fullmatch(element):
                return _capped(found["plain"] or found["quoted"])
    return None


def _capped(digits: str) -> int:
    """The number, at most ``MAX_WAIT``; Python refuses to read integers of many thousand digits."""
    significant = digits.lstrip("0")
    return MAX_WAIT if len(significant) >= len(str(MAX_WAIT)) else int(significant or "0")
