"""The servers, fresh databases and proxies that other tests stand on do what they say."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
import servers
from websockets.sync.client import connect as connect_websocket

SCHEMA = "CREATE TABLE notes (said TEXT)"
INSERT = "INSERT INTO notes (said) VALUES ('hello')"
COUNT = "SELECT count(*) FROM notes"
BRIEF = 0.3  # nothing can be seen to arrive; a busy machine can only make that test too kind
STARTS_BOTH_AND_DIES = """
import os, signal, servers
started = [servers.Sqld().start(), servers.Postgres(in_memory=True).start()]
started[1].suspend()
print(*[word for one in started for word in (one.port, one.folder)], flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def post(url: str, *statements: str, token: str | None = None, timeout: float = 10) -> list[dict]:
    """Run statements on a libSQL server, each for itself."""
    requests = [{"type": "execute", "stmt": {"sql": one}} for one in statements]
    headers = {"authorization": f"Bearer {token}"} if token else {}
    answer = httpx.post(
        f"{url}/v2/pipeline",
        json={"requests": [*requests, {"type": "close"}]},
        headers=headers,
        timeout=timeout,
    )
    return answer.raise_for_status().json()["results"][:-1]


def count(url: str) -> int:
    """How many notes there are, whatever the store."""
    if url.startswith("http"):
        return int(post(url, COUNT)[0]["response"]["result"]["rows"][0][0]["value"])
    with connect(url) as connection:
        return connection.execute(COUNT).fetchone()[0]


def run(url: str, statement: str) -> None:
    if url.startswith("http"):
        assert post(url, statement)[0]["type"] == "ok"
    else:
        with connect(url) as connection:
            connection.execute(statement)


def connect(url: str) -> AbstractContextManager[Any]:
    if url.startswith("sqlite"):
        path = url.removeprefix("sqlite:///")
        return contextlib.closing(sqlite3.connect(path, isolation_level=None))
    return psycopg.connect(url, autocommit=True, connect_timeout=5)


def migrate(url: str) -> None:
    run(url, SCHEMA)


def uid_of(process: subprocess.Popen[bytes]) -> int:
    return Path(f"/proc/{process.pid}").stat().st_uid


def is_open(port: int) -> bool:
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0


def until(is_so: Callable[[], bool], seconds: float = 15) -> None:
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.02)


class Call:
    """Something that runs beside the test: it has an end, a value or an error."""

    def __init__(self, what: Callable[[], object]) -> None:
        self.value: object = None
        self.error: Exception | None = None
        self._thread = threading.Thread(target=self._run, args=[what])
        self._thread.start()

    def _run(self, what: Callable[[], object]) -> None:
        try:
            self.value = what()
        except (httpx.HTTPError, psycopg.Error) as error:
            self.error = error

    def is_done(self, seconds: float = 15) -> bool:
        self._thread.join(seconds)
        return not self._thread.is_alive()


@pytest.fixture(scope="module")
def stores() -> Iterator[servers.Stores]:
    with servers.Stores(migrate) as stores:
        yield stores


@pytest.fixture
def libsql(stores: servers.Stores, tmp_path: Path) -> str:
    return stores.fresh("libsql", tmp_path)


@pytest.fixture
def postgresql(stores: servers.Stores, tmp_path: Path) -> str:
    return stores.fresh("postgresql", tmp_path)


@pytest.fixture
def proxy(stores: servers.Stores) -> Iterator[servers.Proxy]:
    with servers.Proxy(stores.sqld.port) as proxy:
        yield proxy


@pytest.fixture
def pg_proxy(stores: servers.Stores) -> Iterator[servers.Proxy]:
    with servers.Proxy(stores.postgres.port, protocol="postgresql") as proxy:
        yield proxy


def test_a_killed_sqld_is_back_on_its_port_with_its_data():
    with servers.Sqld().start() as sqld:
        run(sqld.url, SCHEMA)
        run(sqld.url, INSERT)
        sqld.kill()
        assert not is_open(sqld.port)
        sqld.start()
        assert count(sqld.url) == 1
        assert sqld.stop() == 0
        sqld.restart()
        assert count(sqld.url) == 1


def test_a_killed_postgresql_is_back_on_its_port_with_its_data():
    with servers.Postgres(in_memory=True).start() as postgres:
        run(postgres.url(), SCHEMA)
        with connect(postgres.url()) as connection:
            connection.execute(INSERT)
            postgres.kill()
            with pytest.raises(psycopg.OperationalError):
                connection.execute(COUNT)
        assert not is_open(postgres.port)
        postgres.start()
        assert count(postgres.url()) == 1
        assert postgres.stop() == 0
        postgres.restart()
        assert count(postgres.url()) == 1


def test_no_server_runs_as_root(stores, libsql, postgresql):
    assert uid_of(stores.sqld.process) != 0
    assert uid_of(stores.postgres.process) != 0


def test_a_postgresql_is_of_release_18(stores):
    assert stores.postgres.execute("SHOW server_version")[0][0].startswith("18.")


def test_a_wheel_that_nobody_can_reach_is_copied(monkeypatch):
    """A venv below /root, on a machine where all is done as root."""
    monkeypatch.setattr(servers, "nobody", lambda: {"user": 65534})
    monkeypatch.setattr(servers, "_everybody_reaches", lambda path: False)
    with servers.Postgres(in_memory=True) as postgres:
        assert postgres._bin.is_relative_to(postgres.folder)
        monkeypatch.undo()
        postgres.start()
        run(postgres.url(), SCHEMA)
        assert count(postgres.url()) == 0


def test_a_suspended_sqld_answers_when_it_is_resumed(stores, libsql):
    stores.sqld.suspend()
    with pytest.raises(httpx.ReadTimeout):
        post(libsql, COUNT, timeout=BRIEF)
    stores.sqld.resume()
    assert count(libsql) == 0


def test_a_suspended_postgresql_answers_when_it_is_resumed(stores, postgresql):
    with connect(postgresql) as connection:
        stores.postgres.suspend()
        call = Call(lambda: connection.execute(COUNT).fetchone())
        assert not call.is_done(BRIEF)
        stores.postgres.resume()
        assert call.is_done()
        assert call.value == (0,)


def test_terminated_backends_are_those_of_one_database(stores, tmp_path):
    one, other = (stores.fresh("postgresql", tmp_path) for _ in range(2))
    with connect(one) as ended, connect(other) as kept:
        assert stores.postgres.terminate_backends(one.rpartition("/")[2]) == 1
        with pytest.raises(psycopg.OperationalError):
            ended.execute(COUNT)
        assert kept.execute(COUNT).fetchone() == (0,)


def test_a_sqld_with_auth_knows_its_own_tokens():
    with servers.Sqld(auth=True).start() as sqld, servers.Sqld(auth=True) as stranger:
        assert post(sqld.url, SCHEMA, token=sqld.token())[0]["type"] == "ok"
        assert post(sqld.url, COUNT, token=sqld.token(read_only=True))[0]["type"] == "ok"
        for token in (None, sqld.token(expires_in=-90), stranger.token()):
            with pytest.raises(httpx.HTTPStatusError, match="401"):
                post(sqld.url, COUNT, token=token)
        with pytest.raises(httpx.HTTPStatusError, match="403"):
            post(sqld.url, INSERT, token=sqld.token(read_only=True))


def test_a_server_outlives_the_thread_that_started_it():
    sqld = servers.Sqld()
    with sqld:
        assert Call(sqld.start).is_done()
        run(sqld.url, SCHEMA)
        assert count(sqld.url) == 0


def test_servers_of_a_killed_test_run_end_and_leave_nothing():
    done = subprocess.run(
        [sys.executable, "-c", STARTS_BOTH_AND_DIES],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    sqld_port, sqld_folder, pg_port, pg_folder = done.stdout.split()
    until(lambda: not is_open(int(sqld_port)) and not is_open(int(pg_port)))
    until(lambda: not Path(sqld_folder).exists() and not Path(pg_folder).exists())


def test_no_two_free_ports_are_the_same():
    assert len({servers.free_port() for _ in range(50)}) == 50


def test_fresh_databases_may_be_durable(tmp_path):
    with servers.Stores(migrate, durable=True) as stores:
        assert count(stores.fresh("postgresql", tmp_path)) == 0
        assert stores.postgres.execute("SHOW fsync") == [("on",)]
        assert stores.postgres.execute("SHOW synchronous_commit") == [("on",)]
        assert stores.postgres.folder.parent == Path(tempfile.gettempdir())


@pytest.mark.parametrize("kind", ["libsql", "postgresql"])
def test_a_failed_migration_ends_its_server(tmp_path, kind):
    urls = []

    def fail(url: str) -> None:
        urls.append(url)
        raise RuntimeError

    with servers.Stores(fail) as stores, pytest.raises(RuntimeError):
        stores.fresh(kind, tmp_path)
    (url,) = urls
    assert not is_open(httpx.URL(url).port)


@pytest.mark.parametrize("kind", ["sqlite", "libsql", "postgresql"])
def test_fresh_databases_are_migrated_and_each_for_itself(stores, tmp_path, kind):
    one = stores.fresh(kind, tmp_path)
    run(one, INSERT)
    other = stores.fresh(kind, tmp_path)
    assert (count(one), count(other)) == (1, 0)
    stores.release(one)
    assert count(other) == 0


def test_a_fresh_database_at_the_root_empties_the_last(stores, tmp_path):
    url = stores.fresh("libsql", tmp_path, at_root=True)
    run(url, INSERT)
    assert stores.fresh("libsql", tmp_path, at_root=True) == url
    assert count(url) == 0


def test_a_released_database_is_gone_whoever_is_connected(stores, tmp_path):
    url = stores.fresh("libsql", tmp_path)
    stores.release(url)
    with pytest.raises(httpx.HTTPStatusError, match="404"):
        post(url, COUNT)
    url = stores.fresh("postgresql", tmp_path)
    with connect(url):
        stores.release(url)
        with pytest.raises(psycopg.OperationalError):
            connect(url)
    url = stores.fresh("sqlite", tmp_path)
    stores.release(url)
    assert not list(tmp_path.iterdir())


def test_fresh_databases_are_there_after_a_restart_of_the_servers(stores, tmp_path):
    urls = [stores.fresh(kind, tmp_path) for kind in ("libsql", "postgresql")]
    for server in (stores.sqld, stores.postgres):
        server.kill()
        server.start()
    urls += [stores.fresh(kind, tmp_path) for kind in ("libsql", "postgresql")]
    assert [count(url) for url in urls] == [0] * 4


def test_an_honest_proxy_carries_and_counts(proxy, libsql):
    with httpx.Client() as client:
        body = {"requests": [{"type": "execute", "stmt": {"sql": COUNT}}, {"type": "close"}]}
        for _ in range(3):
            answer = client.post(f"{proxy.in_front_of(libsql)}/v2/pipeline", json=body)
            assert answer.status_code == 200
        parts = iter([b'{"batch": {"ste', b'ps": []}}'])
        chunked = client.post(f"{proxy.url}/v3/cursor", content=parts)
        assert chunked.status_code == 200
        assert chunked.request.headers["transfer-encoding"] == "chunked"
        assert chunked.headers["transfer-encoding"] == "chunked"
        assert client.head(f"{proxy.url}/health").status_code == 200
    assert (proxy.requests, proxy.connections, proxy.faults) == (5, 1, 0)
    assert proxy.bytes_to_server > 0
    assert proxy.bytes_to_client > 0


def test_a_cut_proxy_refuses_until_it_is_healed(proxy, libsql):
    url = proxy.in_front_of(libsql)
    with httpx.Client(base_url=url) as client:
        assert client.get("/health").status_code == 404
        proxy.cut()
        with pytest.raises(httpx.TransportError):
            client.get("/health")
        with pytest.raises(httpx.ConnectError):
            count(url)
    proxy.heal()
    assert count(url) == 0


def test_a_stalled_request_is_held_and_others_pass(proxy, libsql):
    url = proxy.in_front_of(libsql)
    proxy.stall(lambda request: b"INSERT" in request)
    call = Call(lambda: post(url, INSERT))
    proxy.until_faults()
    assert count(url) == 0
    assert not call.is_done(0)
    proxy.heal()
    assert call.is_done()
    assert isinstance(call.error, httpx.TransportError)
    assert count(url) == 0


def test_a_held_request_may_arrive_late(proxy, libsql):
    url = proxy.in_front_of(libsql)
    proxy.stall(lambda request: b"INSERT" in request)
    with pytest.raises(httpx.ReadTimeout):
        post(url, INSERT, timeout=BRIEF)
    assert count(libsql) == 0
    proxy.heal(deliver=True)
    until(lambda: count(libsql) == 1)


def test_an_answer_is_lost_after_the_server_did_its_part(proxy, libsql):
    url = proxy.in_front_of(libsql)
    proxy.cut_after_request(lambda request: b"INSERT" in request)
    with pytest.raises(httpx.TransportError):
        post(url, INSERT)
    assert (proxy.faults, count(url)) == (1, 1)
    run(url, INSERT)
    assert count(url) == 2


def test_a_request_is_lost_before_the_server_sees_it(proxy, libsql):
    url = proxy.in_front_of(libsql)
    proxy.cut_before_request(lambda request: b"INSERT" in request, times=2)
    for _ in range(2):
        with pytest.raises(httpx.TransportError):
            post(url, INSERT)
    run(url, INSERT)
    assert (proxy.faults, count(url)) == (2, 1)


def test_a_delay_is_felt_on_each_round_trip(proxy, libsql):
    proxy.delay(0.05)
    begin = time.monotonic()
    count(proxy.in_front_of(libsql))
    assert time.monotonic() - begin >= 0.05


def test_a_websocket_passes_and_is_cut(proxy, libsql):
    with connect_websocket(f"ws://127.0.0.1:{proxy.port}", subprotocols=["hrana3"]) as socket:
        socket.send('{"type": "hello", "jwt": null}')
        assert "hello_ok" in socket.recv(timeout=10)
        proxy.cut()
        with pytest.raises(ConnectionError):
            raise_lost(socket)


def raise_lost(socket) -> None:
    from websockets.exceptions import ConnectionClosed

    try:
        socket.recv(timeout=10)
    except ConnectionClosed as error:
        raise ConnectionError from error


def test_a_proxy_in_front_of_a_dead_server_refuses(libsql):
    with (
        servers.Proxy(servers.free_port()) as proxy,
        pytest.raises(httpx.TransportError),
    ):
        count(proxy.in_front_of(f"http://127.0.0.1:{proxy.target_port}"))


def test_a_commit_may_be_done_though_its_answer_is_lost(pg_proxy, postgresql):
    pg_proxy.cut_after_request(lambda request: b"COMMIT" in request)
    with (
        pytest.raises(psycopg.OperationalError),
        psycopg.connect(pg_proxy.in_front_of(postgresql)) as connection,
    ):
        connection.execute(INSERT)
    assert count(postgresql) == 1
    assert count(pg_proxy.in_front_of(postgresql)) == 1


def test_a_prepared_statement_is_known_by_its_sql(pg_proxy, postgresql):
    with connect(pg_proxy.in_front_of(postgresql)) as connection:
        for number in range(2):
            connection.execute("UPDATE notes SET said = %s", [str(number)], prepare=True)
        pg_proxy.stall(lambda request: b"UPDATE" in request)
        call = Call(lambda: connection.execute("UPDATE notes SET said = %s", ["2"], prepare=True))
        pg_proxy.until_faults()
        assert count(pg_proxy.in_front_of(postgresql)) == 0
        pg_proxy.heal()
        assert call.is_done()
        assert isinstance(call.error, psycopg.OperationalError)


def test_notifications_pass_a_proxy_and_so_do_copy_and_pipelines(pg_proxy, postgresql):
    with connect(pg_proxy.in_front_of(postgresql)) as connection:
        connection.execute("LISTEN news")
        run(postgresql, "NOTIFY news, 'x'")
        assert [one.payload for one in connection.notifies(timeout=10, stop_after=1)] == ["x"]
        with connection.cursor().copy("COPY notes (said) FROM STDIN") as copy:
            copy.write_row(["copied"])
        with connection.pipeline():
            for _ in range(3):
                connection.execute(INSERT)
        assert connection.execute(COUNT).fetchone() == (4,)
