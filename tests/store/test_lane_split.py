"""A group run on the caller's thread and committed on the lane's: what an event loop asks for."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator

import pytest

from jobroom.errors import StoreUnavailable
from jobroom.settings import JobLibSettings
from jobroom.store import dialect, state
from jobroom.store.courier import Courier
from jobroom.store.lane import Lane, Work
from jobroom.store.transaction import Transaction

pytestmark = pytest.mark.only_on("sqlite")  # the others have lanes of another kind

PATIENCE = 10


class Told:
    """Keeps what it was told, and on which thread; ``wait`` until that has happened."""

    def __init__(self) -> None:
        self.works: list[Work] = []
        self.threads: list[str] = []
        self._come = threading.Semaphore(0)

    def __call__(self, works: list[Work]) -> None:
        self.works += works
        self.threads.append(threading.current_thread().name)
        self._come.release()

    def wait(self) -> list[Work]:
        assert self._come.acquire(timeout=PATIENCE)
        return self.works


@pytest.fixture
def lane(settings: JobLibSettings) -> Iterator[Lane]:
    opened = Lane(dialect.open_database(settings), settings, write=True)
    yield opened
    opened.close()


@pytest.fixture
def told() -> Told:
    return Told()


def put(tx: Transaction, *, name: str) -> str:
    state.put(tx, name, 1)
    return threading.current_thread().name


def nobody() -> None:
    """Whom the lane may tell that it is free again."""


def has(lane: Lane, name: str) -> bool:
    return lane.call(Work(lambda tx: state.get(tx, name), {})) is not None


def test_statements_run_on_the_callers_thread_and_the_commit_on_the_lanes(
    lane: Lane, told: Told
) -> None:
    """Design, *The write path*: only what is short runs on the loop; another waits for the disk."""
    assert lane.try_run([Work(put, {"name": "a"}, told)], told=nobody)
    [work] = told.wait()
    assert work.outcome() == threading.current_thread().name
    assert told.threads != [threading.current_thread().name]
    assert has(lane, "a")


def test_all_works_of_a_group_come_in_one_call(lane: Lane, told: Told) -> None:
    lane.try_run([Work(put, {"name": name}, told) for name in "abc"], told=nobody)
    assert len(told.wait()) == 3
    assert len(told.threads) == 1


def test_a_busy_lane_takes_nothing(lane: Lane, told: Told) -> None:
    with lane._lock:
        assert not lane.try_run([Work(put, {"name": "a"}, told)], told=nobody)
    assert told.works == []


def test_a_busy_store_takes_nothing_and_is_not_waited_for(
    lane: Lane, settings: JobLibSettings, told: Told
) -> None:
    other = dialect.open_database(settings).connect(read_only=False)
    other.execute("BEGIN IMMEDIATE")
    assert not lane.try_run([Work(put, {"name": "a"}, told)], told=nobody)
    other.execute("COMMIT")
    assert lane.try_run([Work(put, {"name": "a"}, told)], told=nobody)
    assert told.wait()[0].error is None
    other.close()


def test_a_closed_lane_takes_nothing(lane: Lane, told: Told) -> None:
    lane.close()
    assert not lane.try_run([Work(put, {"name": "a"}, told)], told=nobody)


def test_closing_waits_for_the_commit_that_is_under_way(
    lane: Lane, settings: JobLibSettings, told: Told
) -> None:
    lane.try_run([Work(put, {"name": "a"}, told)], told=nobody)
    lane.close()
    assert told.wait()[0].error is None
    reader = Lane(dialect.open_database(settings), settings, write=False)
    assert has(reader, "a")
    reader.close()


def test_a_fault_neither_harms_nor_undoes_the_others(lane: Lane, told: Told) -> None:
    def break_down(tx: Transaction) -> None:
        put(tx, name="broken")
        raise ZeroDivisionError

    faulty, good = Work(break_down, {}, told), Work(put, {"name": "a"}, told)
    assert lane.try_run([faulty, good], told=nobody)
    told.wait()
    assert isinstance(faulty.error, ZeroDivisionError)
    assert good.error is None
    assert [has(lane, name) for name in ("a", "broken")] == [True, False]


def test_whoever_asked_is_told_even_where_nothing_is_to_be_answered(lane: Lane) -> None:
    """Else the loop would wait for ever with what came meanwhile."""
    free = threading.Event()
    lane.try_run([Work(put, {"name": "a"})], told=free.set)
    assert free.wait(PATIENCE)


def test_who_is_told_that_the_lane_is_free_finds_it_free(lane: Lane) -> None:
    taken: list[bool] = []
    done = threading.Event()

    def take() -> None:
        taken.append(lane._lock.acquire(blocking=False))
        lane._lock.release()
        done.set()

    lane.try_run([Work(put, {"name": "a"})], told=take)
    assert done.wait(PATIENCE)
    assert taken == [True]


def test_who_asked_is_told_after_a_fault_too(lane: Lane, told: Told) -> None:
    def break_down(_tx: Transaction) -> None:
        raise ZeroDivisionError

    free = threading.Event()
    lane.try_run([Work(break_down, {}, told)], told=free.set)
    assert isinstance(told.wait()[0].error, ZeroDivisionError)
    assert free.wait(PATIENCE)


def test_a_mailbox_that_fails_does_not_stop_the_lane(
    lane: Lane, told: Told, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(works: list[Work]) -> None:
        raise ZeroDivisionError

    with caplog.at_level(logging.CRITICAL):
        lane.try_run([Work(put, {"name": "a"}, fail)], told=nobody)
        lane.post(Work(put, {"name": "b"}, told))
        told.wait()
    assert has(lane, "a")
    assert has(lane, "b")


def test_a_courier_delivers_in_order_and_goes_on_after_a_fault(
    caplog: pytest.LogCaptureFixture,
) -> None:
    delivered: list[int] = []

    def deliver(item: int) -> None:
        if item == 1:
            raise ZeroDivisionError
        delivered.append(item)

    courier = Courier("test", deliver)
    for item in range(4):
        courier.put(item)
    courier.stop()
    assert delivered == [0, 2, 3]
    assert "courier.failed name=test" in caplog.text


def test_a_courier_that_was_stopped_keeps_what_comes_later_for_who_takes_it() -> None:
    courier = Courier("test", lambda _: None)
    courier.stop()
    courier.put(1)
    assert list(courier.take(5)) == [1]


def test_a_lane_that_was_closed_answers_what_is_posted(lane: Lane, told: Told) -> None:
    lane.close()
    lane.post(Work(put, {"name": "a"}, told))
    assert isinstance(told.wait()[0].error, StoreUnavailable)
