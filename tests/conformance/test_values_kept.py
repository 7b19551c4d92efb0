"""What is stored comes back as it was sent, whichever store it was kept in."""

from __future__ import annotations

import json

import pytest

DIGITS = "123456789012345678901234567890"
TEXTS = {
    "a NUL": r'{"s": "a\u0000b"}',
    "a NUL in a key": r'{"a\u0000": 1}',
    "a NUL in a word of SQL": r"""{"s": "\u0000'; DROP TABLE task; --"}""",
    "an escaped escape": r'{"s": "a\\u0000b"}',
    "spaces as they were": '{ "a" :\t1 , "b":[ ] }\n',
    "all planes": '{"s": "é 名前 🧬 \U0010ffff \u200b \u2028"}',
    "both normal forms": '{"é": 1, "é": 2}',
    "an escaped pair": r'{"s": "\ud83e\uddec"}',
    "marks of parameters": '{"s": "? ?1 :now %s %(now)s $1 $tag$ {x} \\\\ \' \\""}',
    "2**62": f'{{"n": {2**62}}}',
    "beyond 64 bits": f'{{"n": [{2**63}, -{2**64}, {DIGITS}]}}',
    "floats": '{"n": [1e308, -1.7976931348623157e308, 5e-324, 1.0, -0.0, 0.1, 1E2]}',
    "long digits": f'{{"n": 0.{DIGITS}}}',
    "one MiB": json.dumps({"s": "x" * 1_000_000}),
    "deep": '{"a": ' * 60 + "1" + "}" * 60,
}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_payload_and_result_are_kept_byte_for_byte(desk, alice, bob, rotate, text) -> None:
    """C37; rules, *Text*: NUL in payload and result is kept exactly on all stores."""
    task = desk.submit(bob, rotate, payload=text)
    assert desk.run_one(alice).payload == text
    assert desk.report(alice, task, "completed", result=text, attempt=1).result == text
    kept = desk.get(bob, task)
    assert (kept.payload, kept.result) == (text, text)
    # The same bytes again are a repeat, on every store.
    assert desk.report(alice, task, "completed", result=text, attempt=1) == kept


@pytest.mark.parametrize("text", ["\x1b[31mred\x1b[0m", "a\tb\r\nc", "␀ 🧬 \u2028", " ", ""])
def test_an_error_and_a_message_are_kept_as_they_are(desk, alice, bob, rotate, text) -> None:
    """C37: an error text with ANSI codes."""
    task = desk.submit(bob, rotate)
    desk.run_one(alice)
    desk.report(alice, task, message=text)
    failed = desk.report(alice, task, "failed", error=text)
    assert (failed.error, failed.message) == (text, text)
    assert desk.get(bob, task) == failed


@pytest.mark.parametrize("priority", [-(2**31), -1, 2**31 - 1])
def test_a_priority_may_be_as_high_or_low_as_the_contract_lets_it(
    desk, alice, bob, rotate, priority
) -> None:
    desk.submit(bob, rotate)
    task = desk.submit(bob, rotate, priority=priority)
    first, second = desk.claim(alice, limit=2)
    assert (first if priority > 0 else second).id == task.id
    assert {first.priority, second.priority} == {0, priority}


@pytest.mark.parametrize("progress", [0.0, 1.0, 0.1, 5e-324, 0.3333333333333333])
def test_a_float_comes_back_with_all_its_digits(desk, alice, bob, rotate, progress) -> None:
    task = desk.submit(bob, rotate)
    desk.run_one(alice)
    assert desk.report(alice, task, progress=progress).progress == progress
    assert desk.get(bob, task).progress == progress


TIMES = [1, 1_795_983_685_379_001, 253_402_300_799_999_999]


@pytest.mark.parametrize("moment", TIMES)
def test_a_time_is_kept_to_the_microsecond(desk, alice, bob, rotate, moment) -> None:
    """Contract: times have microseconds; the last one is that of the year 9999."""
    task = desk.submit(bob, rotate, run_at=moment)
    assert desk.get(bob, task).run_at == moment
    claimed = desk.claim(alice)
    assert [found.id for found in claimed] == ([] if moment == TIMES[-1] else [task.id])


def test_the_longest_of_all_timeouts_does_not_overflow(desk, alice, bob) -> None:
    """Ten years in microseconds, beside the microseconds since 1970."""
    longest = 10 * 366 * 24 * 3600.0
    job = desk.job(
        alice,
        timeout_seconds=longest,
        claim_timeout_seconds=longest,
        result_ttl_seconds=longest,
        retry_delay_seconds=longest,
        max_attempts=2,
    )
    task = desk.submit(bob, job, timeout_seconds=longest)
    desk.claim_one(alice)
    desk.report(alice, task, "running")
    assert desk.report(alice, task, "failed").status == "pending"
    desk.wait(3601)
    assert desk.run_one(alice).id == task.id
    assert desk.report(alice, task, "completed").status == "completed"
    assert desk.sweep().removed_tasks == 0


def test_half_a_microsecond_of_a_timeout_is_rounded_alike(desk, alice, bob) -> None:
    """``due_at`` is an integer in every store, computed there from seconds with a fraction."""
    job = desk.job(alice, timeout_seconds=1.0000005)
    desk.submit(bob, job)
    running = desk.run_one(alice)
    assert running.due_at - running.started_at in (1_000_000, 1_000_001)
    assert [type(row[0]) for row in desk.read("SELECT due_at FROM task")] == [int]


def test_the_clock_of_the_store_is_in_microseconds_and_does_not_stand_still(desk) -> None:
    first = desk.now()
    assert 1_700_000_000_000_000 < first < 4_000_000_000_000_000
    while desk.now() == first:
        pass
    assert first < desk.now() < first + 60_000_000
