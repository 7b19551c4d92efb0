"""Payloads against schemas, whatever the schema and the payload are (contract, *Tasks*)."""

from __future__ import annotations

import json
import threading
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobroom.domain import costs
from jobroom.errors import PayloadInvalid, ValidationFailed
from jobroom.service import payloads
from jobroom.service.payloads import (
    MAX_ERRORS,
    MAX_MESSAGE,
    SchemaCache,
    check_schema,
    compile_schema,
)

ROTATE = {"type": "object", "properties": {"angle": {"type": "number"}}, "required": ["angle"]}


def compiled(schema):
    check_schema(schema)
    return compile_schema(json.dumps(schema))


def faults(schema, payload, at=""):
    """The errors of a payload that must not fit, as (pointer, message)."""
    with pytest.raises(PayloadInvalid) as caught:
        compiled(schema).check(payload, at=at)
    errors = caught.value.errors
    assert 1 <= len(errors) <= MAX_ERRORS
    assert all(len(error.message) <= MAX_MESSAGE for error in errors)
    return [(error.pointer, error.message) for error in errors]


def test_a_payload_that_fits_passes():
    compiled(ROTATE).check({"angle": 90})
    compiled({}).check({"anything": [None]})


def test_each_fault_is_named_with_its_place_below_the_place_of_the_payload():
    found = faults(ROTATE | {"maxProperties": 1}, {"angle": "x", "b": 1}, at="/payload")
    assert ("/payload/angle", '"x" is not of type "number"') in found
    assert "/payload" in [pointer for pointer, _ in found]


def test_a_missing_member_is_named():
    assert faults(ROTATE, {}) == [("", '"angle" is a required property')]


def test_pointers_are_escaped():
    schema = {"properties": {"a/b~c": {"items": {"type": "string"}}}}
    assert faults(schema, {"a/b~c": ["x", 1]})[0][0] == "/a~1b~0c/1"


def test_the_detail_names_places_but_no_values():
    """Problem details are logged; payloads must not be."""
    with pytest.raises(PayloadInvalid, match="/angle") as caught:
        compiled(ROTATE).check({"angle": "secret"})
    assert "secret" not in str(caught.value)


def test_at_most_twenty_faults_are_listed():
    assert len(faults({"items": {"type": "string"}}, list(range(50)))) == MAX_ERRORS


def test_a_large_payload_is_neither_echoed_nor_explained_at_length():
    found = faults({"items": {"type": "string"}}, list(range(300_000)))
    assert found == [("/0", '0 is not of type "string"')]
    [(pointer, message)] = faults({"type": "object"}, ["x" * 1_000_000])
    assert pointer == ""
    assert message.endswith("…")


def test_a_member_that_is_not_allowed_is_said_to_be_so():
    assert faults({"properties": {"a": False}}, {"a": 1}) == [("/a", "It is not allowed.")]


@pytest.mark.parametrize(
    "payload", [{"n": 10**30}, {"n": -(10**4000)}, {"é\0": "\0名"}, {"": {"\0": [1.5, None]}}]
)
def test_large_integers_unicode_and_nul_are_ordinary_values(payload):
    compiled({"type": "object"}).check(payload)
    assert faults({"type": "array"}, payload)[0][0] == ""
    assert faults({"additionalProperties": {"type": "null"}}, payload)


def test_large_integers_are_compared_exactly():
    compiled({"const": 10**30}).check(10**30)
    assert faults({"const": 10**30}, 10**30 + 1)
    assert faults({"maximum": 10**30}, 10**30 + 1)


def deep(levels):
    payload = 1
    for _ in range(levels):
        payload = [payload]
    return payload


@pytest.mark.parametrize("schema", [{}, {"items": {"$ref": "#"}}])
def test_a_payload_nested_to_the_limit_passes(schema):
    compiled(schema).check(deep(100))


def test_a_schema_nested_to_the_limit_is_used():
    schema = {}
    for _ in range(99):
        schema = {"not": schema}
    assert faults(schema, 1)
    compiled({"allOf": [{"$ref": "#/$defs/x"}], "$defs": {"x": schema["not"]}}).check(1)


TREE = {
    "$defs": {
        "node": {
            "type": "object",
            "properties": {"value": {"type": "integer"}, "next": {"$ref": "#/$defs/node"}},
            "required": ["value"],
        }
    },
    "$ref": "#/$defs/node",
}


def test_a_recursive_schema_checks_every_level_and_names_the_place():
    compiled(TREE).check({"value": 1, "next": {"value": 2}})
    bad = {"value": 1, "next": {"value": 2, "next": {"value": "x"}}}
    assert faults(TREE, bad) == [("/next/next/value", '"x" is not of type "integer"')]


def test_a_recursive_schema_takes_a_large_payload():
    schema = {"type": ["array", "integer"], "items": {"$ref": "#"}}
    compiled(schema).check([[1, 2, 3] for _ in range(10_000)])


@pytest.mark.parametrize(
    "schema", [{"$ref": "#"}, {"allOf": [{"$ref": "#"}]}, {"anyOf": [{"$ref": "#"}, {}]}]
)
def test_a_schema_that_refers_to_nothing_but_itself_ends(schema):
    compiled(schema).check({"a": 1})


def multiplied(keyword, leaf):
    """Forty definitions, each using the one before twice: 2^39 visits if each were made."""
    links = {f"d{n}": {keyword: [{"$ref": f"#/$defs/d{n - 1}"}] * 2} for n in range(1, 40)}
    return {"$defs": {"d0": leaf, **links}, "$ref": "#/$defs/d39"}


@pytest.mark.parametrize("keyword", ["anyOf", "oneOf", "allOf"])
def test_references_that_multiply_end_in_a_refusal(keyword):
    leaf = {"type": "integer" if keyword == "allOf" else "string"}
    assert "too many steps" in faults(multiplied(keyword, leaf), 1)[0][1]


@pytest.mark.parametrize("keyword", ["anyOf", "oneOf", "allOf"])
def test_recursion_that_multiplies_with_the_depth_of_the_payload_ends(keyword):
    payload = {"z": 1}
    for _ in range(98):
        payload = {"c": payload}
    link = {"properties": {"c": {"$ref": "#"}, "z": False}, "minProperties": 0}
    assert faults({keyword: [link, link | {"minProperties": 1}]}, payload)


def test_wide_alternatives_on_a_large_payload_are_summed_up():
    found = faults({"anyOf": [{"type": "string"}] * 900}, list(range(1000)))
    assert found == [("", "It fits none of the forms that are allowed.")]


def test_a_fault_that_cannot_be_explained_cheaply_is_still_a_fault():
    schema = {"anyOf": [{"type": "string"}, {"type": "array"}], "items": {"$ref": "#/anyOf/0"}}
    assert faults(schema, list(range(20_000))) == [("", "It does not fit the schema.")]


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("^(a+)+$", "a" * 30 + "b"),
        ("^(a|a)*$", "a" * 5_000 + "b"),
        ("^(?=a)(a+)+$", "a" * 30 + "b"),
        (r"^(a*)\1*\1*\1*b$", "a" * 5_000),
    ],
)
def test_a_catastrophic_pattern_costs_no_more_than_any_other(pattern, text):
    assert faults({"pattern": pattern}, text)


def test_patterns_that_look_around_are_understood():
    compiled({"pattern": "^(?!x)[a-z]+$"}).check("abc")
    assert faults({"pattern": "^(?!x)[a-z]+$"}, "xbc")


def test_format_refuses_nothing():
    compiled({"format": "date-time"}).check("tomorrow")


@pytest.mark.parametrize(
    ("schema", "pointer"),
    [
        ({"type": "objekt"}, "/type"),
        ({"type": []}, "/type"),
        ({"properties": {"a": {"type": ["string", "string"]}}}, "/properties/a/type"),
        ({"properties": {"a": 5}}, "/properties/a"),
        ({"minLength": -1}, "/minLength"),
        ({"required": ["a", "a"]}, "/required"),
        ({"required": "a"}, "/required"),
        ({"items": {"pattern": "("}}, "/items/pattern"),
        ({"patternProperties": {"a{99999999}": {}}}, "/patternProperties/a{99999999}"),
        ({"$ref": "#/$defs/missing"}, "/$ref"),
        ({"allOf": [{}, {"$ref": "#nowhere"}]}, "/allOf/1/$ref"),
        ({"properties": {"a": {"$ref": "other.json"}}}, "/properties/a/$ref"),
        ({"$dynamicRef": "#nowhere"}, "/$dynamicRef"),
        ({"not": {"$ref": "::::"}}, "/not/$ref"),
        ({"$id": "http://[bad"}, "/$id"),
        ({"$ref": "#/%24defs/missing"}, "/$ref"),
        ({"$id": "http://example.com/a/b", "$ref": "../c#d"}, "/$ref"),
        ({"items": [{"type": "string"}]}, "/items"),
        ([], ""),
        ("x", ""),
        (True, ""),
        (None, ""),
    ],
)
def test_a_schema_that_is_none_is_refused_with_the_place(schema, pointer):
    """Contract, *Jobs*: 422 validation-error naming the place."""
    with pytest.raises(ValidationFailed) as caught:
        check_schema(schema, at="/schema")
    [fault] = caught.value.errors
    assert fault.pointer == "/schema" + pointer
    assert len(fault.message) <= MAX_MESSAGE


def test_nothing_outside_the_schema_is_fetched(tmp_path):
    outside = tmp_path / "outside.json"
    outside.write_text("{}")
    for uri in (outside.as_uri(), "http://127.0.0.1:1/x", "https://127.0.0.1:1/x", "urn:x:y"):
        with pytest.raises(ValidationFailed, match="references out of it are refused"):
            check_schema({"properties": {"a": {"$ref": uri}}})


def test_references_within_the_schema_by_id_and_anchor_are_followed():
    by_id = {"$id": "http://example.com/s", "$defs": {"a": {"$id": "b", "type": "string"}}}
    assert faults(by_id | {"$ref": "b"}, 1) == [("", '1 is not of type "string"')]
    by_anchor = {"$defs": {"a": {"$anchor": "b", "type": "string"}}, "$ref": "#b"}
    assert faults(by_anchor, 1) == [("", '1 is not of type "string"')]


def test_a_word_that_looks_like_a_reference_inside_data_is_left_alone():
    check_schema({"const": {"$ref": "http://127.0.0.1:1/x"}, "properties": {"$ref": {}}})


def test_many_large_patterns_share_one_allowance_of_memory():
    schema = {"patternProperties": {rf"^\p{{L}}{{1,60}}{n}$": {} for n in range(3000)}}
    with pytest.raises(ValidationFailed, match="too large"):
        check_schema(schema)


@pytest.mark.parametrize("text", ["", "{", "null", "[]", '{"type": "objekt"}'])
def test_a_damaged_stored_schema_is_a_clear_refusal(text):
    """Case C09: an impossible row is answered, not crashed on."""
    with pytest.raises(ValidationFailed, match="damaged"):
        compile_schema(text)


def test_the_cache_compiles_a_version_once_and_keeps_versions_apart():
    cache = SchemaCache()
    first = cache.get(1, 1, '{"type":"object"}')
    assert cache.get(1, 1, "not looked at again") is first
    assert cache.get(1, 2, '{"type":"array"}') is not first
    cache.get(1, 2, "").check([])


def test_the_cache_is_bounded_by_number_and_by_memory():
    by_number = SchemaCache(limit=2)
    first = by_number.get(1, 1, "{}")
    by_number.get(2, 1, "{}")
    by_number.get(3, 1, "{}")
    assert by_number.get(1, 1, "{}") is not first
    by_text = SchemaCache(limit_bytes=5_000)
    kept = by_text.get(1, 1, "{}")
    by_text.get(2, 1, '{"title": "%s"}' % ("x" * 20))
    assert by_text.get(1, 1, "{}") is not kept


def test_threads_share_a_guarded_check():
    check = compiled(TREE)
    wrong = []

    def work():
        for _ in range(200):
            check.check({"value": 1, "next": {"value": 2}})
            try:
                check.check({"value": "x"})
            except PayloadInvalid as refused:
                if refused.errors[0].pointer != "/value":
                    wrong.append(refused)
            else:
                wrong.append(None)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


JSON = st.recursive(
    st.sampled_from([None, True, 0, 1, -2, 0.5, 10**30, "", "a", "\0é"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab$"), inner),
    max_leaves=6,
)
KEYWORDS = ["type", "properties", "required", "items", "anyOf", "not", "$ref", "$id", "pattern"]


@settings(max_examples=150)
@given(st.dictionaries(st.sampled_from(KEYWORDS), JSON | st.sampled_from(["#", "a", "string"])))
def test_any_object_is_a_schema_or_a_refusal_with_a_place(schema):
    try:
        check_schema(schema)
    except ValidationFailed as fault:
        refused = fault
    else:
        compile_schema(json.dumps(schema))
        return
    assert len(refused.errors) == 1


@settings(max_examples=100)
@given(JSON)
def test_a_guarded_check_and_a_plain_one_agree(payload):
    forms = [{"type": "integer"}, {"type": "array", "maxItems": 1}, {"required": ["a"]}]
    plain = {"items": {"anyOf": forms}, "additionalProperties": {"oneOf": forms}}
    guarded = plain | {"$defs": {"loop": {"not": {"$ref": "#/$defs/loop"}}}}
    guarded |= {"anyOf": [{}, {"$ref": "#/$defs/loop"}]}
    answers = []
    for schema in (plain, guarded):
        try:
            compiled(schema).check(payload)
        except PayloadInvalid:
            answers.append(False)
        else:
            answers.append(True)
    assert answers[0] == answers[1]


KEYS = {f"a{n}bcbcb": n for n in range(60_000)}
HUGE = [10**40 + n for n in range(5_000)]
NUMBERS = list(range(60_000))
COMMON = {"type": "integer"}
HEAVY = {
    "patternProperties": ({"patternProperties": {f"^a{n}(b|c)+$": {} for n in range(3000)}}, KEYS),
    "propertyNames": (
        {"propertyNames": {"not": {"anyOf": [{"pattern": f"^x{n}(b|c)"} for n in range(3000)]}}},
        KEYS,
    ),
    "enum": ({"items": {"not": {"enum": [10**41 + n for n in range(5_000)]}}}, HUGE),
    "uniqueItems": ({"uniqueItems": True}, HUGE),
    "multipleOf": ({"items": {"multipleOf": 1e-300}}, [1e300] * 60_000),
    "dependentRequired": (
        {"items": {"dependentRequired": {f"r{n}": [] for n in range(9_000)}}},
        [{"a": 1}] * 60_000,
    ),
    "dependentSchemas": (
        {"items": {"dependentSchemas": {f"r{n}": {} for n in range(9_000)}}},
        [{"a": 1}] * 60_000,
    ),
    "allOf": ({"items": {"allOf": [COMMON] * 9_000}}, NUMBERS),
    "anyOf": ({"items": {"not": {"anyOf": [{"type": "string"}] * 9_000}}}, NUMBERS),
    "contains": ({"allOf": [{"contains": False, "minContains": 0}] * 9_000}, NUMBERS),
    "items below allOf": ({"allOf": [{"items": COMMON}] * 9_000}, NUMBERS),
    "references": (
        {
            "$defs": {"a": {"properties": {"x": {"items": COMMON}}}},
            "allOf": [{"$ref": "#/$defs/a"}] * 9_000,
        },
        {"x": NUMBERS},
    ),
    "backtracking": ({"not": {"pattern": "(?:a(?=a*c)|a)*b$"}}, "a" * 900_000),
    "enum of several kinds": ({"items": {"enum": [*range(9_000), "a"]}}, [8_999] * 60_000),
    "counted repeat": ({"pattern": "[a-z]*[a0-9][a-z]{5000}[^a-z]"}, "ab" * 30_000),
    "counted repeats": (
        {"allOf": [{"pattern": rf"\w*[a\d]\w{{{n}}}\W"} for n in range(300, 340)]},
        "ab" * 30_000,
    ),
    "counted repeat of names": (
        {"patternProperties": {"[a-z]*[a0-9][a-z]{5000}[^a-z]": {}}},
        {"ab" * 30_000: 1},
    ),
}


@pytest.mark.parametrize(("schema", "payload"), HEAVY.values(), ids=HEAVY.keys())
def test_no_keyword_makes_a_check_long(schema, payload):
    """One accepted request must not hold up the others."""
    begun = time.process_time()
    [(_, message)] = faults(schema, payload)
    assert time.process_time() - begun < 5
    assert "too many steps" in message


def test_ordinary_large_payloads_are_not_taken_for_heavy_ones():
    compiled({"items": {"enum": [f"c{n}" for n in range(300)]}}).check(["c7"] * 60_000)
    compiled({"patternProperties": {"^a[0-9]+b": COMMON, "^x-": {}}}).check(KEYS)
    compiled({"items": {"pattern": "^(?!x)[a-z]+$"}}).check(["abcdefgh"] * 30_000)
    compiled({"uniqueItems": True}).check(NUMBERS)
    compiled({"items": {"enum": [*(f"c{n}" for n in range(300)), None]}}).check(["c7"] * 60_000)
    uuid = "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"
    compiled({"items": {"pattern": uuid}}).check(["01a2289e-15b4-7fe8-b322-12e246bc514c"] * 24_000)
    compiled({"items": {"pattern": "^[A-Za-z_][A-Za-z0-9_]{0,62}$"}}).check(["name_12"] * 60_000)
    compiled({"pattern": "^[ACGT]{1,5000}$"}).check("ACGT" * 1200)


def test_what_is_refused_again_and_again_is_compiled_once(monkeypatch):
    """A tiny payload must not cost what its schema's first compilation did, each time."""
    check = compiled({"properties": {f"p{n}": {"type": "string"} for n in range(300)}})
    made = []
    true_compile = payloads._compile
    monkeypatch.setattr(payloads, "_compile", lambda *a: made.append(1) or true_compile(*a))
    large = {f"p{n}": n for n in range(300)}
    for _ in range(3):
        with pytest.raises(PayloadInvalid):
            check.check(large)
    assert len(made) <= 1


def test_a_schema_of_hundreds_of_models_is_let_in():
    models = {
        f"M{n}": {
            "type": "object",
            "properties": {
                f"f{m}": {"anyOf": [{"$ref": f"#/$defs/M{(n * 7 + m) % 300}"}, {"type": "null"}]}
                for m in range(20)
            },
        }
        for n in range(300)
    }
    compiled({"$defs": models, "$ref": "#/$defs/M0"}).check({"f1": {"f2": {"f3": None}}})


@pytest.mark.parametrize(
    "schema",
    [
        {"allOf": [{}] * 200_000},
        {"patternProperties": {f"^a{n}(b|c)+$": {} for n in range(30_000)}},
        {"enum": [{"a": n} for n in range(60_000)]},
    ],
    ids=["subschemas", "patterns", "values"],
)
def test_a_schema_too_large_to_compile_is_refused_at_once(schema):
    begun = time.process_time()
    with pytest.raises(ValidationFailed, match="too large"):
        check_schema(schema)
    assert time.process_time() - begun < 5


def test_a_job_that_has_seen_many_shapes_of_payload_still_takes_new_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What was worked out for earlier payloads must not count against the next one."""
    monkeypatch.setattr(costs, "MAX_PLANNED", 150)
    names = [f"n{n}" for n in range(60)]
    branches = {name: {"properties": {name: {"type": "integer"}}} for name in names}
    check = compile_schema(json.dumps({"properties": branches}))
    for name in names:
        check.check({name: {name: 1}})
