"""Where references lead: to one thing in the schema, or nowhere."""

from __future__ import annotations

import pytest

from jobroom.domain.places import Places

TEXT = {"type": "string"}
OTHER = {"type": "integer"}


def target(schema, *path):
    """What the reference at a place leads to, None for nothing."""
    place = schema
    for step in path:
        place = place[step]
    found = Places(schema).targets(place, "$ref")
    return found[0] if found else None


@pytest.mark.parametrize(
    ("schema", "path"),
    [
        ({"$defs": {"a/b": TEXT}, "$ref": "#/$defs/a~1b"}, ("$defs", "a/b")),
        ({"$defs": {"a b": TEXT}, "$ref": "#/$defs/a%20b"}, ("$defs", "a b")),
        ({"allOf": [{}, TEXT], "$ref": "#/allOf/1"}, ("allOf", 1)),
        ({"$defs": {"a": TEXT | {"$anchor": "x"}}, "$ref": "#x"}, ("$defs", "a")),
        ({"$defs": {"a": {"$id": "b"}}, "$ref": "b"}, ("$defs", "a")),
        ({"$id": "http://x/y", "$defs": {"a": {"$id": "b"}}, "$ref": "/b"}, ("$defs", "a")),
        ({"components": {"schemas": {"a": TEXT}}, "$ref": "#/components/schemas/a"}, None),
        ({"$defs": {"a": {"$id": "b", "$anchor": "x"}}, "$ref": "b#x"}, ("$defs", "a")),
        ({"$id": "urn:a:b", "$defs": {"a": TEXT}, "$ref": "#/$defs/a"}, ("$defs", "a")),
    ],
)
def test_a_reference_leads_to_its_target(schema, path):
    expected = schema
    for step in path or ("components", "schemas", "a"):
        expected = expected[step]
    assert target(schema) is expected
    assert Places(schema).unresolved is None


def test_a_pointer_begins_at_the_nearest_schema_with_an_identifier():
    """Not at the root, where something lighter may have the same name."""
    inner = {"$id": "http://x/a", "$defs": {"d": OTHER}, "$ref": "#/$defs/d"}
    assert target({"$defs": {"a": inner, "d": TEXT}}, "$defs", "a") is OTHER


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#/$defs/missing"},
        {"$ref": "#missing"},
        {"$ref": "http://x/y"},
        {"allOf": [{}], "$ref": "#/allOf/00"},
        {"$defs": {"a/b": {}, "a": {"b": {}}}, "$ref": "#/$defs/a%2Fb"},
        {"const": {"a": {}}, "$ref": "#/const/a"},
        {"properties": {"a": {}}, "$ref": "#/properties"},
        {"x": {"$id": "http://x/y"}, "$ref": "#/x"},
        {"x": {"properties": {"a": {}}}, "allOf": [{"$ref": "#/x"}, {"$ref": "#/x/properties"}]},
        {
            "$defs": {"a": {"$id": "http://x/a"}, "b": {"$id": "HTTP://x:80/./a"}},
            "$ref": "http://x/a",
        },
        {"$defs": {"a": {"$anchor": "x"}, "b": {"$anchor": "x"}}, "$ref": "#x"},
    ],
)
def test_a_reference_that_may_mean_several_things_or_no_schema_leads_nowhere(schema):
    assert Places(schema).unresolved is not None


def test_what_no_reference_leads_to_is_not_reached_unless_it_is_a_schema():
    schema = {"$defs": {"a": TEXT}, "x-example": {"$ref": "#/nowhere"}, "default": {"$ref": "no"}}
    found = Places(schema)
    assert found.unresolved is None
    assert found.reachable == [schema, TEXT]


def test_a_dynamic_reference_may_lead_to_each_anchor_of_its_name():
    a, b = {"$dynamicAnchor": "x"}, {"$id": "b", "$dynamicAnchor": "x"}
    schema = {"$defs": {"a": a, "b": b}, "$dynamicRef": "#x"}
    assert Places(schema).targets(schema, "$dynamicRef") == [a, b]


def test_the_path_of_a_schema_leads_to_it():
    inner = {"not": {}}
    assert Places({"a": [{}, {"b": inner}]}).path_of(inner) == ("a", 1, "b")


@pytest.mark.parametrize("name", ["default", "type", "enum", "properties"])
def test_in_an_unknown_keyword_a_name_may_be_that_of_a_keyword(name):
    schema = {"components": {"schemas": {name: TEXT}}, "$ref": f"#/components/schemas/{name}"}
    places = Places(schema)
    assert places.unresolved is None
    assert places.targets(schema, "$ref") == [TEXT]


def test_a_reference_into_the_data_of_a_schema_leads_nowhere():
    one = {"enum": [{"type": "string"}]}
    schema = {"x": {"y": one}, "allOf": [{"$ref": "#/x/y"}, {"$ref": "#/x/y/enum/0"}]}
    assert Places(schema).unresolved == (schema["allOf"][1], "$ref")


def test_a_dynamic_reference_leads_to_a_bounded_number_of_places():
    def schema(count):
        inner = {f"{n}": {"$id": f"i{n}", "$dynamicAnchor": "D"} for n in range(count)}
        return {"$dynamicAnchor": "D", "$dynamicRef": "#D", "$defs": inner}

    assert Places(schema(63)).unresolved is None
    assert Places(schema(64)).unresolved is not None
