"""C09 on every store: rows that no transition leaves behind end as failed, and hold up nobody.

What a column's type lets in is tried here; a SQLite file lets in much more, which
``acceptance/test_damaged_rows.py`` tries.
"""

from __future__ import annotations

import pytest

PENDING = {
    "started as often as it may be": "starts = max_attempts, attempt = max_attempts",
    "started more often": "starts = max_attempts + 1, attempt = max_attempts + 1",
    "started more often than claimed": "starts = 2, attempt = 0, max_attempts = 3",
    "starts negative": "starts = -1",
    "may never start": "max_attempts = 0",
    "max_attempts negative": "max_attempts = -3",
    "attempt negative": "attempt = -7",
    "payload cut off": """payload = '{"angle": 9'""",
    "payload empty": "payload = ''",
    "payload no object": "payload = '[90]'",
    "payload NaN": """payload = '{"angle": NaN}'""",
    "payload with something behind it": """payload = '{"angle": 90}, "more": {}'""",
    "schema_version unknown": "schema_version = 99",
    "schema_version negative": "schema_version = -1",
    "turn negative": "turn = -1",
    "created_at beyond all calendars": "created_at = 9000000000000000000",
    "created_at negative": "created_at = -1",
}


def _check_the_others_run(desk, alice, bob, job, bad) -> None:
    good = [desk.submit(bob, job) for _ in range(3)]
    claimed = [task.id for _ in range(4) for task in desk.claim(alice)]
    assert claimed == [task.id for task in good]
    ended = desk.get(bob, bad)
    assert ended.status == "failed"
    assert "The stored task is damaged" in ended.error
    assert desk.sweep().failed_tasks == 0


@pytest.mark.parametrize("damage", PENDING.values(), ids=PENDING)
def test_a_damaged_row_fails_with_a_reason_and_the_good_ones_run(
    desk, alice, bob, rotate, damage
) -> None:
    bad = desk.submit(bob, rotate)
    desk.write(f"UPDATE task SET {damage}")  # noqa: S608
    _check_the_others_run(desk, alice, bob, rotate, bad)


@pytest.mark.parametrize("damage", ["starts = -1", "payload = ''", "attempt = -7"])
def test_a_claim_of_several_steps_over_what_is_damaged(desk, alice, bob, rotate, damage) -> None:
    """``limit`` returns what is there, not fewer for each bad row."""
    tasks = [desk.submit(bob, rotate) for _ in range(6)]
    desk.write(f"UPDATE task SET {damage} WHERE seq % 2 = 0")  # noqa: S608
    odd = desk.read("SELECT id FROM task WHERE seq % 2 = 1 ORDER BY seq")
    assert [(task.id,) for task in desk.claim(alice, limit=10)] == odd
    assert {desk.get(bob, task).status for task in tasks} == {"claimed", "failed"}


@pytest.mark.parametrize("damage", ["starts = 9", "attempt = -7", "idle_claims = -1"])
def test_a_damaged_row_that_a_lost_worker_held_fails(desk, alice, bob, damage) -> None:
    job = desk.job(alice, on_worker_lost="requeue")
    bad = desk.submit(bob, job)
    desk.run_one(alice)
    desk.write(f"UPDATE task SET {damage}")  # noqa: S608
    desk.wait(61)
    desk.sweep()
    assert desk.get(bob, bad).status in {"failed", "pending"}
    good = desk.submit(bob, job)
    assert good.id in [task.id for _ in range(2) for task in desk.claim(alice)]
