"""What every transport promises, against a real sqld: batches, streams, values, errors, counts."""

from __future__ import annotations

import math

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jobroom.store.hrana import errors
from jobroom.store.hrana.transport import Step

pytest_plugins = ["sqld_for_tests"]

INSERT = "INSERT INTO notes (name) VALUES (?)"
NAMES = "SELECT name FROM notes ORDER BY id"
VALUES = st.one_of(
    st.none(),
    st.integers(-(2**63), 2**63 - 1),
    st.builds(
        lambda digits, places: float(f"{digits}e-{places}"),
        st.integers(1 - 10**15, 10**15 - 1),
        st.integers(0, 22),
    ),
    st.text(),
    st.binary(max_size=100),
)
BY_HAND = settings(
    max_examples=40,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


def names(transport):
    return [row[0] for row in transport.batch([Step(NAMES)], write=False)[0].rows]


def insert(*given):
    return [Step(INSERT, (name,)) for name in given]


def test_a_batch_gives_a_result_for_each_step(transport):
    steps = [*insert("a"), Step("UPDATE notes SET value = ? RETURNING name, value", (7,))]
    inserted, updated = transport.batch(steps, write=True)
    assert (inserted.count, inserted.rowid, inserted.columns, inserted.rows) == (1, 1, (), [])
    assert (updated.count, updated.rowid) == (1, None)
    assert (updated.columns, updated.rows) == (("name", "value"), [("a", 7)])


def test_a_single_step_and_no_step_at_all_are_batches_too(transport):
    assert transport.batch([], write=True) == []
    assert transport.batch(insert("a"), write=True)[0].rowid == 1
    assert names(transport) == ["a"]


def test_reads_of_one_batch_see_one_state(transport):
    transport.batch(insert("a", "b"), write=True)
    counted, named = transport.batch([Step("SELECT count(*) FROM notes"), Step(NAMES)], write=False)
    assert (counted.rows, named.rows) == ([(2,)], [("a",), ("b",)])


@pytest.mark.parametrize("place", [0, 1, 2])
def test_of_a_batch_with_a_failing_step_nothing_stays(transport, place):
    transport.batch(insert("taken"), write=True)
    steps = insert("a", "b")
    steps.insert(place, *insert("taken"))
    with pytest.raises(errors.IntegrityError) as raised:
        transport.batch(steps, write=True)
    assert raised.value.code == "SQLITE_CONSTRAINT"
    assert (raised.value.applied, raised.value.is_busy) == (False, False)
    assert not raised.value.is_unavailable
    assert names(transport) == ["taken"]


@pytest.mark.parametrize(
    ("sql", "args", "kind"),
    [
        ("SELEC 1", (), errors.ProgrammingError),
        ("INSERT INTO notes (name) VALUES ('x'); SELECT 1", (), errors.ProgrammingError),
        ("", (), errors.ProgrammingError),
        ("SELECT ?, ?", (1,), errors.ProgrammingError),
        ("INSERT INTO nowhere VALUES (1)", (), errors.OperationalError),
        ("INSERT INTO notes (unknown) VALUES (1)", (), errors.OperationalError),
        ("INSERT INTO notes (id) VALUES ('no number')", (), errors.IntegrityError),
    ],
)
def test_a_faulty_statement_is_its_own_fault_and_undoes_its_batch(transport, sql, args, kind):
    for steps in ([Step(sql, args)], [*insert("a"), Step(sql, args)]):
        with pytest.raises(kind) as raised:
            transport.batch(steps, write=True)
        assert raised.value.applied is False
        assert not raised.value.is_unavailable
        assert str(raised.value).endswith(f"({raised.value.code}).")
    assert names(transport) == []


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (2**63, errors.DataError),
        (-(2**63) - 1, errors.DataError),
        (math.inf, errors.DataError),
        (math.nan, errors.DataError),
        ("half \ud800", errors.DataError),
        ({}, errors.ProgrammingError),
    ],
)
def test_what_cannot_be_stored_is_refused_before_anything_is_sent(transport, value, kind):
    requests = transport.counters.requests
    with pytest.raises(kind):
        transport.batch([*insert("a"), Step("SELECT ?", (value,))], write=True)
    assert transport.counters.requests == requests
    assert names(transport) == []


@BY_HAND
@given(values=st.lists(VALUES, min_size=1, max_size=5))
def test_values_come_back_as_they_went(transport, values):
    steps = [
        Step("DELETE FROM notes"),
        *(Step("INSERT INTO notes (value) VALUES (?) RETURNING value", (one,)) for one in values),
        Step("SELECT value FROM notes ORDER BY id"),
    ]
    results = transport.batch(steps, write=True)
    assert [one.rows for one in results[1:-1]] == [[(value,)] for value in values]
    assert results[-1].rows == [(value,) for value in values]
    assert [type(row[0]) for row in results[-1].rows] == [type(value) for value in values]


def test_a_float_of_more_digits_than_15_may_come_back_a_hair_beside_it(transport):
    """The server reads JSON's numbers fast, and one of ten doubles one place off (measured)."""
    for number in (2.0**256, 1 / 3, 0.1 + 0.2, 5e-324, 1.7976931348623157e308):
        found = transport.batch([Step("SELECT ?", (number,))], write=False)[0].rows[0][0]
        assert abs(found - number) <= 2 * math.ulp(number)


def test_booleans_and_buffers_are_stored_as_numbers_and_bytes(transport):
    args = (True, False, bytearray(b"\0a"), memoryview(b"b"))
    found = transport.batch([Step("SELECT ?, ?, ?, ?", args)], write=False)[0].rows
    assert found == [(1, 0, b"\0a", b"b")]


def test_a_text_keeps_its_nul(transport):
    steps = [Step("INSERT INTO notes (value) VALUES (?) RETURNING value, hex(value)", ("a\0b",))]
    assert transport.batch(steps, write=True)[0].rows == [("a\0b", "610062")]


def test_an_infinite_float_in_the_store_is_read_as_no_number(hrana):
    found = hrana.batch([Step("SELECT 9e999, -9e999")], write=False)[0].rows[0]
    assert all(math.isnan(value) for value in found)


def test_the_library_cannot_read_an_infinite_float(sqld, opened):
    for kind in ("ws", "plain"):
        with pytest.raises(errors.OperationalError) as raised:
            opened(kind, sqld.url).batch([Step("SELECT 9e999")], write=False)
        assert raised.value.code == "PROTOCOL"


@pytest.mark.parametrize(
    "sql", ["BEGIN", "commit", "/* x */ END", "; ROLLBACK", "SAVEPOINT s", "ROLLBACK TO s"]
)
def test_a_step_of_a_batch_must_not_move_the_transaction(transport, sql):
    with pytest.raises(errors.ProgrammingError, match="cannot be a step"):
        transport.batch([Step(sql)], write=True)


def test_counters_tell_requests_and_rows(hrana):
    hrana.batch(insert("a", "b"), write=True)
    before = vars(hrana.counters).copy()
    sql = "UPDATE notes SET value = 1 WHERE id = 1 RETURNING id"
    result = hrana.batch([Step(sql)], write=True)[0]
    assert hrana.counters.requests == before["requests"] + 1
    assert (result.rows_read, result.rows_written) == (2, 1)
    assert hrana.counters.rows_read == before["rows_read"] + result.rows_read
    assert hrana.counters.rows_written == before["rows_written"] + result.rows_written


def test_a_batch_is_one_request_and_a_stream_one_for_each_run(hrana):
    before = hrana.counters.requests
    hrana.batch(insert("a", "b", "c"), write=True)
    assert hrana.counters.requests == before + 1
    stream = hrana.stream(write=True)
    stream.run(insert("d"))
    stream.commit(insert("e", "f"))
    assert hrana.counters.requests == before + 3


def test_the_replication_index_tells_whether_anybody_has_committed(hrana, sqld, opened):
    other = opened("http", sqld.url)

    def index():
        result = hrana.batch([Step("SELECT 1")], write=False)[0]
        assert (result.rows_read, result.rows_written) == (0, 0)
        return int(result.replication_index)

    first = index()
    assert index() == first
    other.batch(insert("a"), write=True)
    second = index()
    assert second > first
    with pytest.raises(errors.IntegrityError):
        other.batch(insert("b", "a"), write=True)
    stream = other.stream(write=True)
    stream.run(insert("c"))
    stream.rollback()
    assert index() == second


def test_a_stream_holds_a_transaction_over_several_runs(streaming, hrana):
    stream = streaming.stream(write=True)
    assert stream.run(insert("a"))[0].rowid == 1
    assert stream.run([Step(NAMES)])[0].rows == [("a",)]
    assert names(hrana) == []
    assert stream.commit(insert("b"))[0].rowid == 2
    assert names(hrana) == ["a", "b"]


def test_a_stream_that_is_rolled_back_leaves_nothing(streaming, hrana):
    stream = streaming.stream(write=True)
    stream.run(insert("a"))
    stream.rollback()
    stream.rollback()
    assert names(hrana) == []
    with pytest.raises(errors.OperationalError, match="begin another"):
        stream.run(insert("b"))


def test_after_a_failing_step_a_stream_is_still_open(streaming, hrana):
    stream = streaming.stream(write=True)
    stream.run(insert("a"))
    with pytest.raises(errors.IntegrityError) as raised:
        stream.run(insert("b", "a", "c"))
    assert raised.value.applied is False
    stream.run(insert("d"))
    stream.commit()
    assert names(hrana) == ["a", "b", "d"]


def test_a_commit_with_a_failing_step_undoes_all_of_the_stream(streaming, hrana):
    stream = streaming.stream(write=True)
    stream.run(insert("a"))
    with pytest.raises(errors.IntegrityError) as raised:
        stream.commit(insert("b", "a"))
    assert raised.value.applied is False
    assert names(hrana) == []
    with pytest.raises(errors.OperationalError, match="begin another"):
        stream.commit()


def test_a_first_step_that_cannot_be_read_leaves_a_stream_that_goes_on(streaming, hrana):
    stream = streaming.stream(write=True)
    with pytest.raises(errors.ProgrammingError):
        stream.run([*insert("a"), Step("SELEC 1")])
    stream.rollback()
    stream = streaming.stream(write=True)
    stream.run(insert("b"))
    stream.commit()
    assert names(hrana)[-1] == "b"


def test_after_an_unreadable_first_step_the_transaction_begins_with_the_next(hrana):
    stream = hrana.stream(write=True)
    with pytest.raises(errors.ProgrammingError):
        stream.run([*insert("a"), Step("SELEC 1")])
    stream.run(insert("b"))
    stream.rollback()
    assert names(hrana) == []


def test_what_the_server_has_rolled_back_by_itself_does_not_go_on_without_a_transaction(
    streaming, hrana
):
    hrana.batch(insert("taken"), write=True)
    for end in ("run", "commit"):
        stream = streaming.stream(write=True)
        stream.run(insert("a"))
        with pytest.raises(errors.IntegrityError):
            stream.run([Step("INSERT OR ROLLBACK INTO notes (name) VALUES ('taken')")])
        with pytest.raises(errors.OperationalError) as raised:
            getattr(stream, end)(insert("b"))
        assert (raised.value.code, raised.value.applied) == ("TRANSACTION_LOST", False)
        stream.rollback()
    assert names(hrana) == ["taken"]


def test_savepoints_are_steps_of_a_stream(streaming, hrana):
    stream = streaming.stream(write=True)
    stream.run([*insert("a"), Step("SAVEPOINT one"), *insert("b")])
    stream.run([Step("ROLLBACK TO one"), Step("RELEASE one"), *insert("c")])
    with pytest.raises(errors.ProgrammingError):
        stream.run([Step("COMMIT")])
    stream.commit()
    assert names(hrana) == ["a", "c"]


def test_a_stream_on_which_nothing_ran_sends_nothing(transport):
    transport.batch([Step(NAMES)], write=False)
    before = transport.counters.requests
    assert transport.stream(write=True).commit() == []
    transport.stream(write=False).rollback()
    assert transport.counters.requests == before
    transport.stream(write=True).commit(insert("a"))
    assert transport.counters.requests == before + 1
    assert names(transport) == ["a"]


def test_plain_requests_of_the_library_hold_no_transaction(sqld, opened):
    stream = opened("plain", sqld.url).stream(write=True)
    with pytest.raises(errors.NotSupportedError, match="transport=http"):
        stream.run([Step("SELECT 1")])


def test_a_reading_stream_keeps_its_view_and_is_told_when_it_writes_too_late(hrana):
    stream = hrana.stream(write=False)
    stream.run([Step(NAMES)])
    hrana.batch(insert("a"), write=True)
    assert stream.run([Step(NAMES)])[0].rows == []
    with pytest.raises(errors.OperationalError) as raised:
        stream.run(insert("b"))
    assert (raised.value.code, raised.value.is_busy) == ("SQLITE_BUSY", True)
    stream.rollback()


def test_a_reading_stream_may_write_where_nobody_else_has(streaming, hrana):
    stream = streaming.stream(write=False)
    stream.run([Step(NAMES)])
    stream.run(insert("a"))
    stream.commit()
    assert names(hrana) == ["a"]


def test_a_closed_transport_says_so(transport, sqld, opened):
    transport.close()
    transport.close()
    for write in (True, False):
        with pytest.raises(errors.InterfaceError) as raised:
            transport.batch([Step("SELECT 1")], write=write)
        assert (raised.value.code, raised.value.applied) == ("CLOSED", False)


def test_an_answer_that_is_too_large_is_refused_and_nobody_calls_it_undone(sqld, transport):
    sql = (
        "INSERT INTO notes (value) WITH RECURSIVE n(i) AS"
        " (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 12)"
        " SELECT hex(zeroblob(500000)) FROM n RETURNING value"
    )
    for steps in ([Step(sql)], [Step(sql), *insert("a")]):
        with pytest.raises(errors.DatabaseError) as raised:
            transport.batch(steps, write=True)
        assert raised.value.code in ("RESPONSE_TOO_LARGE", "HTTP_500")  # the latter: plain
        assert raised.value.applied is None
    # A statement alone is kept for all that (measured), a batch is not.
    counted = transport.batch([Step("SELECT count(*) FROM notes")], write=False)[0].rows
    assert counted == [(12,)]
