"""What is done to the file under a running server: taken away, replaced, spoilt."""

from __future__ import annotations

import os
import shutil

import live_server
import pytest
from faultkit import BASE, BOUNDED, check_problem, check_whole

REQUESTS = (
    ("GET", f"{BASE}/rooms/r1/tasks", None),
    ("GET", f"{BASE}/rooms/r1/jobs", None),
    ("GET", f"{BASE}/workers", None),
    ("POST", live_server.JOB, {}),
    ("POST", f"{BASE}/tasks/claim", {}),
    ("POST", f"{BASE}/sweep", {}),
)


def start_in(folder):
    """A server that file permissions bind, on a file in a folder of its own."""
    url = f"sqlite:///{folder}/jobroom.db"
    settings = {"jwt_secret": live_server.SECRET, "sweeper_interval_seconds": 0}
    return live_server.Server(folder.parent, prefix=BOUNDED, database_url=url, **settings)


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """A server whose file always comes back."""
    folder = tmp_path_factory.mktemp("kept") / "store"
    folder.mkdir()
    with start_in(folder) as server:
        yield server.until_ready()


@pytest.fixture
def spoilt(tmp_path):
    """A server whose file may be spoilt."""
    folder = tmp_path / "store"
    folder.mkdir()
    with start_in(folder) as server:
        yield server.until_ready()


def file_of(server):
    return server.folder / "store" / "jobroom.db"


def may_not_be_entered(file):
    file.parent.chmod(0o000)
    return lambda: file.parent.chmod(0o755)


def was_renamed(file):
    kept = file.rename(file.with_suffix(".kept"))
    return lambda: kept.rename(file)


def was_replaced_by_another(file):
    kept = file.rename(file.with_suffix(".kept"))
    shutil.copy(kept, file)
    return lambda: kept.replace(file)


def was_replaced_by_a_folder(file):
    kept = file.rename(file.with_suffix(".kept"))
    file.mkdir()

    def put_back():
        file.rmdir()
        kept.rename(file)

    return put_back


@pytest.mark.parametrize(
    "change",
    [may_not_be_entered, was_renamed, was_replaced_by_another, was_replaced_by_a_folder],
    ids=lambda change: change.__name__,
)
def test_a_file_that_is_not_there_takes_nothing_until_it_is_back(kept, change):
    """What would be written to a file without a name would be found by nobody."""
    with kept.client() as client:
        live_server.register(client)
        known = live_server.submit(client)
        before = client.get(REQUESTS[0][1]).json()["items"]
        put_back = change(file_of(kept))
        try:
            for method, path, body in REQUESTS:
                check_problem(client.request(method, path, json=body))
            assert client.get("/healthz").status_code == 200
        finally:
            put_back()
        assert client.get(f"{BASE}/tasks/{known}").status_code == 200
        assert client.get(REQUESTS[0][1]).json()["items"] == before
        live_server.submit(client)
    assert "Traceback" not in kept.output
    check_whole(file_of(kept).parent)


def test_work_in_a_log_that_was_deleted_is_there_after_a_restart(spoilt):
    """Nothing more is taken that a kill would lose; in good order the old log is written back."""
    file = file_of(spoilt)
    with spoilt.client() as client:
        live_server.register(client)
        known = {live_server.submit(client) for _ in range(3)}
        file.with_name("jobroom.db-wal").unlink()
        for method, path, body in REQUESTS:
            check_problem(client.request(method, path, json=body))
    spoilt.stop()
    spoilt.start().until_ready()
    with spoilt.client() as client:
        assert known == {one["id"] for one in client.get(REQUESTS[0][1]).json()["items"]}
    check_whole(file.parent)


def overwritten(file):
    content = file.read_bytes()
    file.write_bytes(content[:100] + os.urandom(len(content) - 100))


def zeroed(file):
    size = file.stat().st_size
    file.write_bytes(bytes(size))


def cut_off(file):
    os.truncate(file, 4096)


@pytest.mark.parametrize("spoil", [overwritten, zeroed, cut_off], ids=lambda spoil: spoil.__name__)
def test_a_file_that_was_spoilt_never_shows_a_trace(spoilt, run, spoil):
    """What is cached still answers; the rest is a problem, and a new start says what to do."""
    with spoilt.client() as client:
        live_server.register(client)
        live_server.submit(client)
    spoilt.stop()
    spoilt.start().until_ready()
    spoil(file_of(spoilt))
    refused = 0
    with spoilt.client() as client:
        for method, path, body in REQUESTS * 3:
            answer = client.request(method, path, json=body)
            if not answer.is_success:
                check_problem(answer)
                refused += 1
    assert refused
    assert spoilt.process.poll() is None
    assert "Traceback" not in spoilt.output
    spoilt.kill()
    url = f"sqlite:///{file_of(spoilt)}"
    done = run("jobroom", "sweep", folder=spoilt.folder, database_url=url)
    assert done.code == 1
    assert "name another file by ZNDRAW_JOBLIB_DATABASE_URL" in done.output
