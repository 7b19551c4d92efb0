"""Waking other processes, and only while one of them listens."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
import servers

from jobroom.store import postgres_waking
from jobroom.store.foreign import Commits
from jobroom.store.postgres import Postgres
from jobroom.store.postgres_session import PostgresSession
from jobroom.store.session import Step

Until = Callable[[Callable[[], object]], None]
Opened = Callable[..., Postgres]

PUT = (
    "INSERT INTO queue_state (name, value) VALUES ('put', 1)"
    " ON CONFLICT (name) DO UPDATE SET value = excluded.value"
)
TELLING: dict[str, Callable[[PostgresSession], Any]] = {
    "alone, with rows": lambda session: session.alone([_step(f"{PUT} RETURNING value")]),
    "alone, without rows": lambda session: session.alone([_step(PUT)]),
    "several alone": lambda session: session.alone([_step(PUT), Step("SELECT 1")]),
    "in a transaction": lambda session: [session.run([_step(PUT)]), session.commit()],  # type: ignore[func-returns-value]  # in order
    "with the commit": lambda session: [
        session.run([Step("SELECT 1")]),
        session.commit([_step(PUT)]),  # type: ignore[func-returns-value]  # in order
    ],
}


def _step(text: str) -> Step:
    return Step(text, writes=True, tells=True)


def tell(database: Postgres, how: str = "alone, with rows") -> Any:
    session = database.session(write=True)
    try:
        return TELLING[how](session)
    finally:
        session.close()


def wait(commits: Commits, seconds: float = 5.0) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if commits.wait(min(0.25, deadline - time.monotonic())):
            return True
    return False


@pytest.fixture(autouse=True)
def nobody_listens(server: servers.Postgres, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """No notes of the tests before, and no look again that has nothing to do with a sign."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("DELETE FROM queue_state")
    monkeypatch.setattr(postgres_waking, "LOOK_AGAIN_SECONDS", ())


@pytest.fixture
def heard(url: str) -> Iterator[Callable[[], list[str]]]:
    """What a listener hears that has told nobody that it listens."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"LISTEN {postgres_waking.CHANNEL}".encode())
        yield lambda: [sign.payload for sign in connection.notifies(timeout=0.1)]


@pytest.mark.parametrize("how", TELLING)
def test_a_write_wakes_another_process_that_listens(
    database: Postgres, opened: Opened, url: str, how: str
) -> None:
    other = opened(url)
    with other.watch_commits() as commits:
        assert wait(commits)
        assert other.has_news()
        assert not other.has_news()
        assert not commits.wait(0.05)
        tell(database, how)
        assert wait(commits)
        assert other.has_news()


def test_the_sign_leaves_no_trace_in_the_answer(
    database: Postgres, opened: Opened, url: str
) -> None:
    with opened(url).watch_commits() as commits:
        assert wait(commits)
        [answer] = tell(database)
        assert answer.rows == [(1,)]
        assert answer.count == 1


@pytest.mark.parametrize("how", TELLING)
def test_nothing_is_sent_while_nobody_listens(
    database: Postgres, heard: Callable[[], list[str]], how: str
) -> None:
    tell(database, how)
    assert heard() == []


def test_nothing_is_sent_where_only_the_writer_listens(
    database: Postgres, heard: Callable[[], list[str]]
) -> None:
    with database.watch_commits() as commits:
        assert wait(commits)
        tell(database)
        assert heard() == []
        assert not commits.wait(0.05)


def test_nothing_is_sent_for_a_write_that_nobody_waits_for(
    database: Postgres, opened: Opened, url: str, heard: Callable[[], list[str]]
) -> None:
    with opened(url).watch_commits() as commits:
        assert wait(commits)
        session = database.session(write=True)
        session.alone([Step(PUT, writes=True)])
        session.close()
        assert heard() == []


def test_ones_own_signs_wake_nobody(database: Postgres, opened: Opened, url: str) -> None:
    other = opened(url)
    with other.watch_commits() as theirs, database.watch_commits() as ours:
        assert wait(theirs)
        assert wait(ours)
        tell(database)
        assert wait(theirs)
        assert not ours.wait(0.1)


def test_a_waiter_is_woken_soon(
    database: Postgres, opened: Opened, url: str, tally: Callable[..., None]
) -> None:
    """Rule: a waiting claim of another process learns of a submission within milliseconds."""
    taken = []
    with opened(url).watch_commits() as commits:
        assert wait(commits)
        for _ in range(30):
            woken_at: list[float] = []
            thread = threading.Thread(
                target=lambda at=woken_at: (wait(commits), at.append(time.perf_counter()))
            )
            thread.start()
            told_at = time.perf_counter()
            tell(database)
            thread.join()
            taken.append(woken_at[0] - told_at)
    median = statistics.median(taken)
    tally(median_ms=round(median * 1000, 2), worst_ms=round(max(taken) * 1000, 2))
    assert median < 0.05


def test_a_listener_that_was_cut_off_listens_again_and_looks(
    server: servers.Postgres, database: Postgres, opened: Opened, url: str
) -> None:
    other = opened(url)
    with other.watch_commits() as commits:
        assert wait(commits)
        other.has_news()
        server.terminate_backends("queue")
        assert wait(commits), "something may have been missed"
        assert other.has_news()
        tell(database)
        assert wait(commits)


def test_a_listener_waits_for_a_server_that_is_down(
    server: servers.Postgres, opened: Opened, url: str
) -> None:
    with opened(url).watch_commits() as commits:
        assert wait(commits)
        server.stop()
        try:
            assert not wait(commits, 0.3)
        finally:
            server.start()
        assert wait(commits)


@pytest.mark.parametrize("is_down", [False, True])
def test_waiting_costs_nothing(
    server: servers.Postgres, opened: Opened, url: str, is_down: bool
) -> None:
    where = url.replace(str(server.port), str(servers.free_port())) if is_down else url
    with opened(where).watch_commits() as commits:
        commits.wait(0.5)
        looks, began, cpu = 0, time.monotonic(), time.thread_time()
        while time.monotonic() < began + 0.5:
            commits.wait(0.0005)
            looks += 1
        assert looks < 2000
        assert time.thread_time() - cpu < 0.4


def test_a_look_again_finds_what_was_written_before_we_were_noted(
    database: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_waking, "LOOK_AGAIN_SECONDS", (0.1, 0.2))
    with database.watch_commits() as commits:
        assert [wait(commits, 1) for _ in range(3)] == [True] * 3
        assert not commits.wait(0.2)


def test_who_comes_again_gets_the_connection_that_was_kept(
    server: servers.Postgres, database: Postgres
) -> None:
    listeners = (
        "SELECT count(*) FROM pg_stat_activity WHERE datname = 'queue' AND pid <> pg_backend_pid()"
    )
    server.terminate_backends("queue")
    for _ in range(3):
        with database.watch_commits() as commits:
            assert wait(commits)
    assert server.execute(listeners) == [(1,)]


def test_who_listens_is_noted_for_a_while_and_noted_again(
    database: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = f"value - {postgres_waking.CLOCK}"
    note = f"SELECT value, {left} FROM queue_state WHERE name LIKE 'listening:%'"  # noqa: S608
    with database.watch_commits() as commits:
        assert wait(commits)
        [[first, left]] = database.read(note)
        assert 0 < left <= postgres_waking.NOTED_SECONDS * 1_000_000
        monkeypatch.setattr(commits, "_noted_until", 0.0)
        commits.wait(0.01)
        [[again, _]] = database.read(note)
        assert again > first
