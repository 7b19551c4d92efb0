"""When two schemas are equal (contract, *Jobs*; case C18), and how much one asks for."""

from __future__ import annotations

import copy

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobroom.domain.schemas import first_difference, references, schema_key

BASE = {
    "type": "object",
    "properties": {"a": {"type": ["number", "null"], "default": 1}, "b": {"enum": [1, 2]}},
    "required": ["a", "b"],
}


def changed(*path, value):
    schema = copy.deepcopy(BASE)
    place = schema
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    return schema


EQUAL = {
    "other order of keys": dict(reversed(BASE.items())),
    "required permuted": changed("required", value=["b", "a"]),
    "type permuted": changed("properties", "a", "type", value=["null", "number"]),
    "1.0 for 1": changed("properties", "a", "default", value=1.0),
}
DIFFERENT = {
    "true for 1": (changed("properties", "a", "default", value=True), "/properties/a/default"),
    "text for number": (changed("properties", "a", "default", value="1"), "/properties/a/default"),
    "null for 1": (changed("properties", "a", "default", value=None), "/properties/a/default"),
    "enum permuted": (changed("properties", "b", "enum", value=[2, 1]), "/properties/b/enum/0"),
    "enum longer": (changed("properties", "b", "enum", value=[1, 2, 3]), "/properties/b/enum/2"),
    "one required less": (changed("required", value=["a"]), "/required"),
    "type as text": (changed("type", value=["object"]), "/type"),
    "new keyword": (changed("title", value="x"), "/title"),
    "escaped name": (changed("properties", "a/b~c", value={}), "/properties/a~1b~0c"),
    "empty": ({}, "/properties"),
    "boolean": (True, ""),
}


@pytest.mark.parametrize("other", EQUAL.values(), ids=EQUAL.keys())
def test_equal_schemas_have_no_difference_and_one_key(other):
    """Case C18, the first three: the same schema."""
    assert first_difference(BASE, other) is None
    assert schema_key(BASE) == schema_key(other)


@pytest.mark.parametrize(("other", "place"), DIFFERENT.values(), ids=DIFFERENT.keys())
def test_a_difference_is_named_from_both_sides(other, place):
    """Case C18, the last: 409 with a pointer to the differing path."""
    assert first_difference(BASE, other) == place
    assert first_difference(other, BASE) == place
    assert schema_key(BASE) != schema_key(other)


@pytest.mark.parametrize("keyword", ["default", "const", "enum", "examples", "x-own"])
def test_order_matters_inside_data(keyword):
    left = {keyword: [{"required": ["a", "b"], "type": ["null", "string"]}]}
    right = {keyword: [{"required": ["b", "a"], "type": ["null", "string"]}]}
    assert first_difference(left, right) == f"/{keyword}/0/required/0"


@pytest.mark.parametrize("holder", ["properties", "patternProperties", "$defs", "dependentSchemas"])
def test_a_property_called_required_is_a_schema_not_a_list(holder):
    left = {holder: {"required": {"enum": ["a", "b"]}}}
    assert first_difference(left, {holder: {"required": {"enum": ["b", "a"]}}}) == (
        f"/{holder}/required/enum/0"
    )
    left = {holder: {"type": {"required": ["a", "b"]}}}
    assert first_difference(left, {holder: {"type": {"required": ["b", "a"]}}}) is None


@pytest.mark.parametrize("keyword", ["allOf", "anyOf", "oneOf", "prefixItems"])
def test_order_matters_between_alternatives_but_not_inside_their_required(keyword):
    one, two = {"required": ["a", "b"]}, {"required": ["b", "a"]}
    assert first_difference({keyword: [one, {}]}, {keyword: [two, {}]}) is None
    assert first_difference({keyword: [one, {}]}, {keyword: [{}, one]}) == f"/{keyword}/0/required"


@pytest.mark.parametrize("keyword", ["items", "not", "if", "additionalProperties", "contains"])
def test_required_is_unordered_below_each_keyword_that_holds_a_schema(keyword):
    left = {keyword: {"required": ["a", "b"]}}
    assert first_difference(left, {keyword: {"required": ["b", "a"]}}) is None


def test_large_numbers_are_compared_as_they_are_written():
    assert first_difference({"maximum": 1e30}, {"maximum": 10**30}) is None
    assert first_difference({"maximum": 10**30}, {"maximum": 10**30 + 1}) == "/maximum"
    assert first_difference({"maximum": 2**53 + 1}, {"maximum": float(2**53)}) == "/maximum"
    assert first_difference({"minimum": -0.0}, {"minimum": 0}) is None
    assert first_difference({"minimum": 0.5}, {"minimum": 0}) == "/minimum"


DATA = st.recursive(
    st.sampled_from([None, True, False, 0, 1, 0.0, 1.0, 0.5, "a", "b"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("ab"), inner),
    max_leaves=4,
)
NAMES = st.lists(st.sampled_from("ab"), max_size=2)
SCHEMAS = st.recursive(
    st.booleans() | st.just({}),
    lambda inner: st.fixed_dictionaries(
        {},
        optional={
            "required": NAMES,
            "type": NAMES,
            "default": DATA,
            "const": DATA,
            "not": inner,
            "properties": st.dictionaries(st.sampled_from(["a", "required", "type"]), inner),
            "anyOf": st.lists(inner, max_size=2),
        },
    ),
    max_leaves=6,
)


@settings(max_examples=200)
@given(SCHEMAS, SCHEMAS)
def test_keys_are_equal_exactly_when_there_is_no_difference(left, right):
    assert (schema_key(left) == schema_key(right)) == (first_difference(left, right) is None)


def rewritten(value, draw, keyword=None):
    """The same schema written by somebody else; data is left alone but for 1 and 1.0."""
    if isinstance(value, dict):
        names = draw(st.permutations(list(value)))
        return {name: rewritten(value[name], draw, name) for name in names}
    if isinstance(value, list):
        is_set = keyword in {"required", "type"} and all(isinstance(item, str) for item in value)
        return draw(st.permutations(value)) if is_set else [rewritten(v, draw) for v in value]
    return float(value) if type(value) is int and draw(st.booleans()) else value


@settings(max_examples=100)
@given(SCHEMAS.filter(lambda schema: "const" not in str(schema) + "default"), st.data())
def test_a_schema_equals_itself_however_it_is_written(schema, data):
    other = rewritten(schema, data.draw)
    assert first_difference(schema, other) is None
    assert schema_key(schema) == schema_key(other)


def test_references_are_found_with_their_places_and_not_in_data():
    schema = {
        "properties": {"a": {"$ref": "#/x"}, "$ref": {"$dynamicRef": "#y"}},
        "const": {"$ref": "no"},
        "allOf": [{"$id": "http://example.com/z"}],
    }
    assert sorted(references(schema)) == [
        (("allOf", 0), "$id", "http://example.com/z"),
        (("properties", "$ref"), "$dynamicRef", "#y"),
        (("properties", "a"), "$ref", "#/x"),
    ]
