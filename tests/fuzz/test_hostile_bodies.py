"""Bodies made to break a reader of JSON (acceptance C26, C27; contract, *Errors*, "Bodies")."""

from __future__ import annotations

import itertools
import json
import re

from fuzz_kit import BASE, SUBMIT, Target, examples
from hypothesis import example, given
from hypothesis import strategies as st

UUID = "01890a5d-ac96-774b-bcce-b302099a8057"
# Every route that reads a body, and two that are sent one and do not.
TAKERS = [
    ("PUT", f"{BASE}/rooms/r1/jobs"),
    ("POST", SUBMIT),
    ("POST", f"{BASE}/tasks/claim"),
    ("POST", f"{BASE}/workers"),
    ("PATCH", f"{BASE}/tasks/{UUID}"),
    ("PATCH", f"{BASE}/workers/root"),
    ("POST", f"{BASE}/tasks/{UUID}/retry"),
]
MEMBERS = [
    *("category", "name", "schema", "worker_id", "description", "max_attempts", "order", "replace"),
    *("retry_delay_seconds", "timeout_seconds", "result_ttl_seconds", "validate", "payload"),
    *("priority", "run_at", "expires_at", "id", "depends_on", "parent", "limit", "start"),
    *("request_id", "status", "error", "result", "progress", "message", "attempt", "final"),
]
NASTY_NUMBERS = [
    *("NaN", "Infinity", "-Infinity", "1e400", "-1e400", "1e-400", "-0", "-0.0", "1E+2", "0.1e1"),
    *(
        "9" * 400,
        "9" * 4300,
        "9" * 5000,
        "-" + "9" * 5000,
        "1e" + "9" * 400,
        "0." + "0" * 5000 + "1",
    ),
    *("9223372036854775807", "9223372036854775808", "18446744073709551616", "01", "+1", "1.", ".5"),
    *("0x10", "1_000", "\u0661", "1e308", "1.7976931348623159e308", "2147483648", "1e22", "- 1"),
]
NASTY_TEXTS = [
    *(r'"\ud800"', r'"\udc00\ud800"', r'"\ud83d\ude00"', r'"\u0000"', r'"\x"', r'"\u12"', '"\x01"'),
    *(
        '"\x7f"',
        '"\u2028"',
        '"\ufeff"',
        '"\ufffd"',
        '"' + "x" * 100_000 + '"',
        '"' + r"\u0000" * 999 + '"',
    ),
    *('"2030-01-01T00:00:00Z"', '"9999-12-31T23:59:60Z"', '"0000-01-01T00:00:00Z"', '"-1"', "''"),
    *('"2030-01-01T00:00:00+24:00"', '"10000-01-01T00:00:00Z"', '"../../x"', '"@global"', '""'),
    *('"2030-02-30T00:00:00.9999999999999999999Z"', '"\u202e"', '"%00"', '"{}"', '"urn:uuid:x"'),
]
NASTY_SHAPES = [
    *("[", "{", "[" * 99 + "]" * 99, "[" * 101 + "]" * 101, "[" * 100_000, '{"a":' * 100_000),
    *(
        '{"a":1,"a":2}',
        '{"a":1,"\\u0061":2}',
        "[]",
        "{}",
        "null",
        "true",
        "nul",
        "[,]",
        "{,}",
        "[1 2]",
    ),
    *(
        '{"__proto__":{}}',
        '{"":{"":{"":0}}}',
        "[1,]",
        "/*x*/1",
        "{'a':1}",
        '{"a"}',
        "[" + "1," * 9999 + "1]",
    ),
]
SCHEMAS = [
    *('{"$ref":"#"}', '{"$ref":"file:///etc/passwd"}', '{"$ref":"http://127.0.0.1:1/x"}'),
    *('{"pattern":"(a+)+$"}', '{"pattern":"("}', '{"type":"nothing"}', '{"$ref":"#/$defs/x"}'),
    *('{"allOf":[{"$ref":"#"}]}', '{"multipleOf":0}', '{"minimum":1e308}', '{"$schema":"x:y"}'),
    *('{"$id":"\\u0000"}', '{"enum":[]}', '{"minLength":-1}', '{"maxItems":1e30}', "true", "false"),
    *('{"$dynamicRef":"#x"}', '{"$anchor":"x","$ref":"#x"}', '{"pattern":"[' + "a" * 9999 + ']"}'),
]
# Two kilobytes each that would take minutes, and gigabytes, to compile or to check by.
LINKS = {
    f"d{n}": {"anyOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2, "unevaluatedProperties": False}
    for n in range(24)
}
SCHEMAS += [
    json.dumps({"$defs": {**LINKS, "d24": {}}, "$ref": "#/$defs/d0"}),
    json.dumps({"$defs": {**LINKS, "d24": {"$ref": "#/$defs/d0"}}, "$ref": "#/$defs/d0"}),
    '{"allOf":[' * 24 + "{}" + '],"unevaluatedItems":false,"unevaluatedProperties":false}' * 24,
    json.dumps({"x": LINKS, "$ref": "#/x/d23/anyOf/0"}),
]
nasty = st.sampled_from(NASTY_NUMBERS + NASTY_TEXTS + NASTY_SHAPES + SCHEMAS)
plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
).map(json.dumps)
values = nasty | plain
names = st.sampled_from(MEMBERS).map(json.dumps) | st.text(max_size=5).map(json.dumps)


@st.composite
def texts(draw: st.DrawFn) -> str:
    """The text of an object with nasty values in the members that the routes read."""
    pairs = draw(st.lists(st.tuples(names, values), max_size=6))
    space = draw(st.sampled_from(["", " ", "\n\t", "\u00a0", "\x00", "\ufeff"]))
    inside = f",{space}".join(f"{name}:{value}" for name, value in pairs)
    return f"{space}{{{inside}}}{draw(st.sampled_from(['', '', '', ' ', 'x', '{}', ',']))}"


@st.composite
def broken_bytes(draw: st.DrawFn) -> bytes:
    """A text as bytes, then cut, flipped, doubled or in another encoding."""
    encoding = draw(st.sampled_from(["utf-8", "utf-8", "utf-16", "utf-32", "latin-1", "utf-7"]))
    data = draw(texts()).encode(encoding, "replace")
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, min(len(data), 400)))
        match draw(st.sampled_from(["cut", "insert", "drop", "double"])):
            case "cut":
                data = data[:at]
            case "insert":
                data = data[:at] + draw(st.binary(max_size=4)) + data[at:]
            case "drop":
                data = data[:at] + data[at + 1 :]
            case _:
                data = data[:at] + data[at : at + 20] + data[at:]
    return data


@given(taker=st.sampled_from(TAKERS), body=texts())
@examples(500)
def test_no_text_of_an_object_gets_another_answer_than_the_documented(
    target: Target, taker: tuple[str, str], body: str
) -> None:
    """Acceptance C26, the whole kind: nasty values in every member that is read."""
    target.send("bodies", *taker, body=body.encode("utf-8", "surrogatepass"))


@given(taker=st.sampled_from(TAKERS), body=broken_bytes() | st.binary(max_size=200))
@example(taker=TAKERS[1], body=b"")
@example(taker=TAKERS[1], body=b"\xef\xbb\xbf{}")
@examples(400)
def test_no_bytes_get_another_answer_than_the_documented(
    target: Target, taker: tuple[str, str], body: bytes
) -> None:
    """Acceptance C26: whatever the bytes are."""
    target.send("bodies", *taker, body=body)


@given(
    name=st.sampled_from(["payload", "result"]),
    value=nasty,
    wrap=st.sampled_from(["{}", '{{"a":{}}}', '{{"a":[{},1]}}', '{{"é":{{"":{}}}}}']),
)
@examples(200)
def test_what_is_accepted_is_given_back_byte_by_byte(
    target: Target, name: str, value: str, wrap: str
) -> None:
    """Acceptance C26, "never accepted then 500 on GET"; C37: stored and returned as it came."""
    text = wrap.format(value)
    answer = target.send("bodies", "POST", SUBMIT, body=f'{{"{name}":{text}}}'.encode())
    if answer.status != 202 or name != "payload":
        return
    address = f"{BASE}/tasks/{answer.json()['id']}"
    sent = text.encode() if text != "null" else b"{}"
    for path in (address, f"{BASE}/rooms/r1/tasks"):
        shown = target.send("bodies", "GET", path, query=b"limit=1" if "rooms" in path else b"")
        assert shown.status == 200
        assert b'"payload":' + sent in shown.body or b'"payload_bytes":' in shown.body
    target.send("bodies", "PATCH", address, body=b'{"status":"cancelled"}')


@given(schema=st.sampled_from(SCHEMAS) | plain, payload=values, number=st.integers(0, 10**6))
@example(schema=SCHEMAS[-1], payload="1", number=-1)
@example(schema=SCHEMAS[-2], payload="1", number=-2)
@example(schema=SCHEMAS[-3], payload="1", number=-3)
@example(schema=SCHEMAS[-4], payload="1", number=-4)
@examples(150)
def test_no_schema_and_payload_get_another_answer_than_the_documented(
    target: Target, schema: str, payload: str, number: int
) -> None:
    """Contract, *Jobs*: the schema must be valid; whatever is taken judges every payload."""
    body = f'{{"category":"modifiers","name":"J{number}","schema":{schema},"replace":true}}'
    target.send("bodies", "PUT", f"{BASE}/rooms/r1/jobs", body=body.encode("utf-8", "replace"))
    target.send("bodies", "GET", f"{BASE}/rooms/r1/jobs/r1:modifiers:J{number}")
    target.send(
        "bodies",
        "POST",
        f"{BASE}/rooms/r1/tasks/r1:modifiers:J{number}",
        body=f'{{"payload":{{"a":{payload}}}}}'.encode("utf-8", "replace"),
    )


@given(sizes=st.lists(st.integers(0, 400_000), max_size=6), said=st.none() | st.integers(0, 10**7))
@examples(40)
def test_a_body_in_pieces_is_413_as_soon_as_it_is_too_large(
    target: Target, sizes: list[int], said: int | None
) -> None:
    """Acceptance C27: over the limit is 413 with the limit in it, whatever the length said."""
    inside = b"".join(b"x" * size for size in sizes)
    cuts = [sum(sizes[:count]) for count in range(len(sizes) + 1)]
    pieces = [
        b'{"payload":{"a":"',
        *(inside[a:b] for a, b in itertools.pairwise(cuts)),
        b'"}}',
    ]
    headers = () if said is None else ((b"content-length", b"%d" % said),)
    answer = target.send("bodies", "POST", SUBMIT, body=pieces, headers=headers)
    total = sum(len(piece) for piece in pieces)
    too_large = total > 2**20 or (said or 0) > 2**20
    assert answer.status == (413 if too_large else 202)
    if too_large:
        assert re.search(rb"\b1048576\b", answer.body)
