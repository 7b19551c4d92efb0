"""``uvicorn app:app`` with nothing configured: design 6, rules *First start*."""

from __future__ import annotations

import re
import subprocess

import httpx
import pytest

from jobroom.settings import server_address


@pytest.fixture(scope="module")
def first(start):
    return start(secret=None)


def test_the_curl_line_that_it_prints_works_as_it_stands(first):
    """Design 6: a ready-made token and a curl line, as Jupyter does."""
    (line,) = re.findall(r"^ +(curl .*)$", first.output, re.MULTILINE)
    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=True)
    assert done.stdout == '{"id":"local","is_admin":true,"rooms":null}'


def test_the_page_that_it_names_is_there(first):
    (address,) = re.findall(r"^Documentation: (\S+)$", first.output, re.MULTILINE)
    assert httpx.get(address).headers["content-type"].startswith("text/html")


@pytest.mark.parametrize("path", ["/v1/me", "/v1/joblib/workers", "/v1/joblib/rooms/r1/tasks"])
def test_without_the_token_nothing_is_open(first, path):
    """Design 6: closed by default."""
    for headers in ({}, {"authorization": "Bearer x"}, {"authorization": "Basic eDp5"}):
        answer = httpx.get(first.url + path, headers=headers)
        assert (answer.status_code, answer.json()["type"]) == (401, "/v1/problems/unauthorized")


def test_the_key_is_for_its_owner_only(first):
    """Design 6: a random key in a 0600 file beside the database."""
    assert sorted(path.name for path in first.folder.glob("*.key")) == ["jobroom.db.key"]
    assert (first.folder / "jobroom.db.key").stat().st_mode & 0o777 == 0o600


def test_the_key_itself_is_never_printed(first):
    """Design 6: no secret in a log."""
    assert (first.folder / "jobroom.db.key").read_text().strip() not in first.output


def test_a_second_start_keeps_the_key_and_the_work(start, work):
    """Rules, *First start*: a token given out stays valid, a task submitted stays there."""
    before = start(secret=None)
    with before.client(before.token) as client:
        work.register(client)
        task_id = work.submit(client)
    before.stop()
    after = start(before.folder, secret=None)
    assert after.token != before.token
    with after.client(before.token) as client:
        shown = client.get(f"{work.BASE}/tasks/{task_id}")
    assert (shown.status_code, shown.json()["status"]) == (200, "pending")


def test_two_that_start_at_once_end_with_one_key(start, tmp_path, work):
    """Rules, *First start*: two servers at once with nothing configured, one key file."""
    pair = [start(tmp_path, ready=False, secret=None) for _ in range(2)]
    for server in pair:
        server.until_ready()
    assert [path.name for path in tmp_path.glob("*.key*")] == ["jobroom.db.key"]
    with pair[0].client(pair[1].token) as first, pair[1].client(pair[0].token) as second:
        work.register(first)
        task_id = work.submit(second)
        assert first.post(f"{work.BASE}/tasks/claim").json()["task"]["id"] == task_id


@pytest.mark.parametrize(
    ("arguments", "variables", "address"),
    [
        ((), {}, "http://127.0.0.1:8000"),
        (("--port=9000",), {}, "http://127.0.0.1:9000"),
        (("--host", "0.0.0.0"), {}, "http://127.0.0.1:8000"),  # noqa: S104 - not bound
        (("--host", "::"), {}, "http://[::1]:8000"),
        (("--host", "example.org"), {"UVICORN_PORT": "80"}, "http://example.org:80"),
        (("--ssl-certfile", "a.pem"), {}, "https://127.0.0.1:8000"),
    ],
)
def test_the_address_is_the_one_that_uvicorn_was_told(monkeypatch, arguments, variables, address):
    """The printed line works as it stands, wherever the server listens."""
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert server_address(["app:app", *arguments]) == address
