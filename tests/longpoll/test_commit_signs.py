"""Noticing what another process wrote: the sign of a write, and the thread that looks for it."""

from __future__ import annotations

import contextlib
import os
import resource
import threading
import time

import pytest

from jobroom.service.queue import JobQueue
from jobroom.store import foreign


@pytest.fixture
def watched(tmp_path):
    path = tmp_path / "queue.db-wal"
    path.write_bytes(b"")
    return path


def append(path):
    with path.open("ab") as file:
        file.write(b"x")


def test_a_write_is_a_sign(watched):
    with foreign.watch_file(watched) as commits:
        append(watched)
        assert commits.wait(60)


def test_without_a_write_there_is_none(watched):
    with foreign.watch_file(watched) as commits:
        assert not commits.wait(0.01)


def test_a_sign_comes_with_more_than_1024_files_open(watched):
    """A server with many long-polls has that many connections."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(max(soft, 2048), hard), hard))
    with contextlib.ExitStack() as stack:
        stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        for _ in range(1100):
            stack.callback(os.close, os.open(os.devnull, os.O_RDONLY))
        commits = stack.enter_context(foreign.watch_file(watched))
        append(watched)
        assert commits.wait(60)


def test_a_file_that_cannot_be_watched_is_looked_at_at_intervals(tmp_path):
    started = time.monotonic()
    with foreign.watch_file(tmp_path / "absent") as commits:
        assert not commits.wait(60)
    assert time.monotonic() - started < 30


def test_a_closed_queue_looks_no_more(settings):
    queue = JobQueue.open(settings)
    queue.close()
    queue.watch()
    assert "jobroom-watcher" not in {thread.name for thread in threading.enumerate()}


def test_a_queue_is_closed_when_its_last_look_has_let_go_of_the_store(settings, monkeypatch):
    """A thread that looks no more, for nobody waits, still has a connection to give back."""
    queue = JobQueue.open(settings)
    order = []
    leaving = threading.Event()
    watch, close = queue.database.watch_commits, queue.database.close

    @contextlib.contextmanager
    def slow():
        with watch() as commits:
            yield commits
            leaving.set()
            time.sleep(0.2)
        order.append("let go")

    def closed():
        order.append("closed")
        close()

    monkeypatch.setattr(queue.database, "watch_commits", slow)
    monkeypatch.setattr(queue.database, "close", closed)
    queue.watch()
    assert leaving.wait(60)
    queue.close()
    assert order == ["let go", "closed"]
