"""Addresses made to confuse a router (acceptance C20, C25, C32)."""

from __future__ import annotations

import base64
import json
from urllib.parse import quote, unquote

from fuzz_kit import BASE, Target, examples
from hypothesis import given
from hypothesis import strategies as st

from jobroom.http import paging

NASTY = [
    *(
        "%00",
        "%2F",
        "%2f..%2f",
        "..",
        ".",
        "%2e%2e",
        "%",
        "%zz",
        "%c3%28",
        "%ff",
        "%ed%a0%80",
        "%25",
    ),
    *(
        "%3F",
        "%23",
        ";",
        "+",
        "%20",
        "%09",
        "%0A",
        "%0d%0a",
        "a%0Ab",
        "@",
        "@global",
        "%40internal",
    ),
    *(":", "::", "r1:modifiers:Rotate", "r1%3Amodifiers%3ARotate", "%E5%90%8D%E5%89%8D", "%C3%A9"),
    *(
        "e%CC%81",
        "x" * 300,
        "%F0%9F%98%80" * 300,
        "x" * 10_000,
        "null",
        "undefined",
        "-1",
        "*",
        "~",
    ),
    *("00000000-0000-0000-0000-000000000000", "%7B00000000-0000-0000-0000-000000000000%7D"),
    *("urn%3Auuid%3A00000000000000000000000000000000", "01890A5DAC96774BBCCEB302099A8057", "wanda"),
    *(
        "01890a5d-ac96-774b-bcce-b302099a8057%0A",
        "%E2%80%AE",
        "%EF%BB%BF",
        "%EF%BF%BD",
        "%7F",
        "%C2%85",
    ),
]
part = st.sampled_from(NASTY) | st.text(max_size=20).map(lambda text: quote(text, safe=""))
TEMPLATES = [
    *("/rooms/{}/jobs", "/rooms/{}/jobs/{}", "/rooms/{}/jobs/{}/tasks", "/rooms/{}/tasks"),
    *(
        "/rooms/{}/tasks/{}",
        "/rooms/{}/workers",
        "/tasks/{}",
        "/tasks/{}/result",
        "/tasks/{}/retry",
    ),
    *(
        "/workers/{}",
        "/workers",
        "/tasks/claim",
        "/sweep",
        "/{}",
        "/rooms/r1/tasks/r1:modifiers:{}",
    ),
    *(
        "/rooms/r1/jobs/{}:{}:{}",
        "/rooms/r1/jobs/r1:{}:Rotate/tasks",
        "/tasks/claim{}",
        "/{}/{}/{}",
    ),
]
METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE", "QUERY", "get", ""]
LISTS = ["/rooms/r1/jobs", "/rooms/r1/tasks", "/rooms/r1/workers", "/workers"]
LIST_OF_JOB = "/rooms/r1/jobs/r1:modifiers:Rotate/tasks"


@given(
    method=st.sampled_from(METHODS),
    template=st.sampled_from(TEMPLATES),
    parts=st.tuples(part, part, part),
    root=st.sampled_from([BASE, BASE, BASE, "/v1", "", "//v1/joblib", "/v1/joblib/"]),
)
@examples(800)
def test_no_address_gets_another_answer_than_the_documented(
    target: Target, method: str, template: str, parts: tuple[str, str, str], root: str
) -> None:
    """Acceptance C20, C25: every spelling of a name or an id, in every place, by every method."""
    path = root + template.format(*parts)
    target.send("addresses", method, path if path.startswith("/") else "/" + path, body=b"{}")


@given(name=part.filter(lambda text: "/" not in text))
@examples(150)
def test_a_name_is_refused_or_round_trips_everywhere(target: Target, name: str) -> None:
    """Acceptance C20: either 422p at PUT or found again by every route."""
    said = unquote(name)
    # There may be a job of that name, with a schema.
    body = json.dumps({"category": "modifiers", "name": said, "replace": True}).encode()
    made = target.send("addresses", "PUT", f"{BASE}/rooms/r1/jobs", body=body)
    if made.status == 422:
        return
    assert made.status in {200, 201}, said
    found = made.json()["full_name"]
    assert found == f"r1:modifiers:{said}"
    for spelled in (quote(found, safe=""), quote(found, safe=":")):
        shown = target.send("addresses", "GET", f"{BASE}/rooms/r1/jobs/{spelled}")
        assert (shown.status, shown.json()["name"]) == (200, said)
        task = target.send("addresses", "POST", f"{BASE}/rooms/r1/tasks/{spelled}")
        assert (task.status, task.json()["job_name"]) == (202, found)
        listed = target.send("addresses", "GET", f"{BASE}/rooms/r1/jobs/{spelled}/tasks")
        assert listed.json()["total"] >= 1


def _packed(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


MARKS = [
    paging.list_mark(kind, room)
    for kind, room in (("tasks", "r1"), ("jobs", "r1"), ("workers", "r1"), ("workers", ""))
]
"""What the cursors of the lists begin with: what follows is to be looked at too."""
numbers = st.sampled_from(
    [
        *(
            "0",
            "-1",
            "501",
            "500",
            "abc",
            "1e3",
            "9223372036854775808",
            "9" * 5000,
            "1.0",
            " 1",
            "",
        ),
        *("+1", "0x1", "٣", "²", "1_0", "NaN", "1000000", "1000001", "00000000001", "%00", "true"),
    ]
)
cursors = st.one_of(
    st.sampled_from(["", "garbage", "=", "W10", "bnVsbA", "e30", "☃", "A" * 9999, "[]"]),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=9), inner),
        max_leaves=6,
    ).map(lambda value: _packed(json.dumps(value))),
    st.tuples(st.sampled_from(MARKS), st.integers() | st.text(max_size=5)).map(
        lambda pair: _packed(json.dumps([*pair, {}]))
    ),
    st.lists(st.sampled_from(["pending", "failed", "x"]), max_size=4).map(
        lambda statuses: _packed(
            json.dumps(
                [MARKS[0], 5, {"status": statuses * 200, "job": None, "created_by_id": None}]
            )
        )
    ),
    st.sampled_from(
        ["[" * 9999, f'["{MARKS[0]}",' + "9" * 5000 + ",{}]", f'["{MARKS[0]}",1e400,{{}}]']
    ).map(_packed),
)


pair = st.one_of(
    st.tuples(st.sampled_from(["limit", "offset"]), numbers),
    st.tuples(st.just("cursor"), cursors),
    st.tuples(
        st.just("status"), st.sampled_from(["pending", "x", "", "pending,failed", ",", "PENDING"])
    ),
    st.tuples(
        st.sampled_from(["job", "created_by_id", "dry_run", "\x00"]), st.text(max_size=9) | numbers
    ),
)


@given(
    path=st.sampled_from([*LISTS, LIST_OF_JOB]),
    pairs=st.lists(pair, max_size=4),
    junk=st.sampled_from(
        [b"", b"", b"&&", b"&=", b"&%", b"&%ff=%ff", b"&limit", b"&;", b"&a=%ed%a0%80"]
    ),
)
@examples(500)
def test_no_query_gets_another_answer_than_the_documented(
    target: Target, path: str, pairs: list[tuple[str, str]], junk: bytes
) -> None:
    """Acceptance C32: 422p or a page, never an overflow; cursors come from outside."""
    query = "&".join(f"{quote(name)}={quote(value)}" for name, value in pairs).encode() + junk
    answer = target.send("queries", "GET", BASE + path, query=query)
    assert answer.status in {200, 404, 422}


@given(query=st.binary(max_size=300), path=st.sampled_from([*LISTS, LIST_OF_JOB]))
@examples(150)
def test_no_bytes_in_a_query_get_another_answer_than_the_documented(
    target: Target, query: bytes, path: str
) -> None:
    """Acceptance C32: what no client sends, a scanner does."""
    target.send("queries", "GET", BASE + path, query=query)
