"""The page of a task's life has the arrows of the code, and the code those of the page."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import pytest

from jobroom.domain.lifecycle import TERMINAL, TRANSITIONS, UNFINISHED, TaskStatus

PAGE = (Path(__file__).parents[2] / "joblib" / "docs" / "lifecycle.md").read_text()
STATUSES = "|".join(TaskStatus)
ASKED = re.compile(r'`PATCH \{status: "(\w+)"')


def rows():
    """The rows of the first table: from, to, by, who may."""
    table = PAGE.split("| from | to | by | who may |\n|---|---|---|---|\n")[1].split("\n\n")[0]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]


def arrows():
    """Each arrow, with the status that a report asks for, or None; "the same" asks as above."""
    asked = None
    for before, after, by, _ in rows():
        found = ASKED.search(by)
        asked = found[1] if found else asked if by.startswith("the same") else None
        starts = re.findall(STATUSES, before.split(" because")[0].split(", freed")[0]) or [None]
        for start, end in itertools.product(starts, re.findall(STATUSES, after)):
            yield start, end, asked


def test_a_report_may_ask_for_what_the_page_says_and_nothing_else():
    said = {(start, asked) for start, _, asked in arrows() if asked}
    allowed = {
        (start, asked) for asked, starts in TRANSITIONS.items() for start in starts - {asked}
    }
    assert said == allowed


def test_an_end_is_left_by_a_retry_alone():
    left = [by for before, _, by, _ in rows() if re.match("|".join(TERMINAL), before)]
    assert left
    assert all("retry" in by for by in left)


def test_pending_becomes_claimed_by_a_claim_alone():
    ways = [by for before, after, by, _ in rows() if (before, after) == ("pending", "claimed")]
    assert len(ways) == 1
    assert "/tasks/claim" in ways[0]


@pytest.mark.parametrize("status", TaskStatus)
def test_each_status_is_reached_and_if_it_is_no_end_left_again(status):
    assert status in {end for _, end, _ in arrows()}
    if status in UNFINISHED:
        assert status in {start for start, *_ in arrows()}


def test_each_arrow_says_who_may_take_it():
    assert all(who for *_, who in rows())
