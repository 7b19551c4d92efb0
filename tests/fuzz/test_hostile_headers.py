"""Headers made to confuse (acceptance C28; contract, *Errors*; RFC 9110, RFC 7240)."""

from __future__ import annotations

import json

from fuzz_kit import ADMIN, BASE, SUBMIT, Target, examples
from hypothesis import example, given
from hypothesis import strategies as st

UUID = "01890a5d-ac96-774b-bcce-b302099a8057"
ROUTES = [
    ("POST", SUBMIT, b'{"payload":{}}'),
    ("POST", f"{BASE}/tasks/claim", b"{}"),
    ("GET", f"{BASE}/tasks/{UUID}", b""),
    ("PATCH", f"{BASE}/tasks/{UUID}", b'{"status":"cancelled"}'),
    ("PUT", f"{BASE}/rooms/r1/jobs", b'{"category":"modifiers","name":"H"}'),
    ("GET", f"{BASE}/rooms/r1/tasks", b""),
    ("GET", "/v1/problems/task-not-found", b""),
    ("GET", "/healthz", b""),
    ("GET", "/nowhere", b""),
    ("DELETE", f"{BASE}/tasks/claim", b""),
]
NASTY: dict[bytes, list[bytes]] = {
    b"prefer": [
        *(b"wait=abc", b"wait=-1", b"wait=0", b"wait=" + b"9" * 5000, b"respond-async, wait=2"),
        *(
            b'wait="2',
            b"wait==2",
            b"wait",
            b"wait=2;x=" + b"y" * 9999,
            b",,,,",
            b"wait=0x2",
            b"WAIT = 1",
        ),
        *(b'"' * 9999, b"=" * 9999, b'a="\\' * 3000, b"wait=\xb2", b"wait=1.5", b"wait=1e9"),
    ],
    b"if-none-match": [
        *(b"*", b'W/"1"', b'"1"', b"W/1", b"W/" * 5000, b'"', b",,,", b'W/"' + b"1" * 9999 + b'"'),
        *(b"\xff\xfe", b'W/"1", W/"2", *', b" "),
    ],
    b"idempotency-key": [
        *(
            b"",
            b"k",
            b"k" * 255,
            b"k" * 256,
            b"k" * 60_000,
            b"\xff\xfe",
            b"'; DROP TABLE tasks; --",
        ),
        *(b"\t", b" ", b"k\x7f", b"k\x01", b"%00", b'{"a":1}'),
    ],
    b"content-type": [
        *(b"", b"application/json", b"text/plain", b"application/json;charset=utf-16", b"a/b/c"),
        *(
            b"application/vnd.x+json",
            b"\xff",
            b";",
            b"application/json" * 999,
            b"multipart/form-data",
        ),
    ],
    b"content-length": [
        *(b"0", b"-1", b"abc", b"99999999999999999999", b"9" * 5000, b"0" * 5000, b"1e3", b"\xb2"),
        *(b"+5", b" 5", b"5, 5", b"1048577", b""),
    ],
    b"transfer-encoding": [b"chunked", b"gzip, chunked", b"identity", b"\x0bchunked"],
    b"accept": [
        *(b"*/*", b"application/json", b"text/html", b"application/xml", b"", b"application/*;q=0"),
        *(
            b"," * 9999,
            b"text/html;q=" + b"9" * 5000,
            b"text/html;q=nan",
            b"text/html;q=1e400",
            b"\xff",
        ),
        *(
            b"application/problem+json",
            b"text/markdown;q=0.1, text/html;q=-1",
            b"*/*;q=0",
            b"text/*",
        ),
    ],
    b"authorization": [
        *(
            b"",
            b"Bearer",
            b"Bearer ",
            b"Basic YTpi",
            b"bearer x",
            b"Bearer " + b"x" * 60_000,
            b"\xff",
        ),
        *(
            b"Bearer a.b.c",
            b"Bearer .." * 9,
            b"Digest x",
            ADMIN,
            b"Bearer\t" + ADMIN,
            b"Bearer  " + ADMIN,
        ),
        *(
            b"Bearer " + ADMIN + b",x",
            b"Bearer " + ADMIN + b" x",
            b"Bearer \xc3\xa9.\xc3\xa9.\xc3\xa9",
        ),
    ],
    b"x-request-id": [
        *(
            b"r-1",
            b"",
            b"x" * 255,
            b"x" * 256,
            b"\xc3\xa9",
            b"\xff",
            b"<script>",
            b'"\\',
            b"a\tb",
            b"%0d%0a",
        ),
        *(b"urn:uuid:x", b"a b", b"\x00", b"{}", b"//evil.test/", b"a\x85b", b"\xa0"),
    ],
    b"accept-encoding": [b"gzip", b"*;q=0", b"identity;q=0"],
    b"host": [b"", b"evil.test", b"a:b:c", b"\xff"],
    b"range": [b"bytes=0-0", b"bytes=-1", b"x"],
    b"expect": [b"100-continue", b"x"],
    b"cookie": [b"a=b; " * 999, b"\xff"],
    b"x-forwarded-prefix": [b"/x", b"\xff"],
    b"if-match": [b"*", b'"x"'],
    b"x-http-method-override": [b"DELETE"],
}


@st.composite
def lines(draw: st.DrawFn) -> tuple[bytes, bytes]:
    name = draw(st.sampled_from(sorted(NASTY)))
    # Servers let no line break through, and strip the ends; all else may come.
    free = st.binary(max_size=40).map(lambda value: value.translate(None, b"\r\n\0").strip())
    return name, draw(st.sampled_from(NASTY[name]) | free)


def _is_fit(headers: list[tuple[bytes, bytes]]) -> bool:
    return not any(name == b"authorization" for name, _ in headers)


@given(route=st.sampled_from(ROUTES), headers=st.lists(lines(), max_size=5))
@example(route=ROUTES[0], headers=[(b"content-length", b"9" * 5000)])
@examples(900)
def test_no_headers_get_another_answer_than_the_documented(
    target: Target, route: tuple[str, str, bytes], headers: list[tuple[bytes, bytes]]
) -> None:
    """Acceptance C28, the whole kind: every header that is read, with whatever may come in it."""
    method, path, body = route
    token = b"" if _is_fit(headers) else None
    target.send("headers", method, path, body=body, headers=tuple(headers), token=token)


@given(
    names=st.lists(st.binary(min_size=1, max_size=10).map(bytes.lower), max_size=5),
    count=st.sampled_from([1, 100, 5000]),
    route=st.sampled_from(ROUTES),
)
@examples(60)
def test_thousands_of_headers_change_nothing(
    target: Target, names: list[bytes], count: int, route: tuple[str, str, bytes]
) -> None:
    """A header that is not read is not looked into, however often it comes."""
    known = set(NASTY)
    more = [(name, b"v" * 50) for name in names * count if name not in known]
    method, path, body = route
    target.send("headers", method, path, body=body, headers=tuple(more))


@given(lines=st.lists(st.sampled_from(NASTY[b"prefer"]), min_size=1, max_size=4))
@examples(100)
def test_no_preference_makes_an_error(target: Target, lines: list[bytes]) -> None:
    """Acceptance C28: "unknown/invalid ignored, never 400/500"; this server grants no wait."""
    headers = tuple((b"prefer", line) for line in lines)
    answer = target.send("headers", "POST", f"{BASE}/tasks/claim", body=b"{}", headers=headers)
    assert answer.status == 200
    assert "preference-applied" not in answer.headers


@given(sent=st.sampled_from(NASTY[b"x-request-id"]) | st.binary(max_size=300))
@examples(150)
def test_a_request_id_never_breaks_the_problem_that_repeats_it(target: Target, sent: bytes) -> None:
    """RFC 9457: ``instance`` is a URI reference, whatever was sent."""
    value = sent.translate(None, b"\r\n\0").strip()
    answer = target.send("headers", "GET", "/nowhere", headers=((b"x-request-id", value),))
    instance = json.loads(answer.body)["instance"]
    assert not set(instance) & set(' <>"{}|\\^`'), instance
