"""The one rule for names, full names, and task ids (contract, *Jobs*; cases C20, C25)."""

from __future__ import annotations

import re
import time
import unicodedata
import uuid

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobroom.domain.names import (
    GLOBAL_ROOM,
    LOCAL_ROOM,
    FullName,
    check_category,
    check_name,
    check_room,
    format_full_name,
    name_fault,
    new_uuid7,
    parse_full_name,
    parse_task_id,
)
from jobroom.errors import FieldError, InvalidCategory, InvalidRoomId, ValidationFailed

ACCEPTED = ["A%2FB", "A?B", "A#B", "é", "名前", "x" * 255, "名" * 255, "a b", "...", "a\u2028b"]
REFUSED = {
    "colon": "A:B",
    "slash": "A/B",
    "at": "a@b",
    "space": " ",
    "empty": "",
    "one dot": ".",
    "two dots": "..",
    "300": "x" * 300,
    "256": "x" * 256,
    "nul": "a\u0000b",
    "newline": "a\nb",
    "delete": "a\x7fb",
    "C1": "a\x85b",
    "surrogate": "a\ud800b",
    "space before": " a",
    "space after": "a ",
    "no-break space after": "a\u00a0",
    "wide space before": "\u3000a",
    "line separator after": "a\u2028",
}
NAMES = st.text(min_size=1, max_size=20).filter(lambda text: name_fault(text) is None)


@pytest.mark.parametrize("text", ACCEPTED)
def test_an_allowed_name_is_allowed_in_all_three_places(text):
    check_room(text)
    check_category(text, [text])
    check_name(text)


@pytest.mark.parametrize("text", REFUSED.values(), ids=REFUSED.keys())
def test_a_broken_name_is_refused_in_each_place_by_its_own_error(text):
    """Contract: 400 invalid-room-id, 400 invalid-category, 422 validation-error for a name."""
    with pytest.raises(InvalidRoomId) as room:
        check_room(text)
    with pytest.raises(InvalidCategory) as category:
        check_category(text, [text])
    with pytest.raises(ValidationFailed) as name:
        check_name(text)
    assert [fault.pointer for fault in name.value.errors] == ["/name"]
    assert [fault.pointer for fault in category.value.errors] == ["/category"]
    for refused in (room, category, name):
        assert len(str(refused.value).encode("utf-8")) < 400


def test_the_global_room_is_a_room_and_the_reserved_ones_are_not():
    check_room(GLOBAL_ROOM)
    for room in ("@internal", "@local", "@other", "@"):
        with pytest.raises(InvalidRoomId):
            check_room(room)


def test_a_category_outside_the_allowed_ones_is_refused_and_they_are_named():
    with pytest.raises(InvalidCategory, match="modifiers, selections") as refused:
        check_category("others", ["modifiers", "selections"])
    assert refused.value.errors == (FieldError("/category", str(refused.value)),)


@settings(max_examples=200)
@given(st.text(max_size=8))
def test_the_rule_is_the_contract_s(text):
    broken = (
        not text
        or any(unicodedata.category(c) in {"Cc", "Cs"} or c in "/:@" for c in text)
        or text in {".", ".."}
        or text != text.strip()
    )
    assert (name_fault(text) is not None) == broken


@settings(max_examples=100)
@given(NAMES | st.sampled_from([GLOBAL_ROOM, LOCAL_ROOM]), NAMES, NAMES)
def test_full_names_round_trip(room, category, name):
    full_name = FullName(room, category, name)
    assert parse_full_name(format_full_name(full_name)) == full_name


@pytest.mark.parametrize(
    "text",
    [
        "",
        ":",
        "::",
        "a:b",
        "a:b:c:d",
        "a::c",
        " a:b:c",
        "@internal:b:c",
        "a:@global:c",
        "a:b:..",
        "a:b/c:d",
        "a:b:c\n",
        "a:b:" + "x" * 256,
    ],
)
def test_a_malformed_full_name_is_none(text):
    """Contract: the caller answers job-not-found."""
    assert parse_full_name(text) is None


ID = "0190163d-8694-739b-aea5-966c26f8ad91"


@pytest.mark.parametrize(
    "text",
    [
        ID,
        ID.upper(),
        f"{{{ID}}}",
        f"urn:uuid:{ID}",
        ID.replace("-", ""),
        f"URN:UUID:{ID.upper()}",
        f"{{{ID.upper().replace('-', '')}}}",
    ],
)
def test_every_spelling_of_a_uuid_means_the_same_task(text):
    """Case C25."""
    assert parse_task_id(text) == ID == str(uuid.UUID(text.lower()))


@pytest.mark.parametrize(
    "text",
    [
        "not-a-uuid",
        "",
        ID[:-1],
        ID + "0",
        ID + "\n",
        " " + ID,
        f"{{{ID}",
        f"{ID}}}",
        "-" + ID,
        f"urn:uuid:{{{ID}}}",
        f"urn:{ID}",
        f"uuid:{ID}",
        ID.replace("-", "", 1),
        "0" * 31 + "g",
        "-".join(ID.replace("-", "")),
        "\N{ARABIC-INDIC DIGIT ZERO}" * 32,
        "urn:uuİd:" + ID,
        ID.replace("0", "\N{ARABIC-INDIC DIGIT ZERO}"),
    ],
)
def test_what_is_no_uuid_is_none(text):
    """Rules, *Order of checks*: an id that is no UUID is 404 task-not-found."""
    assert parse_task_id(text) is None


@settings(max_examples=100)
@given(st.text())
def test_any_text_is_a_uuid_or_none(text):
    assert parse_task_id(text) is None or uuid.UUID(text)


@settings(max_examples=50)
@given(st.uuids())
def test_any_uuid_is_read(value):
    assert parse_task_id(str(value).upper()) == str(value)


def test_new_ids_have_the_layout_of_version_7():
    """RFC 9562, 5.7."""
    before = time.time_ns() // 1_000_000
    ids = [new_uuid7() for _ in range(2000)]
    after = time.time_ns() // 1_000_000
    for text in ids:
        assert re.fullmatch(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-.{12}", text)
        assert before <= uuid.UUID(text).int >> 80 <= after
    assert len(set(ids)) == len(ids)
    assert {text[19] for text in ids} == set("89ab")


@settings(max_examples=50)
@given(st.lists(st.integers(0, 2**48 * 10**6 - 1), min_size=2, max_size=5, unique=True))
def test_a_later_clock_gives_a_greater_id(moments):
    with pytest.MonkeyPatch.context() as patch:
        clock = iter(sorted(moments))
        patch.setattr("jobroom.domain.names.time.time_ns", lambda: next(clock))
        ids = [new_uuid7()[:18] for _ in moments]
    assert ids == sorted(ids)
