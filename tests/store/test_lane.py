"""Group commit: what waits shares a transaction, and each request has its own fate in it."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator

import pytest

from jobroom.errors import Conflict, StoreUnavailable
from jobroom.settings import JobLibSettings
from jobroom.store import dialect, state
from jobroom.store.lane import Hooks, Lane, Parked, Refused, Work
from jobroom.store.transaction import Transaction

pytestmark = pytest.mark.only_on("sqlite")  # the others have lanes of another kind

PATIENCE = 10


class Mailbox:
    """Keeps what a lane delivers, call by call; ``wait`` until so many works have come."""

    def __init__(self) -> None:
        self.calls: list[list[Work]] = []
        self._come = threading.Condition()

    def __call__(self, works: list[Work]) -> None:
        with self._come:
            self.calls.append(works)
            self._come.notify_all()

    def wait(self, count: int) -> list[Work]:
        with self._come:
            assert self._come.wait_for(lambda: len(self.works) >= count, PATIENCE)
            return self.works

    @property
    def works(self) -> list[Work]:
        return [work for call in self.calls for work in call]


class Recorder(Hooks):
    """Notes what a lane says to the queue; serves what it was given to serve."""

    def __init__(self) -> None:
        self.parked: list[Work] = []
        self.forgotten: list[Work] = []
        self.to_serve: list[Work] = []
        self.keeps = True

    def park(self, work: Work) -> bool:
        self.parked.append(work)
        return self.keeps

    def forget(self, works: list[Work]) -> None:
        self.forgotten += works

    def hand_off(self, tx: Transaction, served: list[Work]) -> None:
        for work in self.to_serve:
            work.result = "served"
            served.append(work)


@pytest.fixture
def hooks() -> Recorder:
    return Recorder()


@pytest.fixture
def lane(settings: JobLibSettings, hooks: Recorder) -> Iterator[Lane]:
    opened = Lane(dialect.open_database(settings), settings, write=True, hooks=hooks)
    yield opened
    opened.close()


@pytest.fixture
def mailbox() -> Mailbox:
    return Mailbox()


def put(tx: Transaction, *, name: str) -> Transaction:
    state.put(tx, name, 1)
    return tx


def has(lane: Lane, name: str) -> bool:
    return lane.call(Work(lambda tx: state.get(tx, name), {})) is not None


def post_together(lane: Lane, works: list[Work]) -> None:
    """Post works while the lane is busy with another, so that they wait and make one group."""
    begun, go_on = threading.Event(), threading.Event()

    def hold(tx: Transaction) -> None:
        begun.set()
        assert go_on.wait(PATIENCE)

    lane.post(Work(hold, {}))
    assert begun.wait(PATIENCE)
    for work in works:
        lane.post(work)
    go_on.set()


def refuse_before_writing(tx: Transaction) -> None:
    raise Conflict("no")


def refuse_after_writing(tx: Transaction) -> None:
    put(tx, name="refused")
    raise Conflict("no")


def break_down(tx: Transaction) -> None:
    put(tx, name="broken")
    raise ZeroDivisionError


def test_works_that_wait_share_one_transaction(lane: Lane, mailbox: Mailbox) -> None:
    """Design, *The write path*."""
    post_together(lane, [Work(put, {"name": name}, mailbox) for name in "abc"])
    works = mailbox.wait(3)
    assert len({id(work.outcome()) for work in works}) == 1
    assert has(lane, "a")
    assert has(lane, "c")


def test_a_mailbox_gets_the_works_of_a_group_in_one_call(lane: Lane, mailbox: Mailbox) -> None:
    post_together(lane, [Work(put, {"name": name}, mailbox) for name in "abc"])
    mailbox.wait(3)
    assert [len(call) for call in mailbox.calls] == [3]


def test_works_are_answered_only_after_the_commit(
    lane: Lane, settings: JobLibSettings, mailbox: Mailbox
) -> None:
    reader = Lane(dialect.open_database(settings), settings, write=False)
    seen: list[bool] = []

    def look(works: list[Work]) -> None:
        seen.append(has(reader, "a"))
        mailbox(works)

    lane.post(Work(put, {"name": "a"}, look))
    mailbox.wait(1)
    reader.close()
    assert seen == [True]


def test_a_fault_neither_harms_nor_undoes_the_others(lane: Lane, mailbox: Mailbox) -> None:
    faulty = Work(break_down, {}, mailbox)
    good = [Work(put, {"name": name}, mailbox) for name in "ab"]
    post_together(lane, [good[0], faulty, good[1]])
    mailbox.wait(3)
    assert isinstance(faulty.error, ZeroDivisionError)
    assert [work.error for work in good] == [None, None]
    assert [has(lane, name) for name in ("a", "b", "broken")] == [True, True, False]


def test_each_work_of_a_group_with_a_fault_is_answered_once(lane: Lane, mailbox: Mailbox) -> None:
    post_together(lane, [Work(break_down, {}, mailbox), Work(put, {"name": "a"}, mailbox)])
    assert len(mailbox.wait(2)) == 2


def test_a_refusal_before_writing_leaves_the_group_together(lane: Lane, mailbox: Mailbox) -> None:
    refused = Work(refuse_before_writing, {}, mailbox)
    good = [Work(put, {"name": name}, mailbox) for name in "ab"]
    post_together(lane, [good[0], refused, good[1]])
    mailbox.wait(3)
    assert isinstance(refused.error, Conflict)
    assert good[0].outcome() is good[1].outcome()


def test_a_refusal_after_writing_is_undone_alone(lane: Lane, mailbox: Mailbox) -> None:
    refused = Work(refuse_after_writing, {}, mailbox)
    good = Work(put, {"name": "a"}, mailbox)
    post_together(lane, [refused, good])
    mailbox.wait(2)
    assert isinstance(refused.error, Conflict)
    assert not has(lane, "refused")
    assert has(lane, "a")


def test_refused_keeps_what_was_written_and_answers_the_error(lane: Lane) -> None:
    def refuse(tx: Transaction) -> None:
        put(tx, name="kept")
        raise Refused(Conflict("no"))

    with pytest.raises(Conflict):
        lane.call(Work(refuse, {}))
    assert has(lane, "kept")


def test_a_parked_work_is_not_answered(lane: Lane, hooks: Recorder, mailbox: Mailbox) -> None:
    def wait(tx: Transaction) -> None:
        raise Parked("a wish", otherwise=None)

    parked = Work(wait, {}, mailbox)
    post_together(lane, [parked, Work(put, {"name": "a"}, mailbox)])
    mailbox.wait(1)
    assert parked not in mailbox.works
    assert hooks.parked == [parked]
    assert parked.wish == "a wish"


def test_a_work_that_may_not_be_parked_is_answered_at_once(
    lane: Lane, hooks: Recorder, mailbox: Mailbox
) -> None:
    """Who asked has left meanwhile."""

    def wait(tx: Transaction) -> None:
        raise Parked("a wish", otherwise="nothing")

    hooks.keeps = False
    lane.post(Work(wait, {}, mailbox))
    assert mailbox.wait(1)[0].outcome() == "nothing"


def test_what_was_parked_in_a_group_that_failed_is_forgotten_and_parked_anew(
    lane: Lane, hooks: Recorder, mailbox: Mailbox
) -> None:
    def wait(tx: Transaction) -> None:
        raise Parked("a wish", otherwise=None)

    parked = Work(wait, {}, mailbox)
    post_together(lane, [parked, Work(break_down, {}, mailbox)])
    mailbox.wait(1)
    lane.call(Work(put, {"name": "a"}))
    assert hooks.forgotten == [parked]
    assert hooks.parked == [parked, parked]


def test_a_hand_off_is_answered_with_the_group_that_made_it(
    lane: Lane, hooks: Recorder, mailbox: Mailbox
) -> None:
    waiting = Work(put, {"name": "never run"}, mailbox)
    hooks.to_serve = [waiting]

    def bring(tx: Transaction) -> None:
        tx.claimable[1] = None

    lane.post(Work(bring, {}, mailbox))
    mailbox.wait(2)
    assert waiting.outcome() == "served"


def test_a_hand_off_whose_commit_failed_is_answered_unavailable(
    lane: Lane, hooks: Recorder, mailbox: Mailbox
) -> None:
    waiting = Work(put, {"name": "never run"}, mailbox)

    class Breaking(Recorder):
        def hand_off(self, tx: Transaction, served: list[Work]) -> None:
            waiting.result = "served"
            served.append(waiting)
            raise ZeroDivisionError

    lane._hooks = Breaking()

    def bring(tx: Transaction) -> None:
        tx.claimable[1] = None

    lane.post(Work(bring, {}, mailbox))
    mailbox.wait(2)
    assert isinstance(waiting.error, StoreUnavailable)


def test_call_runs_on_the_callers_own_thread(lane: Lane) -> None:
    assert lane.call(Work(lambda _: threading.current_thread(), {})) is threading.current_thread()


def test_the_clock_is_read_once_for_a_whole_group(lane: Lane, mailbox: Mailbox) -> None:
    """Design, *Time, ids, fences*: ``now`` is the store's, once per transaction."""
    post_together(lane, [Work(lambda tx: tx.now, {}, mailbox) for _ in range(3)])
    assert len({work.outcome() for work in mailbox.wait(3)}) == 1


def test_a_reader_sees_only_what_is_committed(lane: Lane, settings: JobLibSettings) -> None:
    reader = Lane(dialect.open_database(settings), settings, write=False)

    def write_and_look(tx: Transaction) -> bool:
        put(tx, name="a")
        return has(reader, "a")

    seen_before = lane.call(Work(write_and_look, {}))
    seen_after = has(reader, "a")
    reader.close()
    assert (seen_before, seen_after) == (False, True)


def test_the_reader_cannot_write(settings: JobLibSettings) -> None:
    reader = Lane(dialect.open_database(settings), settings, write=False)
    with pytest.raises((StoreUnavailable, sqlite3.OperationalError)):
        reader.call(Work(put, {"name": "a"}))
    reader.close()


def test_close_answers_what_waits(lane: Lane, mailbox: Mailbox) -> None:
    post_together(lane, [Work(put, {"name": name}, mailbox) for name in "abc"])
    lane.close()
    assert [work.error for work in mailbox.works] == [None] * 3


def test_a_closed_lane_answers_unavailable_at_once(lane: Lane, mailbox: Mailbox) -> None:
    lane.close()
    lane.post(Work(put, {"name": "a"}, mailbox))
    assert isinstance(mailbox.works[0].error, StoreUnavailable)
    with pytest.raises(StoreUnavailable):
        lane.call(Work(put, {"name": "a"}))


def test_a_work_queued_at_the_moment_of_closing_is_answered(
    lane: Lane, mailbox: Mailbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    works = lane._works
    put_for_real = works.put

    def close_and_put(work: Work) -> None:
        monkeypatch.undo()
        lane.close()
        put_for_real(work)

    monkeypatch.setattr(works, "put", close_and_put)
    lane.post(Work(put, {"name": "a"}, mailbox))
    assert isinstance(mailbox.works[0].error, StoreUnavailable)


def test_closing_twice_does_nothing(lane: Lane) -> None:
    lane.close()
    lane.close()


def test_a_commit_of_another_connection_is_noticed_and_our_own_is_not(
    lane: Lane, settings: JobLibSettings, mailbox: Mailbox
) -> None:
    """Design, *The write path*: processes on one file wake each other by ``data_version``."""
    told: list[str] = []
    other = Lane(dialect.open_database(settings), settings, write=True)
    lane.call(Work(put, {"name": "own"}))
    lane.check_foreign(lambda: told.append("own"))
    lane.post(Work(put, {"name": "a"}, mailbox))
    mailbox.wait(1)
    other.call(Work(put, {"name": "foreign"}))
    lane.check_foreign(lambda: told.append("foreign"))
    lane.post(Work(put, {"name": "b"}, mailbox))
    mailbox.wait(2)
    other.close()
    assert told == ["foreign"]
