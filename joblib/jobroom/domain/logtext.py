"""The text of a task's log: what of it is kept, and which part of it a page shows.

Places in a log are counted in bytes of UTF-8 from the beginning of its attempt. A stored piece ends
at ``upto`` and begins as many bytes before that as its text has; where the piece before ends
earlier, something was never stored, and a reader is shown a mark in its place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

PAGE_BYTES = 256 * 1024
"""How much text one answer holds at most."""
LARGEST_OFFSET = 2**53 - 1
"""The last place that every JSON reader can name."""


class Page(NamedTuple):
    """A part of a log: ``text`` is what lies from ``offset`` to ``next_offset``."""

    offset: int
    text: str
    next_offset: int


def place(text: str, *, start: int, most: int) -> tuple[int, str]:
    """Where a text that begins at ``start`` is put, and how much of it.

    What lies beyond the ``most`` bytes that a log may have is dropped. A mark tells so, and ends
    beyond them, so that nothing comes behind it any more.
    """
    start = min(start, most)
    data = text.encode(errors="replace")
    if start + len(data) <= most:
        return start, data.decode()
    kept = data[: most - start].decode(errors="ignore")
    line = "" if kept.endswith("\n") else "\n"
    return start, f"{kept}{line}[The log is cut here: no more than {most} bytes of it are kept.]\n"


def rest(text: str, *, start: int, end: int) -> tuple[int, str]:
    """What of a text that begins at ``start`` lies behind ``end``, and where that begins.

    Should ``end`` lie inside a character of the text, that one is left out: no part of it is text.
    """
    data = text.encode()
    skip = max(0, end - start)
    while skip < len(data) and _is_inside(data, skip):
        skip += 1
    return start + skip, data[skip:].decode()


def page(pieces: Iterable[tuple[int, str]], *, offset: int, most: int) -> Page:
    """What pieces (``upto``, text) hold from ``offset`` on, ``most`` bytes of it.

    The pieces are all that end behind ``offset``, in order, or the first of them. An offset inside
    a character is moved back to where that begins.
    """
    parts: list[bytes] = []
    begin = at = offset
    room = most
    for upto, text in pieces:
        data = text.encode(errors="replace")
        start = upto - len(data)
        if start > at:
            mark = _gap(start - at)
            if parts and room < len(mark):
                break
            parts.append(mark)
            room -= len(mark)
            at = start
        skip = _back(data, at - start)
        if not parts:
            begin = start + skip
        end = _back(data, skip + max(0, room)) if len(data) - skip > room else len(data)
        parts.append(data[skip:end])
        room -= end - skip
        at = start + end
        if end < len(data):
            break
    return Page(begin, b"".join(parts).decode(), at)


def _gap(size: int) -> bytes:
    return f"[{size} bytes of the log are missing here.]\n".encode()


def _back(data: Sequence[int], place: int) -> int:
    while 0 < place < len(data) and _is_inside(data, place):
        place -= 1
    return place


def _is_inside(data: Sequence[int], place: int) -> bool:
    """Whether a byte is a later one of a character (10xxxxxx)."""
    return data[place] & 0xC0 == 0x80  # noqa: PLR2004 - the two bits of the comment
