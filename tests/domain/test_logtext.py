"""The text of a log: whatever is sent and however it is read, readers have the whole of it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from jobroom.domain import logtext

LINES = st.lists(st.text("aé€😀\n", min_size=1, max_size=12), min_size=1, max_size=8)


def read(pieces, most):
    """All pages of a log, one after the other."""
    found, at = "", 0
    while rest := [piece for piece in pieces if piece[0] > at]:
        page = logtext.page(rest, offset=at, most=most)
        assert page.next_offset > at
        found, at = found + page.text, page.next_offset
    return found


@given(LINES, st.integers(4, 40), st.data())
def test_what_is_sent_again_and_again_is_read_once(lines, most, data):
    """A sender goes on from anywhere that it knows to be stored; pages end anywhere."""
    whole = "".join(lines).encode()
    ends = [len("".join(lines[:n]).encode()) for n in range(len(lines) + 1)]
    pieces, end = [], 0
    for upto in ends[1:]:
        known = data.draw(st.sampled_from([at for at in ends if at <= end]))
        start, text = logtext.rest(whole[known:upto].decode(), start=known, end=end)
        if text:
            start, text = logtext.place(text, start=start, most=10_000)
            end = start + len(text.encode())
            pieces.append((end, text))
    assert read(pieces, most).encode() == whole


@given(LINES, st.integers(0, 60), st.integers(0, 50))
def test_a_full_log_is_whole_characters_and_one_mark(lines, most, start):
    text = "".join(lines)
    at, kept = logtext.place(text, start=start, most=most)
    end = at + len(kept.encode())
    if start + len(text.encode()) <= most:
        assert (at, kept) == (start, text)
    else:
        before, mark, after = kept.partition("[The log is cut here")
        assert mark
        assert text.startswith(before.removesuffix("\n"))
        assert after.endswith("kept.]\n")
        assert at <= most < end


def test_a_mark_that_does_not_fit_begins_the_next_page():
    pieces = [(10, "0123456789"), (200, "late")]
    assert logtext.page(pieces, offset=0, most=20) == logtext.Page(0, "0123456789", 10)
    text = "[186 bytes of the log are missing here.]\nlate"
    assert logtext.page(pieces[1:], offset=10, most=60) == logtext.Page(10, text, 200)
