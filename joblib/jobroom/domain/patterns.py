"""How many states a pattern may be in at once: what one character of a text may cost it.

The matcher is linear in the text, but an ambiguous counted repeat is in as many states as it
counts, and each character moves them all.
"""

from __future__ import annotations

import re

_MOST_STATES = 1_000_000
_ATOM = re.compile(r"\\[pPx]\{[^}]*\}|\\.|\[(?:\\.|[^\]\\])*\]|\{(\d+)(,(\d*))?\}|.", re.DOTALL)


def states_of(pattern: str) -> tuple[int, int]:
    """How many states counted repeats may be in at once: at most, and for each character before.

    A repeat that is entered at one place of the text only, as in ``^[a-z]{1,64}$``, is in one
    state; one that is unanchored or follows what varies in length may be in all.
    """
    is_anchored = pattern.startswith(("^", r"\A")) and "|" not in pattern and "(?" not in pattern
    varies, full, by_length = not is_anchored, 0, 0
    groups = [[0, 0, 0]]  # of each open group: its size, that of its last atom, repeats not counted
    inner = 0  # repeats not counted inside the last atom
    for found in _ATOM.finditer(pattern):
        text, group = found[0], groups[-1]
        if found[1] is not None or text in "*+":
            least, most = _bounds(found)
            size = group[1]
            if inner and (most is None or most > 1):
                full, by_length, inner = full + inner * (most or 1), by_length + inner, 0
            if most is not None or least > 1:
                times = max(least, most or 0)
                grown = size * max(0, times - 1)
                if varies:
                    full, by_length = full + grown, by_length + size
                else:
                    group[2] += grown
                group[0], group[1] = group[0] + grown, size + grown
            varies = varies or least != most
        elif text == "(":
            groups.append([0, 0, 0])
        elif text == ")" and len(groups) > 1:
            size, _, inner = groups.pop()
            groups[-1][0] += size
            groups[-1][1] = size
            groups[-1][2] += inner
        elif text not in "?|^$":
            group[0], group[1], inner = group[0] + 1, 1, 0
        full, by_length = min(full, _MOST_STATES), min(by_length, _MOST_STATES)
    return full, by_length


def _bounds(repeat: re.Match[str]) -> tuple[int, int | None]:
    if repeat[1] is None:
        return 0, None
    least = int(repeat[1][:7])
    most = int(repeat[3][:7]) if repeat[3] else None if repeat[2] else least
    return least, most
