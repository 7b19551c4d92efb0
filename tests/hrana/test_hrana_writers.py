"""Few writers at a time, and group commit over the network."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import servers

from jobroom.store.hrana import errors
from jobroom.store.hrana.transport import Step

pytest_plugins = ["sqld_for_tests"]

INSERT = "INSERT INTO notes (name) VALUES (?)"
ROUND_TRIP_SECONDS = 0.1
TOO_LARGE = Step(
    "INSERT INTO notes (value) WITH RECURSIVE n(i) AS"
    " (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 12)"
    " SELECT hex(zeroblob(500000)) FROM n RETURNING value"
)


def insert(*given):
    return [Step(INSERT, (name,)) for name in given]


def count(transport):
    return transport.batch([Step("SELECT count(*) FROM notes")], write=False)[0].rows[0][0]


def outcomes(transport, batches):
    """What each batch came to, sent by a thread each while the only place is taken."""
    transport.writers.acquire()

    def send(steps):
        try:
            return transport.batch(steps, write=True)
        except errors.Error as error:
            return error

    with ThreadPoolExecutor(len(batches)) as threads:
        sent = []
        for number, steps in enumerate(batches, 1):
            sent.append(threads.submit(send, steps))
            until_waiting(transport, number)
        transport.writers.release()
        return [one.result(20) for one in sent]


def until_waiting(transport, number):
    deadline = time.monotonic() + 10
    while len(transport.writers._queue) < number:
        assert time.monotonic() < deadline
        time.sleep(0.001)


@pytest.fixture
def one(hrana, sqld, opened):
    """A transport with one place for writers."""
    return opened("http", sqld.url, most_writers=1)


@pytest.fixture
def proxy(sqld):
    with servers.Proxy(sqld.port) as between:
        yield between


def test_batches_that_wait_go_in_one_request_each_with_its_own_result(one):
    batches = [insert(f"a{number}", f"b{number}") for number in range(10)]
    requests = one.counters.requests
    found = outcomes(one, batches)
    assert [[result.rowid for result in results] for results in found] == [
        [number, number + 1] for number in range(1, 21, 2)
    ]
    assert one.counters.requests == requests + 1


def test_of_combined_batches_a_failing_one_fails_alone_and_whole(one):
    batches = [
        insert("a"),
        insert("b", "a"),
        [Step("SELEC 1")],
        [*insert("c"), Step("INSERT INTO nowhere VALUES (1)")],
        [*insert("d"), Step("SELECT 1; SELECT 2")],
        [*insert("e"), Step("INSERT OR ROLLBACK INTO notes (name) VALUES ('a')")],
        insert("f", "g"),
        insert("h"),
    ]
    found = outcomes(one, batches)
    kinds = [type(outcome) for outcome in found]
    assert kinds == [
        list,
        errors.IntegrityError,
        errors.ProgrammingError,
        errors.OperationalError,
        errors.ProgrammingError,
        errors.IntegrityError,
        list,
        list,
    ]
    assert {outcome.applied for outcome in found if isinstance(outcome, errors.Error)} == {False}
    rows = one.batch([Step("SELECT name FROM notes ORDER BY id")], write=False)[0].rows
    assert rows == [("a",), ("f",), ("g",), ("h",)]


def test_what_a_batch_with_too_large_an_answer_leaves_open_is_not_the_next_ones(one):
    """Measured: the server stops such a batch before its ROLLBACK."""
    found = outcomes(one, [[TOO_LARGE, *insert("a")], insert("b"), insert("c", "d")])
    assert found[0].code == "RESPONSE_TOO_LARGE"
    assert [type(outcome) for outcome in found[1:]] == [list, list]
    assert count(one) == 3


def test_a_lost_answer_is_lost_for_all_that_travelled_together(hrana, opened, proxy):
    transport = opened("http", proxy.url, most_writers=1)
    proxy.cut_after_request(lambda text: b"together" in text)
    found = outcomes(transport, [insert("together1"), insert("together2"), insert("together3")])
    assert [(error.code, error.applied) for error in found] == [("TRANSPORT", None)] * 3
    assert len({id(error) for error in found}) == 3
    assert count(hrana) == 3


def test_a_refused_connection_applies_none_of_them(hrana, opened, proxy):
    transport = opened("http", proxy.url, most_writers=1, timeout_seconds=5)
    transport.writers.acquire()
    found = []

    def send(name):
        try:
            transport.batch(insert(name), write=True)
        except errors.Error as error:
            found.append((error.code, error.applied))

    threads = [threading.Thread(target=send, args=(name,)) for name in ("a", "b")]
    for number, thread in enumerate(threads, 1):
        thread.start()
        until_waiting(transport, number)
    proxy.cut()
    transport.writers.release()
    for thread in threads:
        thread.join(10)
    assert found == [("TRANSPORT", False)] * 2


def test_a_round_trip_is_shared_and_does_not_bound_the_number_of_writes(
    hrana, opened, proxy, tally
):
    transport = opened("http", proxy.url)
    proxy.delay(ROUND_TRIP_SECONDS)
    writers, each = 32, 5
    start = time.monotonic()
    with ThreadPoolExecutor(writers) as threads:
        for number in range(writers * each):
            threads.submit(transport.batch, insert(f"a{number}"), write=True)
    took = time.monotonic() - start
    assert count(hrana) == writers * each
    # Two writers at a time, each alone with its round trip, would have taken 8 s.
    assert took < writers * each * ROUND_TRIP_SECONDS / 2 / 3
    assert transport.counters.requests == proxy.requests <= 2 + 2 * each * 3
    tally(writes=writers * each, requests=proxy.requests, seconds=round(took, 1))


def test_a_large_batch_travels_alone(one):
    large = [Step("INSERT INTO notes (value) VALUES (?)", ("x" * 700_000,))]
    requests = one.counters.requests
    found = outcomes(one, [large, large, insert("a")])
    assert [type(outcome) for outcome in found] == [list] * 3
    assert one.counters.requests == requests + 2
    assert count(one) == 3


def test_no_more_than_64_go_together(one):
    requests = one.counters.requests
    found = outcomes(one, [insert(f"a{number}") for number in range(70)])
    assert [type(outcome) for outcome in found] == [list] * 70
    assert one.counters.requests == requests + 2
    assert count(one) == 70


@pytest.mark.parametrize("kind", ["http", "ws", "plain"])
def test_who_waits_too_long_for_a_place_is_told_that_nothing_was_applied(hrana, sqld, opened, kind):
    transport = opened(kind, sqld.url, most_writers=1, timeout_seconds=0.3)
    transport.writers.acquire()
    stream = transport.stream(write=True)
    asks = [lambda: transport.batch(insert("a"), write=True), lambda: stream.run(insert("a"))]
    for ask in asks[: 1 if kind == "plain" else 2]:
        with pytest.raises(errors.OperationalError) as raised:
            ask()
        assert (raised.value.code, raised.value.applied) == ("BUSY_HERE", False)
        assert raised.value.is_busy
    transport.writers.release()
    transport.batch(insert("a"), write=True)


def test_reads_need_no_place(one):
    one.writers.acquire()
    assert count(one) == 0
    one.writers.release()


def test_a_stream_gives_its_place_back_however_it_ends(one):
    for end in ("commit", "rollback", "failing commit"):
        stream = one.stream(write=True)
        stream.run(insert(end))
        if end == "failing commit":
            with pytest.raises(errors.IntegrityError):
                stream.commit(insert(end))
        else:
            getattr(stream, end)()
        assert one.writers._free == 1
    assert count(one) == 1


def test_many_threads_of_streams_and_batches_lose_and_double_nothing(hrana, opened, sqld):
    transport = opened("http", sqld.url)

    def work(number):
        if number % 4 == 0:
            stream = transport.stream(write=True)
            stream.run(insert(f"s{number}"))
            stream.commit(insert(f"t{number}"))
        else:
            transport.batch(insert(f"a{number}", f"b{number}"), write=True)

    with ThreadPoolExecutor(16) as threads:
        list(threads.map(work, range(200)))
    assert count(hrana) == 400
    assert transport.writers._free == 2
    assert not transport.writers._queue
