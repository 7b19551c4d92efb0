"""The ``Prefer`` header (RFC 7240; contract, *Tasks*; case C28)."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobroom.domain.prefer import MAX_WAIT, requested_wait

CASES = [
    ([], None),
    (["wait=abc"], None),
    (["wait=-1"], None),
    (["wait=0"], 0),
    (["wait=99999999999999999999"], MAX_WAIT),
    (["wait=" + "9" * 10_000], MAX_WAIT),
    (["wait=" + "0" * 10_000 + "7"], 7),
    (["respond-async", "wait=2"], 2),
    (["respond-async, wait=2"], 2),
    (["respond-async"], None),
    (["WAIT=2"], 2),
    (['wait="2"'], 2),
    (["wait = 2"], 2),
    (["\twait\t=\t2\t"], 2),
    (["wait=2;foo=bar; x"], 2),
    (["wait=2, wait=3"], 2),
    (["wait=2", "wait=3"], 2),
    (["wait=abc, wait=3"], 3),
    (["wait"], None),
    (["wait="], None),
    (["wait=+2"], None),
    (["wait=2.5"], None),
    (["wait=2 3"], None),
    (["wait=\u0662"], None),
    (["wa\u0131t=2"], None),
    (["await=2"], None),
    (["respond-async;wait=2"], None),
    (['note="a, wait=9", wait=2'], 2),
    (['note="a\\", wait=9", wait=2'], 2),
    (['note="open, wait=9'], None),
    ([",, ,wait=2,"], 2),
    (["", " ", "wait=2"], 2),
]


@pytest.mark.parametrize(("lines", "seconds"), CASES)
def test_wait_is_read_as_the_rfc_says_and_nonsense_is_ignored(lines, seconds):
    assert requested_wait(lines) == seconds


@settings(max_examples=200)
@given(st.lists(st.text() | st.text('wait=;,"\\ 019-'), max_size=3))
def test_no_text_raises(lines):
    found = requested_wait(lines)
    assert found is None or 0 <= found <= MAX_WAIT


@settings(max_examples=50)
@given(st.integers(0, 10**12), st.text(st.characters(exclude_characters='"\\'), max_size=10))
def test_a_wait_is_found_behind_any_quoted_text(seconds, note):
    assert requested_wait([f'note="{note}", wait={seconds}']) == min(seconds, MAX_WAIT)


@pytest.mark.parametrize("line", ['"' * 50_000, '"\\' * 50_000, "wait=" * 20_000, " \t" * 50_000])
def test_long_nonsense_takes_linear_time(line):
    assert requested_wait([line]) is None
