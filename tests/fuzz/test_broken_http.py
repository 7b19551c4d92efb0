"""What is no HTTP at all, thrown at a real server (issue 2, *Fuzzing*: raw sockets).

A request that uvicorn cannot parse never reaches the application: uvicorn itself answers 400 with
one fixed sentence and closes. All else gets our answers.
"""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterator
from http.client import HTTPException, HTTPResponse

import fuzz_kit
import live_server
import pytest
from fuzz_kit import BASE, COUNTS, Answer, examples
from hypothesis import given
from hypothesis import strategies as st

WHO = b"Host: x\r\nAuthorization: Bearer " + live_server.token_of("w").encode() + b"\r\n"
POST = f"POST {BASE}/workers HTTP/1.1\r\n".encode() + WHO
HEALTH = b"GET /healthz HTTP/1.1\r\nHost: x\r\n"
UPGRADE = b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
PARSER_SAYS = b"Invalid HTTP request received."
WEBSOCKET_SAYS = b"Failed to open a WebSocket connection"

CASES = {
    "a TLS hello": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
    "only line breaks": b"\r\n\r\n\r\n",
    "no version": b"GET /healthz\r\n\r\n",
    "a version of the future": b"GET /healthz HTTP/9.9\r\nHost: x\r\n\r\n",
    "a preface of HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "HTTP/1.0": b"GET /healthz HTTP/1.0\r\n\r\n",
    "no host": b"GET /healthz HTTP/1.1\r\n\r\n",
    "two hosts": b"GET /healthz HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
    "bytes in the path": b"GET /v1/\xff\xfe HTTP/1.1\r\nHost: x\r\n\r\n",
    "bytes in the query": b"GET /healthz?\xff=\xff HTTP/1.1\r\nHost: x\r\n\r\n",
    "a bad percent-encoding": b"GET /v1/%zz%ff%00 HTTP/1.1\r\nHost: x\r\n\r\n",
    "a whole address": b"GET http://evil.test/healthz HTTP/1.1\r\nHost: x\r\n\r\n",
    "a broken address": b"GET http://[::1 HTTP/1.1\r\nHost: x\r\n\r\n",
    "an address of nothing": b"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n",
    "a tunnel": b"CONNECT a:443 HTTP/1.1\r\nHost: x\r\n\r\n",
    "a path without a slash": b"GET healthz HTTP/1.1\r\nHost: x\r\n\r\n",
    "a fragment": b"GET /healthz#x HTTP/1.1\r\nHost: x\r\n\r\n",
    "a path of 100,000": b"GET /" + b"x" * 100_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
    "a header of 200,000": HEALTH + b"X: " + b"y" * 200_000 + b"\r\n\r\n",
    "5,000 headers": HEALTH + b"X: y\r\n" * 5000 + b"\r\n",
    "a space in a header's name": HEALTH + b"X : y\r\n\r\n",
    "a NUL in a header": HEALTH + b"X: a\0b\r\n\r\n",
    "a folded header": HEALTH + b"X: a\r\n b\r\n\r\n",
    "a negative length": POST + b"Content-Length: -1\r\n\r\n",
    "a length of 30 digits": POST + b"Content-Length: " + b"9" * 30 + b"\r\n\r\n",
    "a length of 5,000 digits": POST + b"Content-Length: " + b"9" * 5000 + b"\r\n\r\n",
    "a length of 5,000 zeros": POST + b"Content-Length: " + b"0" * 5000 + b"\r\n\r\n",
    "the largest length": POST + b"Content-Length: 9223372036854775807\r\n\r\n{",
    "a length over the limit": POST + b"Content-Length: 99999999\r\n\r\n{",
    "two lengths": POST + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
    "a length and chunks": POST
    + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "a chunk of no size": POST + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
    "a chunk of endless size": POST + b"Transfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n{}",
    "another coding": POST + b"Transfer-Encoding: gzip\r\n\r\n",
    "chunks with notes": POST
    + b"Transfer-Encoding: chunked\r\n\r\n2;x=y\r\n{}\r\n0\r\nT: x\r\n\r\n",
    "a body that is waited for": POST + b"Content-Length: 99999999\r\nExpect: 100-continue\r\n\r\n",
    "a websocket": f"GET {BASE}/workers HTTP/1.1\r\n".encode()
    + WHO
    + UPGRADE
    + b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
    "a websocket without a key": HEALTH + UPGRADE + b"\r\n",
    "a pipeline": (HEALTH + b"\r\n") * 30,
    "a smuggled request": b"POST /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n"
    b"GARBAGE\r\n\r\n",
    "bare line feeds": b"GET /healthz HTTP/1.1\nHost: x\n\n",
    "a method of small letters": b"get /healthz HTTP/1.1\r\nHost: x\r\n\r\n",
    "a NUL in the method": b"G\x00T /healthz HTTP/1.1\r\nHost: x\r\n\r\n",
    "a name in bytes": b"GET /healthz HTTP/1.1\r\nHost: x\r\n\xff\xfe: x\r\n\r\n",
    "a line that never ends": b"GET /" + b"x" * 300_000,
}


@pytest.fixture(scope="module", params=["httptools", "h11"])
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[live_server.Server]:
    """A server with each of uvicorn's two parsers; it must outlive everything, without a trace."""
    folder = tmp_path_factory.mktemp(f"broken-{request.param}")
    parser = {"UVICORN_HTTP": request.param}
    with live_server.Server(folder, extra=parser, jwt_secret=live_server.SECRET) as started:
        yield started.until_ready()
        assert started.is_ready()
        assert started.process.poll() is None
        assert not re.search("Traceback|Exception in|ERROR", started.output), started.output


def throw(server: live_server.Server, data: bytes, pieces: int = 1) -> list[Answer]:
    """Send bytes, in so many pieces; every answer that comes within half a second, judged."""
    COUNTS["broken HTTP"] += 1
    answers = []
    size = len(data) // pieces + 1
    with socket.create_connection(("127.0.0.1", server.port), timeout=0.5) as connection:
        try:
            for start in range(0, len(data), size):
                connection.sendall(data[start : start + size])
            while (answer := _next_answer(connection)) is not None:
                answers.append(answer)
                if answer.headers.get("connection") == "close" or len(answers) >= 40:
                    break
        except (OSError, HTTPException):
            pass  # closed on us, or nothing (more) to say: both are fine
    for answer in answers:
        _judge(answer, f"{data[:200]!r} -> {answer.status} {answer.body[:300]!r}")
    return answers


def _next_answer(connection: socket.socket) -> Answer | None:
    found = HTTPResponse(_Unbuffered(connection), method="GET")
    found.begin()
    headers = {name.lower(): value for name, value in found.getheaders()}
    return Answer(found.status, headers, found.read())


class _Unbuffered:
    """A socket whose file reads no further than asked: more answers may follow in a pipeline."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection

    def makefile(self, _mode: str) -> object:
        return self._connection.makefile("rb", buffering=0)


def _judge(answer: Answer, said: str) -> None:
    assert answer.status < 500, said
    if answer.headers.get("content-type", "").startswith("text/plain"):
        by_parser = answer.status == 400 and answer.body == PARSER_SAYS
        no_socket = answer.status == 403 and answer.body == b""
        broken_socket = answer.status in {400, 426} and answer.body.startswith(WEBSOCKET_SAYS)
        assert by_parser or no_socket or broken_socket, said
        return
    fuzz_kit.judge(answer, said)
    json.loads(answer.body)


@pytest.mark.parametrize("name", CASES)
def test_broken_http_is_refused_and_the_server_lives_on(
    name: str, server: live_server.Server
) -> None:
    """Issue 2, *Fuzzing*: nothing but documented answers, no 5xx, no trace."""
    throw(server, CASES[name])
    assert throw(server, HEALTH + b"Connection: close\r\n\r\n")[0].status == 200


SOUND = [
    HEALTH + b"\r\n",
    POST + b"Content-Type: application/json\r\nContent-Length: 12\r\n\r\n" + b'{"name":"x"}',
    POST + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
    b"GET /v1/me HTTP/1.1\r\n" + WHO + b"Prefer: wait=1\r\n\r\n",
]
BITS = [
    b"\r\n",
    b"\n",
    b"\r",
    b"\0",
    b":",
    b" ",
    b"\t",
    b"%",
    b"\xff",
    b"HTTP/1.1",
    b"chunked",
    b"0\r\n",
]


@given(
    sound=st.sampled_from(SOUND),
    edits=st.lists(
        st.tuples(st.integers(0, 400), st.sampled_from(BITS), st.booleans()), max_size=4
    ),
    pieces=st.sampled_from([1, 1, 2, 30]),
)
@examples(25)
def test_no_damage_to_a_request_gets_another_answer_than_the_documented(
    server: live_server.Server, sound: bytes, edits: list[tuple[int, bytes, bool]], pieces: int
) -> None:
    """Sound requests with a few bytes put in or replaced, in one piece or in many."""
    data = sound
    for place, bit, replaces in edits:
        at = place % len(data)
        data = data[:at] + bit + data[at + (len(bit) if replaces else 0) :]
    throw(server, data, pieces)
