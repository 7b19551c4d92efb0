"""The seed's ``run_cleanup_sweeper``: rules, *First start*; contract, *The sweep*."""

from __future__ import annotations

import asyncio
import logging
import os

import jwt
import pytest

from jobroom import keys
from jobroom.client import sweeper
from jobroom.client.sweeper import run_cleanup_sweeper
from jobroom.errors import ConfigurationError

KEY = "k" * 86


def sweeps(server):
    return server.asked("POST", "/v1/joblib/sweep$")


def sweep_until(server, question, **how):
    """Run the sweeper until the question holds, then cancel it as a host does."""

    async def main():
        task = asyncio.create_task(
            run_cleanup_sweeper(base_url=server.url, interval_seconds=0.02, **how)
        )
        await asyncio.to_thread(server.until, question)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())


def test_it_asks_for_a_sweep_every_interval_until_cancelled(server):
    sweep_until(server, lambda: len(sweeps(server)) >= 3, token="admin")


def test_the_token_comes_from_the_environment(server, monkeypatch):
    monkeypatch.setenv("JOBROOM_TOKEN", "admin")
    sweep_until(server, lambda: sweeps(server))
    assert sweeps(server)[0].headers["authorization"] == "Bearer admin"


def test_the_token_may_be_a_callable(server):
    sweep_until(server, lambda: sweeps(server), token=lambda: "admin")
    assert sweeps(server)[0].headers["authorization"] == "Bearer admin"


def test_without_one_the_local_key_of_a_first_start_signs_it(server, monkeypatch, tmp_path):
    monkeypatch.delenv("JOBROOM_TOKEN", raising=False)
    monkeypatch.setenv("ZNDRAW_JOBLIB_DATABASE_URL", f"sqlite:///{tmp_path}/queue.db")
    keys.load_or_create_local_key(tmp_path / "queue.db.key")
    sweep_until(server, lambda: sweeps(server))
    token = sweeps(server)[0].headers["authorization"].removeprefix("Bearer ")
    key = (tmp_path / "queue.db.key").read_text()
    claims = jwt.decode(token, key, algorithms=["HS256"], options={"require": ["exp", "sub"]})
    assert claims["is_admin"] is True


@pytest.mark.parametrize(
    "url",
    [
        "sqlite:///jobroom.db",
        "sqlite:////var/x.db?mode=rw",
        "sqlite+pysqlite:///x",
        "sqlite://",
        "sqlite:///:memory:",
        "sqlite:///file:x?uri=true",
        "postgresql:///x",
        "libsql://x",
        "",
    ],
)
def test_the_local_key_is_looked_for_where_the_server_keeps_it(url):
    assert sweeper.local_key_file(url) == keys.local_key_path(url)


@pytest.mark.parametrize("there", [None, b"\xff\xfe"])
def test_with_no_token_at_all_the_log_says_what_to_set(
    server, monkeypatch, tmp_path, caplog, there
):
    monkeypatch.delenv("JOBROOM_TOKEN", raising=False)
    monkeypatch.setenv("ZNDRAW_JOBLIB_DATABASE_URL", f"sqlite:///{tmp_path}/queue.db")
    if there is not None:
        (tmp_path / "queue.db.key").write_bytes(there)
    with caplog.at_level(logging.INFO, logger="jobroom.client"):
        logged_until(server, lambda: "JOBROOM_TOKEN" in caplog.text)
    assert sweeps(server) == []


def logged_until(server, question, **how):
    async def main():
        task = asyncio.create_task(run_cleanup_sweeper(server.url, 0.01, **how))
        async with asyncio.timeout(10):
            while not question():  # noqa: ASYNC110  # a log has no event to wait for
                await asyncio.sleep(0.005)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(main())


@pytest.mark.parametrize("how", [{}, {"status": 503}, {"status": 502}, {"status": 500}])
def test_an_error_is_one_log_line_and_does_not_end_it(server, caplog, how):
    server.fail_next("POST", "/sweep", times=3, **how)
    with caplog.at_level(logging.INFO, logger="jobroom.client"):
        logged_until(server, lambda: "sweep.done " in caplog.text, token="admin")
    lines = [record.getMessage().split()[0] for record in caplog.records]
    assert lines[:3] == ["sweep.failed", "sweep.done", "sweep.back"]
    assert all(record.exc_info is None for record in caplog.records)


def test_a_token_that_may_not_sweep_is_told_once(server, caplog):
    sweep_until(server, lambda: len(sweeps(server)) >= 4, token="alice")
    assert caplog.text.count("sweep.failed") == 1
    assert "alice" not in caplog.text


def test_a_token_that_no_header_can_carry_is_not_logged(server, caplog):
    logged_until(server, lambda: "sweep.failed" in caplog.text, token="secret\n")
    assert "secret" not in caplog.text


def test_an_interval_of_nothing_is_refused():
    with pytest.raises(ConfigurationError):
        asyncio.run(run_cleanup_sweeper("http://127.0.0.1:9", 0))


def test_it_reads_the_default_database_beside_the_program(monkeypatch, tmp_path, server):
    monkeypatch.delenv("JOBROOM_TOKEN", raising=False)
    monkeypatch.delenv("ZNDRAW_JOBLIB_DATABASE_URL", raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "jobroom.db.key").write_text(KEY)
    os.chmod("jobroom.db.key", 0o600)  # noqa: PTH101
    sweep_until(server, lambda: sweeps(server))
    token = sweeps(server)[0].headers["authorization"].removeprefix("Bearer ")
    assert jwt.decode(token, KEY, algorithms=["HS256"])["sub"] == "local-sweeper"
