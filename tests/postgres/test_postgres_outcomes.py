"""What became of a transaction that met an error: judged with real faults on a real server."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
import servers

from jobroom.store import postgres_line, postgres_pool
from jobroom.store.postgres import Postgres
from jobroom.store.postgres_session import PostgresSession
from jobroom.store.session import Outcome, Step

Until = Callable[[Callable[[], object]], None]
Opened = Callable[..., Postgres]

PUT = (
    "INSERT INTO queue_state (name, value) VALUES (%s, %s)"
    " ON CONFLICT (name) DO UPDATE SET value = excluded.value"
)
SLOW_PUT = "UPDATE queue_state SET value = 1 WHERE pg_sleep(30) IS NULL AND name = %s"
SLOW_READ = "SELECT pg_sleep(30)"
SLEEPERS = (
    "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
    " WHERE wait_event = 'PgSleep' AND datname = 'queue'"
)


def put(name: str, value: int = 1) -> Step:
    return Step(PUT, (name, value), writes=True)


def value_of(database: Postgres, name: str) -> int | None:
    rows = database.read(f"SELECT value FROM queue_state WHERE name = '{name}'")  # noqa: S608
    return rows[0][0] if rows else None


def outcome_of(database: Postgres, call: Callable[[], object]) -> Outcome | None:
    with pytest.raises(Exception) as caught:  # noqa: PT011 - what it means is what is tested
        call()
    return database.outcome(caught.value)


@contextmanager
def session_of(database: Postgres) -> Iterator[PostgresSession]:
    session = database.session(write=True)
    try:
        yield session
    finally:
        session.close()


@contextmanager
def under_way(call: Callable[[], object]) -> Iterator[Future[Any]]:
    with ThreadPoolExecutor(1) as thread:
        yield thread.submit(call)


def kill_sleepers(server: servers.Postgres) -> int:
    return int(server.execute(SLEEPERS)[0][0])


def test_a_write_whose_session_is_ended_meanwhile_may_have_been_kept(
    server: servers.Postgres, database: Postgres, until: Until
) -> None:
    with session_of(database) as session:
        session.alone([put("there")])
        with under_way(lambda: session.alone([Step(SLOW_PUT, ("there",), writes=True)])) as lost:
            until(lambda: kill_sleepers(server))
            assert outcome_of(database, lost.result) is Outcome.UNKNOWN


def test_a_read_that_is_lost_has_kept_nothing(
    server: servers.Postgres, database: Postgres, until: Until
) -> None:
    with (
        session_of(database) as session,
        under_way(lambda: session.alone([Step(SLOW_READ)])) as lost,
    ):
        until(lambda: kill_sleepers(server))
        assert outcome_of(database, lost.result) is Outcome.AWAY


def test_a_transaction_that_is_lost_before_its_commit_has_kept_nothing(
    server: servers.Postgres, database: Postgres, until: Until
) -> None:
    with session_of(database) as session:
        session.run([put("open transaction")])
        with under_way(lambda: session.run([Step(SLOW_READ)])) as lost:
            until(lambda: kill_sleepers(server))
            assert outcome_of(database, lost.result) is Outcome.AWAY
        session.rollback()
    assert value_of(database, "open transaction") is None


def test_a_connection_that_was_ended_while_unused_is_not_noticed(
    server: servers.Postgres, database: Postgres
) -> None:
    for value in (1, 2):
        with session_of(database) as session:
            session.alone([put("unused", value)])
        server.terminate_backends("queue")
    assert value_of(database, "unused") == 2


@pytest.mark.parametrize("fault", ["cut_after_request", "cut_before_request"])
def test_a_commit_whose_answer_is_lost_may_have_been_kept(
    server: servers.Postgres, opened: Opened, url: str, fault: str
) -> None:
    with servers.Proxy(server.port, protocol="postgresql") as proxy:
        database = opened(proxy.in_front_of(url))
        with session_of(database) as session:
            session.run([Step("SELECT 1")])
            session.commit()  # it is prepared now
            session.run([put(fault)])
            getattr(proxy, fault)(lambda text: b"COMMIT" in text)
            assert outcome_of(database, session.commit) is Outcome.UNKNOWN
        kept = value_of(database, fault) is not None
    assert kept == (fault == "cut_after_request")


def test_a_single_write_whose_answer_is_lost_may_have_been_kept(
    server: servers.Postgres, opened: Opened, url: str
) -> None:
    with servers.Proxy(server.port, protocol="postgresql") as proxy:
        database = opened(proxy.in_front_of(url))
        with session_of(database) as session:
            session.alone([put("single", 0)])
            proxy.cut_after_request(lambda text: b"INSERT INTO queue_state" in text)
            outcome = outcome_of(database, lambda: session.alone([put("single")]))
        assert outcome is Outcome.UNKNOWN
        assert value_of(database, "single") == 1


def test_a_server_that_falls_silent_is_given_up(
    server: servers.Postgres, opened: Opened, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_line, "ANSWER_SECONDS", 0.3)
    with servers.Proxy(server.port, protocol="postgresql") as proxy:
        database = opened(proxy.in_front_of(url))
        with session_of(database) as session:
            proxy.stall(lambda text: b"INSERT INTO queue_state" in text)
            outcome = outcome_of(database, lambda: session.alone([put("silent")]))
        assert outcome is Outcome.UNKNOWN


def test_a_killed_server_is_away_and_serves_again_when_it_is_back(
    server: servers.Postgres, database: Postgres, until: Until
) -> None:
    with session_of(database) as session:
        session.alone([put("before", 7)])
        with under_way(lambda: session.alone([Step(SLOW_PUT, ("before",), writes=True)])) as lost:
            until(
                lambda: server.execute(
                    "SELECT 1 FROM pg_stat_activity WHERE wait_event = 'PgSleep'"
                )
            )
            server.kill()
            assert outcome_of(database, lost.result) is Outcome.UNKNOWN
    try:
        with session_of(database) as session:
            assert outcome_of(database, lambda: session.alone([put("down")])) is Outcome.AWAY
    finally:
        server.start()
    with session_of(database) as session:
        session.alone([put("after")])
    assert [value_of(database, name) for name in ("before", "down", "after")] == [7, None, 1]


def test_a_lock_that_is_not_to_be_had_is_busy(
    database: Postgres, opened: Opened, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with session_of(database) as holder:
        holder.run([put("locked")])
        limits = {"lock_timeout": "50ms"}
        monkeypatch.setattr(postgres_pool, "_LIMITS", limits)
        with session_of(opened(url)) as session:
            assert outcome_of(database, lambda: session.alone([put("locked")])) is Outcome.BUSY


def test_two_that_judge_wait_for_each_other(database: Postgres) -> None:
    order = []
    with session_of(database) as first, session_of(database) as second:
        first.serialize()

        def follow() -> None:
            second.serialize()
            order.append("second")

        with under_way(follow) as waiting:
            order.append("first")
            first.commit()
            waiting.result()
    assert order == ["first", "second"]


def test_a_deadlock_is_busy(database: Postgres, until: Until) -> None:
    with session_of(database) as first, session_of(database) as second:
        first.run([put("left")])
        second.run([put("right")])
        with under_way(lambda: _or_error(lambda: second.run([put("left")]))) as waiting:
            mine = _or_error(lambda: first.run([put("right")]))
            if mine is not None:
                first.rollback()
            errors = [error for error in (mine, waiting.result()) if error is not None]
    assert [database.outcome(error) for error in errors] == [Outcome.BUSY]


def _or_error(call: Callable[[], object]) -> Exception | None:
    try:
        call()
    except psycopg.Error as error:
        return error
    return None


@pytest.mark.parametrize(
    ("state", "outcome"),
    [
        ("40001", Outcome.BUSY),
        ("57014", Outcome.BUSY),
        ("53300", Outcome.BUSY),
        ("40003", Outcome.UNKNOWN),
        ("53100", Outcome.AWAY),
        ("53200", Outcome.AWAY),
        ("25006", Outcome.AWAY),
        ("58030", Outcome.AWAY),
        ("42601", Outcome.FAULT),
        ("0A000", Outcome.FAULT),
    ],
)
def test_what_a_server_says_has_a_meaning(database: Postgres, state: str, outcome: Outcome) -> None:
    raising = Step(f"DO $$ BEGIN RAISE SQLSTATE '{state}'; END $$", writes=True)
    with session_of(database) as session:
        assert outcome_of(database, lambda: session.alone([raising])) is outcome


def test_a_value_that_is_there_already_is_a_fault(database: Postgres) -> None:
    step = Step("INSERT INTO queue_state VALUES ('twice', 1), ('twice', 2)", writes=True)
    with session_of(database) as session:
        assert outcome_of(database, lambda: session.alone([step])) is Outcome.FAULT


def test_of_several_steps_alone_all_are_kept_or_none(database: Postgres) -> None:
    broken = Step("SELECT 1 / %s", (0,))
    with session_of(database) as session:
        outcome = outcome_of(database, lambda: session.alone([put("all or none"), broken]))
        answers = session.alone([put("both"), Step("SELECT 5"), put("of them")])
    assert outcome is Outcome.FAULT
    assert value_of(database, "all or none") is None
    assert [answer.count for answer in answers] == [1, 1, 1]
    assert answers[1].rows == [(5,)]


def test_last_steps_are_committed_with_the_rest_or_undone_with_it(database: Postgres) -> None:
    with session_of(database) as session:
        session.run([put("rest")])
        broken = Step("SELECT 1 / %s", (0,))
        assert outcome_of(database, lambda: session.commit([broken])) is Outcome.FAULT
        session.rollback()
        assert value_of(database, "rest") is None
        session.run([put("rest")])
        session.commit([put("last")])
    assert [value_of(database, name) for name in ("rest", "last")] == [1, 1]


def test_a_server_that_is_read_only_is_away_and_connected_to_anew(
    server: servers.Postgres, database: Postgres
) -> None:
    """As after a failover, where the connections lead to what is a standby now."""
    server.execute("ALTER DATABASE queue SET default_transaction_read_only = on")
    try:
        with session_of(database) as first, session_of(database) as second:
            first.alone([Step("SELECT 1")])
            second.alone([Step("SELECT 1")])
        with session_of(database) as session:
            assert outcome_of(database, lambda: session.alone([put("no")])) is Outcome.AWAY
    finally:
        server.execute("ALTER DATABASE queue RESET default_transaction_read_only")
    for _ in range(2):
        with session_of(database) as session:
            session.alone([put("yes")])


def test_connections_that_are_all_taken_are_busy(opened: Opened, url: str) -> None:
    database = opened(url, database_connections=1, database_busy_seconds=0.05)
    with session_of(database) as holder, session_of(database) as session:
        holder.run([put("taken")])
        assert outcome_of(database, lambda: session.alone([put("taken")])) is Outcome.BUSY


def test_a_server_without_a_free_connection_is_busy(
    server: servers.Postgres, opened: Opened
) -> None:
    server.execute("CREATE ROLE crowd LOGIN CONNECTION LIMIT 1")
    server.execute("GRANT ALL ON ALL TABLES IN SCHEMA public TO crowd")
    crowd = server.url("queue").replace("postgres@", "crowd@")
    database = opened(crowd)
    with session_of(database) as holder, session_of(database) as session:
        holder.run([Step("SELECT 1")])
        assert outcome_of(database, lambda: session.run([Step("SELECT 1")])) is Outcome.BUSY


def test_an_error_of_our_own_is_not_the_stores(database: Postgres) -> None:
    assert database.outcome(ValueError("ours")) is None


def test_a_session_has_limits_and_a_name(server: servers.Postgres, database: Postgres) -> None:
    names = ("statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout")
    steps = [Step(f"SHOW {name}") for name in (*names, "application_name", "client_encoding")]
    with session_of(database) as session:
        found = [answer.rows[0][0] for answer in session.alone(steps)]
    assert found == ["20s", "5s", "10s", "jobroom", "UTF8"]


def test_a_transaction_left_open_is_ended_by_the_server_and_busy(
    opened: Opened, url: str, until: Until, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_pool, "_LIMITS", {"idle_in_transaction_session_timeout": "50ms"})
    database = opened(url)
    with session_of(database) as session:
        session.run([put("left open")])
        assert session._line is not None
        line = session._line
        until(lambda: not line.is_sound())
        assert outcome_of(database, session.commit) is Outcome.BUSY
    assert value_of(database, "left open") is None


def test_connections_are_few_and_none_is_left(
    server: servers.Postgres, opened: Opened, url: str, until: Until
) -> None:
    server.terminate_backends("queue")
    database = opened(url, database_connections=3)
    ours = "SELECT count(*) FROM pg_stat_activity WHERE datname = 'queue'"
    most = []

    def work(number: int) -> None:
        for turn in range(10):
            with session_of(database) as session:
                session.run([put(f"few {number}", turn)])
                most.append(server.execute(ours)[0][0])
                if turn % 3 == 0:
                    with pytest.raises(psycopg.Error):
                        session.run([Step("SELECT 1 / %s", (0,))])
                elif turn % 3 == 1:
                    session.commit()

    threads = [threading.Thread(target=work, args=[number]) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert max(most) <= 3
    assert server.execute(f"{ours} AND state <> 'idle'") == [(0,)]
    database.close()
    until(lambda: server.execute(ours) == [(0,)])
