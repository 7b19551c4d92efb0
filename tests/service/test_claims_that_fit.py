"""Claims through a door whose answers have a limit: what it cannot carry is not taken."""

from __future__ import annotations

import threading

import orjson
import pytest
from desk import Waiter

from jobroom.domain import sizes
from jobroom.errors import AnswerTooLarge
from jobroom.http import fitting, render
from jobroom.service import claiming, reporting
from jobroom.store import claims

KIB = 1024
MOST = 256 * KIB


def _payload(size: int) -> str:
    """A payload of exactly so many bytes."""
    return '{"x":"' + "a" * (size - len('{"x":""}')) + '"}'


@pytest.fixture
def submit(desk, bob, rotate):
    """Submits tasks with payloads of these sizes; their ids."""

    def _submit(*payload_sizes, **more):
        return [desk.submit(bob, rotate, payload=_payload(n), **more).id for n in payload_sizes]

    return _submit


def test_fewer_tasks_are_claimed_than_asked_for_where_more_would_not_fit(desk, alice, submit):
    ids = submit(*[40 * KIB] * 6)
    claimed = [task.id for task in desk.claim(alice, limit=100, most_bytes=MOST)]
    assert claimed == ids[: len(claimed)]
    assert 1 < len(claimed) < 6


def test_what_did_not_fit_is_pending_and_comes_with_the_next_claims(desk, alice, submit):
    ids = submit(*[40 * KIB] * 6)
    seen = []
    while found := desk.claim(alice, limit=100, most_bytes=MOST):
        seen += [task.id for task in found]
    assert seen == ids


def test_without_a_limit_all_are_claimed(desk, alice, submit):
    ids = submit(*[40 * KIB] * 6)
    assert [task.id for task in desk.claim(alice, limit=100)] == ids


@pytest.mark.parametrize("payload_size", [2, 100, 5 * KIB, 30 * KIB, 60 * KIB])
def test_the_answer_to_a_claim_is_no_longer_than_its_limit(desk, alice, submit, payload_size):
    submit(*[max(payload_size, 8)] * 30)
    asked = {"caller": alice, "limit": 100, "most_bytes": MOST}
    views = desk.queue.run(claiming.claim_tasks, **asked)
    assert views
    assert len(render.dump(render.claim_document(views))) <= MOST


@pytest.mark.parametrize("start", [False, True])
@pytest.mark.parametrize("limit", [1, 5])
def test_a_payload_of_exactly_the_limit_is_claimed(desk, alice, submit, limit, start):
    [task_id] = submit(sizes.largest_payload(MOST))
    assert desk.claim_one(alice, limit=limit, start=start, most_bytes=MOST).id == task_id


@pytest.mark.parametrize("start", [False, True])
@pytest.mark.parametrize("limit", [1, 5])
def test_a_payload_of_a_byte_more_is_refused_by_its_name_and_left_as_it_was(
    desk, alice, submit, limit, start
):
    """No false null: the task is there. It stays pending, its attempt is not counted."""
    size = sizes.largest_payload(MOST) + 1
    [task_id] = submit(size)
    before = desk.read("SELECT * FROM task")
    with pytest.raises(AnswerTooLarge, match=rf"{task_id}.* {size} bytes"):
        desk.claim(alice, limit=limit, start=start, most_bytes=MOST)
    assert desk.read("SELECT * FROM task") == before
    assert desk.claim_one(alice).id == task_id


def test_a_payload_is_measured_in_bytes_not_in_characters(desk, alice, bob, rotate):
    desk.submit(bob, rotate, payload='{"x":"' + "ä" * (sizes.largest_payload(MOST) - 20) + '"}')
    with pytest.raises(AnswerTooLarge):
        desk.claim(alice, most_bytes=MOST)


def test_no_task_overtakes_one_that_cannot_be_carried(desk, alice, submit):
    """Contract: highest priority first, then oldest; behind the others it would wait for ever."""
    submit(MOST, 100)
    with pytest.raises(AnswerTooLarge):
        desk.claim(alice, limit=2, most_bytes=MOST)


def test_what_comes_before_it_is_claimed(desk, alice, submit):
    first, _ = submit(100, MOST)
    assert [task.id for task in desk.claim(alice, limit=5, most_bytes=MOST)] == [first]


def test_a_cancelled_one_holds_up_nobody(desk, alice, bob, submit):
    large, small = submit(MOST, 100)
    said = reporting.Report("cancelled")
    desk.queue.run(reporting.report, caller=bob, task_id=large, report=said)
    assert desk.claim_one(alice, most_bytes=MOST).id == small


def test_a_delayed_one_is_refused_when_it_is_due(desk, alice, submit):
    submit(MOST, run_at=desk.soon(60))
    assert desk.claim(alice, most_bytes=MOST) == []
    desk.wait(61)
    with pytest.raises(AnswerTooLarge):
        desk.claim(alice, most_bytes=MOST)


def test_a_waiting_claim_learns_of_it_too(desk, alice, submit):
    waiting = Waiter(desk, alice, most_bytes=MOST).begin()
    submit(MOST)
    with pytest.raises(AnswerTooLarge):
        waiting.answer()


def test_a_waiting_claim_gets_what_fits(desk, alice, submit):
    waiting = Waiter(desk, alice, limit=5, most_bytes=MOST).begin()
    ids = submit(40 * KIB)
    assert [task.id for task in waiting.answer()] == ids


def test_a_repeated_claim_gives_the_same_tasks(desk, alice, submit):
    """Contract: request_id. Their order is another one than that of a fair job's claim."""
    submit(8 * KIB, 60 * KIB, 8 * KIB, 60 * KIB)
    asked = {"limit": 5, "request_id": "once", "most_bytes": MOST}
    first = [task.id for task in desk.claim(alice, **asked)]
    assert len(first) > 1
    assert [task.id for task in desk.claim(alice, **asked)] == first


def test_a_repeat_through_a_narrower_door_gives_back_what_it_cannot_carry(desk, alice, submit):
    """Nothing is held by a worker that has not been told of it."""
    ids = submit(*[100 * KIB] * 3)
    desk.claim(alice, limit=5, request_id="once", start=True)
    asked = {"limit": 5, "request_id": "once", "start": True, "most_bytes": MOST}
    kept = [task.id for task in desk.claim(alice, **asked)]
    assert kept == ids[:1]
    rows = desk.read("SELECT status, starts, worker_id FROM task ORDER BY seq")
    assert [row[0] for row in rows] == ["running", "pending", "pending"]
    assert [row[1] for row in rows] == [1, 0, 0]
    assert [task.id for task in desk.claim(alice, limit=5)] == ids[1:]


def test_a_repeat_of_which_nothing_can_be_carried_is_refused_and_all_goes_back(desk, alice, submit):
    [task_id] = submit(MOST)
    desk.claim(alice, request_id="once")
    with pytest.raises(AnswerTooLarge):
        desk.claim(alice, request_id="once", most_bytes=MOST)
    assert desk.claim_one(alice).id == task_id


def test_a_report_is_taken_whatever_the_next_task_is(desk, alice, submit):
    """The next task is left for a claim, which says why it is refused."""
    submit(100, MOST)
    task = desk.run_one(alice)
    done = desk.reported(
        alice, task, "completed", attempt=task.attempt, claim_next=True, most_bytes=MOST
    )
    assert done.view.task.status == "completed"
    assert done.next_task is None
    again = desk.reported(
        alice, task, "completed", attempt=task.attempt, claim_next=True, most_bytes=MOST
    )
    assert again.next_task is None
    with pytest.raises(AnswerTooLarge):
        desk.claim(alice, most_bytes=MOST)


def test_a_report_brings_the_largest_next_task_that_its_answer_can_carry(desk, alice, submit):
    submit(50 * KIB, MOST - 60 * KIB)
    task = desk.run_one(alice)
    said = {"attempt": task.attempt, "claim_next": True, "most_bytes": MOST, "result": '"r"'}
    for _ in range(2):  # the second is a repeat
        done = desk.reported(alice, task, "completed", **said)
        assert done.next_task is not None
        body = render.dump(fitting.report(done.view, done.next_task, fitting.Left.TEXTS))
        assert len(body) <= MOST


@pytest.mark.parametrize("letter", ['"', "\\", "\x01", "ä", "€"])
def test_a_task_costs_no_more_than_is_reckoned(desk, alice, bob, rotate, letter):
    """Whatever its names and texts are made of: this is what a claim relies on."""
    desk.submit(bob, rotate, payload=_payload(1000))
    task = desk.claim_one(alice)
    view = desk.view(alice, task)
    long = letter * 64 * KIB
    held = view._replace(
        task=view.task._replace(error=long, message=long, key=letter * 255, room_id=letter * 255),
        edges=orjson.dumps(
            [["0" * 36, "completed", "waiting", None, None, None] for _ in range(1000)]
        ).decode(),
    )
    size = len(render.dump(fitting.held(held, fitting.Left.TEXTS)))
    assert size <= sizes.cost(held) <= 1000 + sizes.FRAME_BYTES


def test_claims_that_race_lose_and_double_nothing(desk, alice, bob, submit):
    """Several at once under a limit: each task once, and none stuck with who was not told."""
    ids = submit(*[30 * KIB, 8, 60 * KIB, 300] * 6)
    workers = [desk.worker(alice) for _ in range(4)]
    for worker in workers:
        desk.job(alice, worker_id=worker)
    got: list[str] = []

    def work(worker):
        while found := desk.claim(alice, worker, limit=7, start=True, most_bytes=MOST):
            got.extend(task.id for task in found)

    threads = [threading.Thread(target=work, args=(worker,)) for worker in workers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(got) == sorted(ids)
    assert desk.read("SELECT count(*) FROM task WHERE status <> 'running'") == [(0,)]


def test_a_claim_without_a_limit_makes_no_statement_of_the_other_kind(
    desk, alice, submit, monkeypatch
):
    """What has no limit pays nothing for it."""
    monkeypatch.setattr(claims, "_CLAIM_OF_WHAT_FITS", {})
    submit(100, 100)
    assert desk.claim(alice)
    assert desk.claim(alice, limit=5)
