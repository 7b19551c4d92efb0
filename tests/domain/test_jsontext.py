"""Strict JSON in, kept text, canonical text, cut text (contract, *Errors*; case C26)."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobroom.domain.jsontext import (
    MAX_DEPTH,
    canonical,
    cut_text,
    escape_nul,
    fingerprint,
    parse_object,
    pointer_to,
    shown,
)
from jobroom.errors import FieldError, ValidationFailed

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(10**40), 10**40)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=12
)
OBJECTS = st.dictionaries(st.text(), VALUES, max_size=6)
SPACES = st.text(" \t\n\r", max_size=3)


def refusal(body: bytes) -> FieldError:
    with pytest.raises(ValidationFailed) as caught:
        parse_object(body)
    (fault,) = caught.value.errors
    assert fault.message == str(caught.value)
    fault.message.encode("utf-8")
    fault.pointer.encode("utf-8")
    return fault


REFUSED = {
    "NaN": (b'{"payload":{"angle":NaN}}', "/payload", "NaN"),
    "Infinity": (b'{"payload":{"angle":Infinity}}', "/payload", "Infinity"),
    "minus infinity": (b'{"payload":[-Infinity]}', "/payload", "-Infinity"),
    "1e400": (b'{"payload":{"angle":1e400}}', "/payload", "1e400"),
    "-1e400": (b'{"payload":-1e400}', "/payload", "-1e400"),
    "400 digits and a dot": (b'{"payload":1' + b"0" * 400 + b".0}", "/payload", "too large"),
    "twice at the top": (b'{"angle":1,"angle":2}', "/angle", "'angle' appears twice"),
    "twice deep down": (b'{"p":{"a":[{"b":1,"b":1}]}}', "/p", "'b' appears twice"),
    "twice, once escaped": (b'{"a":1,"\\u0061":2}', "/a", "twice"),
    "100,000 arrays": (b"[" * 100_000, "", "line 1 column 101"),
    "100,000 objects": (b'{"a":' * 100_000, "", "nested more than 100"),
    "5,000 digits": (b'{"payload":' + b"9" * 5000 + b"}", "/payload", "digits"),
    "lone high surrogate": (b'{"a":"\\ud800"}', "/a", "line 1 column 7"),
    "lone low surrogate": (b'{"b":1,"a":"x\\uDFFFy"}', "/a", "\\uDFFF"),
    "pair in the wrong order": (b'{"a":"\\udc00\\ud800"}', "/a", "surrogate"),
    "high surrogate twice": (b'{"a":"\\ud83d\\ud83d\\ude00"}', "/a", "column 7"),
    "surrogate as a name": (b'{"\\ud800":1}', "/\\ud800", "surrogate"),
    "surrogate as an inner name": (b'{"a":{"\\ud800":1}}', "/a", "surrogate"),
    "surrogate, then bad syntax": (b'{"\\ud800":nul}', "/\\ud800", "value"),
    "invalid UTF-8": (b'{"a":"\xff"}', "", "byte 6"),
    "a surrogate in UTF-8": (b'{"a":"\xed\xa0\x80"}', "", "byte 6"),
    "byte order mark": (b"\xef\xbb\xbf{}", "", "byte order mark"),
    "empty": (b"", "", "empty"),
    "spaces alone": (b" \n", "", "empty"),
    "array": (b"[]", "", "not a JSON object"),
    "null": (b"null", "", "not a JSON object"),
    "string": (b'"x"', "", "not a JSON object"),
    "trailing text": (b"{} x", "", "line 1 column 4"),
    "two objects": (b"{}\n{}", "", "line 2 column 1"),
    "control character": (b'{"a":"\n"}', "/a", "control character"),
    "NUL unescaped": (b'{"a":"\0"}', "/a", "control character"),
    "unterminated": (b'{"a":"x', "/a", "line 1 column 6"),
    "open": (b"{", "", "line 1 column 2"),
    "name alone": (b'{"a"', "/a", "':'"),
    "no value": (b'{"a":', "/a", "value"),
    "no end": (b'{"a":1', "/a", "'}'"),
    "trailing comma": (b'{"a":1,}', "", "column 8"),
    "trailing comma inside": (b'{"a":[1,]}', "/a", "column"),
    "leading zero": (b'{"a":01}', "/a", "column 7"),
    "single quotes": (b"{'a':1}", "", "double quotes"),
    "bare name": (b"{a:1}", "", "double quotes"),
    "bad escape": (b'{"a":"\\x"}', "/a", "column"),
    "no-break space": (b'{"a":\xc2\xa01}', "/a", "column 6"),
    "other digits": ('{"a":\u0663}'.encode(), "/a", "column 6"),
    "bare word": (b'{"a":nul}', "/a", "column 6"),
}


@pytest.mark.parametrize(("body", "pointer", "words"), REFUSED.values(), ids=REFUSED.keys())
def test_what_is_not_strict_json_is_refused_with_its_place(body, pointer, words):
    """Contract, *Bodies*: strict JSON; case C26."""
    fault = refusal(body)
    assert fault.pointer == pointer
    assert words in fault.message


def test_the_raw_text_of_a_member_is_what_was_sent():
    body = parse_object(b' { "payload" : {"angle": 1.0, "n":-0 } ,"priority":\t3 } ')
    assert body.raw("payload") == '{"angle": 1.0, "n":-0 }'
    assert body.raw("priority") == "3"
    assert body.values == {"payload": {"angle": 1.0, "n": 0}, "priority": 3}


def test_large_integers_stay_exact():
    """Contract: numbers come back exactly as sent."""
    body = parse_object(b'{"a":123456789012345678901234567890,"b":' + b"9" * 4300 + b"}")
    assert body.values["a"] == 123456789012345678901234567890
    assert body.raw("b") == "9" * 4300


def test_a_surrogate_pair_and_an_escaped_backslash_are_fine():
    body = parse_object(b'{"a":"\\ud83d\\uDE00","b":"\\\\ud800","c":"\\u0000"}')
    assert body.values == {"a": "\N{GRINNING FACE}", "b": "\\ud800", "c": "\0"}


def nested(depth: int) -> bytes:
    return b'{"a":' + b"[" * (depth - 1) + b"]" * (depth - 1) + b"}"


def test_nesting_of_100_is_read_and_of_101_is_not():
    assert parse_object(nested(MAX_DEPTH)).raw("a") == "[" * 99 + "]" * 99
    assert "nested" in refusal(nested(MAX_DEPTH + 1)).message


def test_brackets_in_strings_and_side_by_side_are_no_nesting():
    wide = json.dumps({"a": ['[{"\\' * 200, *[[] for _ in range(300)]]}).encode()
    assert len(parse_object(wide).values["a"]) == 301


@pytest.mark.parametrize("rest", [b'"' + b'\\"' * 100_000, b'"[' * 50_000, b"\\" * 100_000])
def test_the_look_at_the_depth_takes_linear_time_for_broken_strings(rest):
    assert refusal(b'{"a":' + b"[[]," * 90 + rest)


@settings(max_examples=60)
@given(OBJECTS, st.booleans(), SPACES, SPACES)
def test_reads_what_the_standard_encoder_writes(value, ascii_only, before, after):
    text = before + json.dumps(value, ensure_ascii=ascii_only, indent=len(before) or None) + after
    body = parse_object(text.encode("utf-8"))
    assert repr(body.values) == repr(value)
    for name, member in value.items():
        assert repr(json.loads(body.raw(name))) == repr(member)
        assert body.raw(name) == body.raw(name).strip()


@settings(max_examples=150)
@given(st.binary() | st.text('{}[]":,\\u0d8 1eNa-.\n').map(str.encode))
def test_any_bytes_give_an_object_or_a_refusal(body):
    try:
        values = parse_object(body).values
    except ValidationFailed as fault:
        refused = fault
    else:
        assert values == json.loads(body)
        return
    assert len(refused.errors) == 1
    str(refused).encode("utf-8")


@settings(max_examples=60)
@given(OBJECTS)
def test_canonical_text_does_not_depend_on_the_order_of_keys(value):
    turned = dict(reversed(value.items()))
    assert canonical(value) == canonical(turned)
    assert repr(json.loads(canonical(value))) == repr(json.loads(json.dumps(value, sort_keys=True)))


def test_a_fingerprint_tells_method_path_and_body_apart():
    """Rules, *Idempotency*: method, path and canonical JSON of the body."""
    first = fingerprint("POST", "/a", {"x": 1, "y": 2})
    assert first == fingerprint("POST", "/a", {"y": 2, "x": 1})
    others = [("PUT", "/a", {"x": 1, "y": 2}), ("POST", "/b", {}), ("POST", "/a", {"x": 1})]
    assert len({first, *(fingerprint(*other) for other in others)}) == 4
    assert len(first) == 32


def test_nul_becomes_its_symbol():
    """Rules, *Text*."""
    assert escape_nul("a\0b\x1b[0m") == "a\u2400b\x1b[0m"


def test_two_mebibytes_of_error_are_cut_to_64_kib_with_a_mark():
    """Contract: error texts are cut at 64 KiB with a mark; case C27."""
    cut = cut_text("x" * 2_097_152)
    assert len(cut.encode()) == 65536
    assert cut.endswith("x… [cut from 2097152 bytes]")


@settings(max_examples=100)
@given(st.text(), st.integers(0, 80))
def test_cut_text_keeps_the_limit_and_never_splits_a_character(text, limit):
    size = len(text.encode())
    cut = cut_text(text, limit)
    assert len(cut.encode()) <= limit
    if size <= limit:
        assert cut == text
    else:
        assert text.startswith(cut.removesuffix(f"… [cut from {size} bytes]"))


def test_cut_text_gives_what_utf8_can_carry():
    assert cut_text("a\ud800b") == "a?b"


def test_pointers_escape_tildes_and_slashes_and_cut_endless_names():
    assert pointer_to("a/b~c", 0, "") == "/a~1b~0c/0/"
    assert pointer_to() == ""
    assert len(pointer_to("x" * 1_000_000)) < 300


def test_shown_text_is_quoted_escaped_and_short():
    assert shown("a\0\ud800") == r"'a\x00\ud800'"
    assert len(shown("x" * 1000)) < 70
