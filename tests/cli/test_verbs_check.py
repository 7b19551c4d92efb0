"""``jobroom check``: says what stands between this machine and a running task."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import jwt
import live_server
import pytest

from jobroom.cli import checks, exits, rights


@pytest.fixture
def findings(typed, monkeypatch):
    """A function that checks; the exit code, and what was found by the name of each look.

    ``hold``: also whether a request is held open, which takes a second.
    """
    monkeypatch.setattr(rights, "HOLD_SECONDS", 1)
    brief = tuple(each for each in checks.CHECKS if each[0] != "long-poll")

    def run(*words, url=None, token=None, hold=False):
        monkeypatch.setattr(checks, "CHECKS", checks.CHECKS if hold else brief)
        if url is not None:
            monkeypatch.setenv("JOBROOM_URL", url)
        if token is not None:
            monkeypatch.setenv("JOBROOM_TOKEN", token)
        code, out, err = typed("check", "--json", *words)
        assert err == ""
        return code, {found["check"]: found for found in map(json.loads, out.splitlines())}

    return run


def failed(found):
    return [name for name, one in found.items() if one["ok"] is False]


def test_all_is_well(findings):
    code, found = findings("--room", "r1", hold=True)
    assert (code, failed(found)) == (exits.Code.OK, [])
    assert [name for name, one in found.items() if one["ok"] is None] == ["tls"]
    assert found["token"]["found"].startswith("accepted, you are alice, good until ")
    assert found["rights"]["found"] == "all rooms, without an admin's rights"
    assert found["long-poll"]["found"].startswith("a request was held open for 1.")


def test_a_check_leaves_nothing_behind(room, findings):
    def there():
        return [
            room.http.get(f"{live_server.BASE}{path}").json()["total"]
            for path in ("/workers", "/rooms", "/rooms/r9/jobs", "/rooms/r9/tasks")
        ]

    before = there()
    code, _ = findings("--room", "r9", hold=True)
    assert (code, there()) == (exits.Code.OK, before)


def test_for_people_each_line_has_its_next_step(typed, monkeypatch):
    monkeypatch.setenv("JOBROOM_URL", f"http://127.0.0.1:{live_server.free_port()}")
    code, out, _ = typed("check")
    lines = out.splitlines()
    assert code == exits.Code.FAILED
    assert lines[0] == "ok       proxy      none"
    assert lines[2].startswith("failed   tcp        127.0.0.1 port ")
    assert lines[3].startswith("                    Start the server there")
    assert lines[4] == "skipped  tls        not looked at: tcp comes first"


def test_a_host_that_is_not_known_is_told(findings):
    _, found = findings(url="http://jobroom.invalid")
    assert failed(found) == ["dns"]
    assert "typing errors" in found["dns"]["advice"]


def test_tls_where_none_is_spoken_is_told(room, findings):
    _, found = findings(url=room.url.replace("http:", "https:"))
    assert failed(found) == ["tls"]
    assert "begins with http://" in found["tls"]["advice"]


def test_a_proxy_is_what_this_machine_speaks_to(findings, monkeypatch):
    for name in ("http_proxy", "HTTP_PROXY"):
        monkeypatch.setenv(name, f"http://me:secret@127.0.0.1:{live_server.free_port()}")
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.setenv(name, "")
    _, found = findings(url="http://jobroom.invalid")
    assert found["proxy"]["found"].endswith("(from the environment)")
    assert "secret" not in json.dumps(found)
    assert failed(found) == ["tcp"]


TOKENS = [
    ({"exp": 1}, live_server.SECRET, "has expired", "It expired 1970-01-01 00:00:01Z"),
    ({"exp": 4e9}, "x" * 40, "signature", "this server's key"),
    ({"exp": 4e9, "nbf": 3.9e9}, live_server.SECRET, "not valid yet", "both clocks"),
]


@pytest.mark.parametrize(("claims", "secret", "said", "advice"), TOKENS)
def test_a_token_that_is_refused_is_told_with_the_reason(findings, claims, secret, said, advice):
    _, found = findings(token=jwt.encode({"sub": "alice", **claims}, secret))
    assert failed(found) == ["token"]
    assert said in found["token"]["found"]
    assert advice in found["token"]["advice"]


@pytest.mark.parametrize(("token", "advice"), [("", "jobroom token"), ("abc", "Copy it again")])
def test_no_token_and_half_a_token_are_told(findings, token, advice):
    _, found = findings(token=token)
    assert failed(found) == ["token"]
    assert advice in found["token"]["advice"]


def test_a_token_that_reaches_no_room_is_told(findings):
    _, found = findings(token=live_server.token_of("bob", rooms=[]))
    assert failed(found) == ["rights"]


def test_a_room_out_of_reach_is_told(findings):
    _, found = findings("--room", "r1", token=live_server.token_of("bob", rooms=["r2"]))
    assert found["rights"]["found"] == "the rooms r2, without an admin's rights"
    assert failed(found) == ["register", "submit"]
    assert "There is no room 'r1'" in found["submit"]["found"]


def test_the_global_room_needs_an_admin(findings):
    _, found = findings("--room", "@global")
    assert failed(found) == ["register", "submit"]
    code, found = findings("--room", "@global", token=live_server.token_of("a", is_admin=True))
    assert (code, failed(found)) == (exits.Code.OK, [])


def test_a_category_that_is_not_allowed_is_told(findings):
    _, found = findings("--room", "r1", "--category", "nonsense")
    assert failed(found) == ["register"]
    assert "use: modifiers" in found["register"]["found"]


@contextmanager
def other_server(answers, **headers):
    """A server with fixed answers: path -> status and document; its address."""

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self):
            self.rfile.read(int(self.headers.get("content-length") or 0))
            path = self.path.rpartition("/workers/")[1] or self.path
            status, document = answers.get(path, (404, None))
            body = b"<html>" if document is None else json.dumps(document).encode()
            self.send_response_only(status)
            kind = "text/html" if document is None else "application/json"
            for name, value in {"Content-Type": kind, **headers}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_POST(self):
            self.do_GET()

        def do_DELETE(self):
            self.do_GET()

        def log_message(self, *args):
            """Nobody reads it."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


WELL = {
    "/healthz": (200, {"status": "ok"}),
    "/readyz": (200, {"status": "ready"}),
    "/openapi.json": (200, {"info": {"version": "0.9"}}),
    "/v1/me": (200, {"id": "alice", "is_admin": False, "rooms": None}),
    "/v1/joblib/workers": (201, {"id": "w"}),
    "/v1/joblib/tasks/claim": (200, {"task": None}),
    "/workers/": (200, {}),
}
OTHERS = [
    ({"/healthz": (200, None)}, {}, "health", "not by the job queue"),
    ({"/readyz": (503, None)}, {}, "ready", "takes no writes"),
    ({"/openapi.json": (200, {"info": {"version": "7.1"}})}, {}, "version", "the server is 7.1"),
    ({}, {"Date": "ahead"}, "clock", "s behind the server's"),
    ({"/v1/me": (502, None)}, {}, "token", "answered 502"),
    ({"/v1/joblib/workers": (500, None)}, {}, "long-poll", "no worker can be made (500)"),
    ({"/v1/joblib/tasks/claim": (504, None)}, {}, "long-poll", "is cut off after 0."),
    ({}, {}, "long-poll", "is held open for 0."),
]


@pytest.mark.parametrize(("answers", "headers", "check", "said"), OTHERS)
def test_what_an_ill_server_answers_is_told(findings, answers, headers, check, said):
    if headers:
        headers = {"Date": format_datetime(datetime.now(UTC) + timedelta(hours=1), usegmt=True)}
    with other_server({**WELL, **answers}, **headers) as url:
        code, found = findings(url=url, hold=True)
    assert (code, found[check]["ok"]) == (exits.Code.FAILED, False)
    assert said in found[check]["found"]


STRANGE = [5, None, True, "x", "\ud800", [1], [None], {"x": 1}]


@pytest.mark.parametrize("member", [None, "id", "rooms", "is_admin"])
def test_somebody_else_who_answers_for_the_token_is_told(findings, member):
    """Whatever JSON it is, and whichever member of it."""
    me = WELL["/v1/me"][1]
    good = {"id": ["x"], "rooms": [None], "is_admin": [True]}.get(member, [])
    answers = dict(WELL)
    with other_server(answers) as url:
        for strange in (one for one in STRANGE if one not in good):
            document = strange if member is None else {**me, member: strange}
            answers["/v1/me"] = (200, document)
            code, found = findings(url=url)
            assert (code, failed(found)) == (exits.Code.FAILED, ["token"]), document
            assert "not by the job queue" in found["token"]["found"]
            assert found["rights"]["ok"] is None


@pytest.mark.parametrize("path", [path for path in WELL if path != "/v1/me"])
def test_strange_answers_to_any_look_are_no_trace(findings, path):
    answers = dict(WELL)
    with other_server(answers) as url:
        for strange in (5, [None], {}, *({"id": one, "info": one} for one in STRANGE)):
            answers[path] = (200, strange)
            code, found = findings("--room", "r1", url=url, hold=True)
            assert code == exits.Code.FAILED
            assert len(found) == len(checks.CHECKS)


@pytest.mark.parametrize("date", ["", "yesterday"])
def test_a_time_that_cannot_be_read_is_skipped(findings, date):
    with other_server(WELL, **({"Date": date} if date else {})) as url:
        _, found = findings(url=url)
    assert found["clock"]["ok"] is None


def test_a_server_that_does_not_tell_its_version_is_fine(findings):
    with other_server({**WELL, "/openapi.json": (404, None)}) as url:
        _, found = findings(url=url)
    assert found["version"]["ok"] is True


def test_an_address_without_a_host_is_told(typed, monkeypatch):
    monkeypatch.setenv("JOBROOM_URL", "http://")
    code, out, err = typed("check")
    assert (code, out) == (exits.Code.USAGE, "")
    assert "names no host" in err
