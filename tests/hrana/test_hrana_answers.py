"""Answers that no healthy server gives, from one that says what the test wants."""

from __future__ import annotations

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from jobroom.store.hrana import errors
from jobroom.store.hrana.http import HranaHttp
from jobroom.store.hrana.transport import Step

SELECT = [Step("SELECT 1")]
CLOSED = {"type": "ok", "response": {"type": "close"}}
ONE = {
    "type": "ok",
    "response": {
        "type": "execute",
        "result": {
            "cols": [{"name": "1"}],
            "rows": [[{"type": "integer", "value": "1"}]],
            "affected_row_count": 0,
            "last_insert_rowid": None,
        },
    },
}
BEGUN = {
    "type": "ok",
    "response": {
        "type": "batch",
        "result": {
            "step_results": [ONE["response"]["result"]] * 2,
            "step_errors": [None, None],
        },
    },
}


class Says:
    """A server that gives prepared answers: (status, body), one after the other."""

    def __init__(self):
        self.answers = []
        self.asked = []
        self.pause = 0.0
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                length = int(self.headers["content-length"])
                token = self.headers.get("authorization")
                outer.asked.append((self.path, token, json.loads(self.rfile.read(length))))
                status, body = outer.answers.pop(0)
                content = body if isinstance(body, bytes) else json.dumps(body).encode()
                self.send_response(status)
                self.send_header("content-length", str(len(content)))
                self.end_headers()
                for start in range(0, len(content), 10 if outer.pause else len(content)):
                    self.wfile.write(content[start : start + (10 if outer.pause else 1 << 30)])
                    self.wfile.flush()
                    time.sleep(outer.pause)

            def log_message(self, *_said):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.handle_error = lambda *_: None  # a client that has gone away is no event
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    def results(self, *entries, **more):
        self.answers.append((200, {"baton": None, "base_url": None, "results": entries, **more}))

    def close(self):
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture
def says():
    server = Says()
    yield server
    server.close()


@pytest.fixture
def transport(says):
    opened = HranaHttp(says.url, lambda: "the-token", timeout_seconds=1)
    yield opened
    opened.close()


@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        (500, b"oops", ("HTTP_500", None, True)),
        (502, b"<html>Bad\nGateway</html>", ("HTTP_502", None, True)),
        (503, {"error": "later"}, ("HTTP_503", None, True)),
        (429, {"message": "slow down"}, ("HTTP_429", False, True)),
        (404, b"", ("HTTP_404", False, True)),
        (404, {"error": "stream not found: abc"}, ("STREAM_INVALID", False, True)),
        (401, {"error": "no"}, ("UNAUTHORIZED", False, True)),
        (403, {"message": "no"}, ("FORBIDDEN", False, True)),
        (413, b"too much", ("HTTP_413", False, False)),
        (400, b"Received an invalid baton", ("STREAM_INVALID", False, True)),
        (400, {"message": "expired", "code": "STREAM_EXPIRED"}, ("STREAM_EXPIRED", False, True)),
        (400, b"Cannot deserialize", ("HTTP_400", False, False)),
        (307, b"", ("HTTP_307", False, False)),
        (400, b"[1]", ("HTTP_400", False, False)),
    ],
)
def test_a_refusal_of_the_whole_request(says, transport, status, body, expected):
    says.answers.append((status, body))
    with pytest.raises(errors.DatabaseError) as raised:
        transport.batch(SELECT, write=True)
    error = raised.value
    assert (error.code, error.applied, error.is_unavailable) == expected
    assert not error.is_busy
    assert "the-token" not in str(error)
    assert "\n" not in str(error)
    assert str(error).endswith((".", ")."))


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>Welcome to the hotel's network</html>",
        b"[]",
        b"null",
        b'{"baton": null, "results": 3}',
        b'{"baton": null, "results": []}',
        b'{"baton": null, "results": [{"type": "ok"}, {"type": "ok"}]}',
        b'{"baton": null, "results": [null, null]}',
        b'{"baton": null, "results": [{"type": "ok", "response": {"result": {}}}, {}]}',
    ],
)
@pytest.mark.parametrize("write", [True, False])
@pytest.mark.parametrize("steps", [SELECT, SELECT * 2])
def test_an_answer_that_makes_no_sense(says, transport, body, write, steps):
    says.answers.append((200, body))
    with pytest.raises(errors.OperationalError, match="not a libSQL server's") as raised:
        transport.batch(steps, write=write)
    assert raised.value.code == "PROTOCOL"
    assert raised.value.applied is (None if write else False)
    assert raised.value.is_unavailable


def test_a_batch_without_commit_and_without_error_makes_no_sense(says, transport):
    entry = {"step_results": [None] * 5, "step_errors": [None] * 5}
    says.results({"type": "ok", "response": {"type": "batch", "result": entry}}, CLOSED)
    with pytest.raises(errors.OperationalError) as raised:
        transport.batch(SELECT * 2, write=True)
    assert (raised.value.code, raised.value.applied) == ("PROTOCOL", None)


@pytest.mark.parametrize(
    ("code", "rolled_back", "applied"),
    [
        ("SQLITE_IOERR", True, False),
        ("SQLITE_IOERR", False, None),
        ("SQLITE_BUSY", False, False),
        ("TRANSACTION_TIMEOUT", False, False),
    ],
)
def test_a_commit_that_fails(says, transport, code, rolled_back, applied):
    result = ONE["response"]["result"]
    fault = {"message": "SQLite error: no luck", "code": code}
    entry = {
        "step_results": [result, result, result, None, result if rolled_back else None],
        "step_errors": [None, None, None, fault, None],
    }
    says.results({"type": "ok", "response": {"type": "batch", "result": entry}}, CLOSED)
    with pytest.raises(errors.OperationalError, match=f"^no luck \\({code}\\)") as raised:
        transport.batch(SELECT * 2, write=True)
    assert (raised.value.code, raised.value.applied) == (code, applied)


def test_an_answer_that_drips_ends_with_the_timeout(says, transport):
    says.pause = 0.3
    says.results(ONE, CLOSED)
    with pytest.raises(errors.OperationalError) as raised:
        transport.batch(SELECT, write=True)
    assert (raised.value.code, raised.value.applied) == ("TIMEOUT", None)


def test_a_stream_follows_its_baton_and_its_base_url_and_nobody_else_does(says, transport):
    says.results(BEGUN, baton="b1", base_url=f"{says.url}/near/")
    says.results(ONE, CLOSED)
    says.results(ONE, CLOSED, baton=None)
    stream = transport.stream(write=True)
    stream.run(SELECT)
    transport.batch(SELECT, write=False)
    stream.rollback()
    assert [path for path, _, _ in says.asked] == [
        "/v2/pipeline",
        "/v2/pipeline",
        "/near/v2/pipeline",
    ]
    assert [body["baton"] for _, _, body in says.asked] == [None, None, "b1"]


def test_a_stream_does_not_follow_from_tls_to_an_open_line(says):
    transport = HranaHttp(says.url, lambda: "the-token")
    stream = transport.stream(write=False)
    stream._base = "https://elsewhere"
    transport.call = lambda _call: type("Answer", (), {"baton": "b", "base_url": says.url})
    with pytest.raises(errors.OperationalError) as raised:
        stream.run(SELECT)
    assert raised.value.code == "PROTOCOL"
    transport.close()


def test_the_token_is_asked_once_more_after_a_401_and_the_request_sent_again(says):
    tokens = iter(["old", "new", "newer"])
    transport = HranaHttp(f"{says.url}/", lambda: next(tokens))
    says.answers.append((401, {"error": "expired"}))
    says.results(ONE, CLOSED)
    assert transport.batch(SELECT, write=True)[0].rows == [(1,)]
    assert [token for _, token, _ in says.asked] == ["Bearer old", "Bearer new"]
    assert transport.counters.requests == 2
    transport.close()


def test_without_a_token_no_header_is_sent(says):
    transport = HranaHttp(says.url, None)
    says.results(ONE, CLOSED)
    transport.batch(SELECT, write=True)
    assert says.asked[0][1] is None
    transport.close()
