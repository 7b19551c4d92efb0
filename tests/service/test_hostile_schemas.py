"""Schemas that multiply when compiled or checked are refused; those of real life are not."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time

import pytest
from pydantic import BaseModel, ConfigDict

from jobroom.errors import PayloadInvalid, ValidationFailed
from jobroom.service import payloads
from jobroom.service.payloads import SchemaCache, check_schema, compile_schema

MEMBERS, ITEMS = "unevaluatedProperties", "unevaluatedItems"
DRAFT_2019 = "https://json-schema.org/draft/2019-09/schema"


def to(name):
    return {"$ref": f"#/$defs/{name}"}


def chain(length, link, last):
    """Definitions of which each is made of the next one."""
    defs = {f"d{n}": link(to(f"d{n + 1}")) for n in range(length)}
    return {"$defs": defs | {f"d{length}": last}, **to("d0")}


def nest(levels, link):
    schema = {}
    for _ in range(levels):
        schema = link(schema)
    return schema


def all_to_all(others):
    """Nine definitions of which each refers to all: n! paths lead through them."""
    alike = [to(f"d{n}") for n in range(9)]
    return {"$defs": {f"d{n}": {"anyOf": alike, **others} for n in range(9)}, **to("d0")}


MULTIPLYING = {
    **{
        f"{keyword} {unevaluated}": chain(
            24, lambda to, k=keyword, u=unevaluated: {k: [to, to], u: False}, {}
        )
        for keyword in ("anyOf", "oneOf", "allOf")
        for unevaluated in (MEMBERS, ITEMS)
    },
    "if": chain(24, lambda to: {"if": to, "then": to, MEMBERS: False}, {}),
    "dependentSchemas": chain(
        24, lambda to: {"dependentSchemas": {"a": to, "b": to}, MEMBERS: False}, {}
    ),
    "one at the top": {**chain(24, lambda to: {"allOf": [to, to]}, {}), MEMBERS: False},
    "a middle": chain(24, lambda to: {"anyOf": [{"allOf": [to]}, to], MEMBERS: False}, {}),
    "all to all": all_to_all({MEMBERS: False}),
    "nested allOf": nest(40, lambda inner: {"allOf": [inner], MEMBERS: False}),
    "nested if": nest(40, lambda inner: {"if": inner, "then": {}, MEMBERS: False}),
    "nested members": nest(30, lambda inner: {"allOf": [{MEMBERS: inner}], MEMBERS: False}),
    "nested items": nest(30, lambda inner: {"allOf": [{ITEMS: inner}], ITEMS: False}),
    "by anchor": {
        "$defs": {
            f"d{n}": {"$anchor": f"a{n}", "anyOf": [{"$ref": f"#a{n + 1}"}] * 2, MEMBERS: False}
            for n in range(24)
        }
        | {"end": {"$anchor": "a24"}},
        "$ref": "#a0",
    },
    "by identifier": {
        "$defs": {
            f"d{n}": {"$id": f"/d{n}", "anyOf": [{"$ref": f"/d{n + 1}"}] * 2, MEMBERS: False}
            for n in range(24)
        }
        | {"end": {"$id": "/d24"}},
        "$ref": "/d0",
    },
    "outside $defs": {
        "x": {
            f"d{n}": {"anyOf": [{"$ref": f"#/x/d{n + 1}"}] * 2, MEMBERS: False} for n in range(24)
        }
        | {"d24": {}},
        "$ref": "#/x/d0",
    },
}


@pytest.mark.parametrize("schema", MULTIPLYING.values(), ids=MULTIPLYING.keys())
def test_a_schema_whose_unevaluated_multiplies_is_refused_at_once_with_its_place(schema):
    """Some 2 KB of text; compiled or checked, they would hold the interpreter for minutes."""
    begun = time.process_time()
    with pytest.raises(ValidationFailed, match="unevaluated") as caught:
        check_schema(schema, at="/schema")
    assert time.process_time() - begun < 2
    [fault] = caught.value.errors
    assert fault.message == payloads._TOO_MANY_COPIES
    place = schema
    assert fault.pointer.startswith("/schema/")
    for step in fault.pointer.split("/")[2:]:
        place = place[int(step) if isinstance(place, list) else step]
    assert fault.pointer.rpartition("/")[2] in {MEMBERS, ITEMS}


@pytest.mark.parametrize("schema", MULTIPLYING.values(), ids=MULTIPLYING.keys())
def test_a_stored_schema_from_before_the_limit_is_refused_when_it_is_read(schema):
    """An older database may hold one: submitting and firing must end, with a sentence."""
    begun = time.process_time()
    with pytest.raises(ValidationFailed, match="The schema cannot be used at /"):
        SchemaCache().get(1, 1, json.dumps(schema))
    assert time.process_time() - begun < 2


RECURRING = {
    "anyOf": [
        {"properties": {"c": {"$ref": "#"}, "z": False}},
        {"properties": {"c": {"$ref": "#"}, "z": False}, "minProperties": 1},
    ]
}


def recurring(reference, keyword="$ref"):
    text = json.dumps(RECURRING)
    return json.loads(text.replace('"$ref": "#"', f'"{keyword}": "{reference}"'))


OUT_OF_SIGHT = {
    "outside $defs": {"x": {"d": recurring("#/x/d")}, "$ref": "#/x/d"},
    "something light of the same name": {
        "$defs": {
            "d": {},
            "a": {"$id": "http://x/a", "$defs": {"d": recurring("#/$defs/d")}, **to("d")},
        },
        "$ref": "http://x/a",
    },
    "another draft": {
        "$defs": {
            "a": {"$id": "http://x/a", "$schema": DRAFT_2019, **recurring("#", "$recursiveRef")}
        },
        "$ref": "http://x/a",
    },
}


@pytest.mark.parametrize("schema", OUT_OF_SIGHT.values(), ids=OUT_OF_SIGHT.keys())
def test_no_place_or_spelling_hides_a_reference_from_the_guard(schema):
    """Each level of the payload would be checked twice by the one above."""
    payload = {"z": 1}
    for _ in range(97):
        payload = {"c": payload}
    check_schema(schema)
    begun = time.process_time()
    try:
        compile_schema(json.dumps(schema)).check(payload)
    except PayloadInvalid:
        pass
    else:
        # Of other drafts nothing is known here: their keywords say nothing.
        assert "$recursiveRef" in json.dumps(schema)
    assert time.process_time() - begun < 5


def test_the_validator_is_never_given_more_than_a_small_schema_may_take():
    """What passes just below the limit takes some ten megabytes, and the cache knows."""
    worst = 0
    for length in range(2, 12):
        schema = chain(length, lambda to: {"anyOf": [to, to], MEMBERS: False}, {})
        try:
            check_schema(schema)
        except ValidationFailed:
            break
        text = json.dumps(schema)
        worst = compile_schema(text).weigh_in_memory(len(text))
    else:
        pytest.fail("none was refused")
    assert 1_000_000 < worst < 50_000_000


def test_the_cache_weighs_what_unevaluated_makes_of_a_schema():
    text = json.dumps(chain(6, lambda to: {"anyOf": [to, to], MEMBERS: False}, {}))
    heavy = compile_schema(text).weigh_in_memory(len(text))
    plain = text.replace(MEMBERS, "additionalProperties")
    assert heavy > 5 * compile_schema(plain).weigh_in_memory(len(plain))


class Closed(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Atom(Closed):
    element: str
    charge: int = 0


class Bond(Closed):
    atoms: tuple[Atom, Atom]
    order: float = 1.0


class Molecule(Closed):
    atoms: list[Atom]
    bonds: list[Bond] = []
    parts: list[Molecule] = []


class Order(Closed):
    subject: Molecule | Atom
    by_name: dict[str, Molecule] = {}


WATER = {"atoms": [{"element": "H"}], "bonds": [{"atoms": [{"element": "H"}, {"element": "O"}]}]}
LAYERS = {
    **{
        f"layer{n}": {
            "type": "object",
            "allOf": [to(f"layer{n + 1}"), to("stamped")],
            "properties": {f"p{n}": {"type": "string"}},
        }
        for n in range(5)
    },
    "layer5": {"properties": {"id": {"type": "integer"}}, "required": ["id"]},
    "stamped": {"properties": {"at": {"type": "string", "format": "date-time"}}},
}
KINDS = {
    f"kind{n}": {
        "allOf": [to("layer3")],
        "properties": {"kind": {"const": n}, f"f{n}": {}},
        "required": ["kind"],
        MEMBERS: False,
    }
    for n in range(40)
}
TREE = {
    "allOf": [to("stamped")],
    "properties": {"value": {}, "children": {"items": to("tree")}},
    MEMBERS: False,
}
EXTRA = {"extra": 1}
REAL = {
    "pydantic": (Order.model_json_schema(), {"subject": WATER | {"parts": [WATER]}}, EXTRA),
    "closed at the end": (
        {"$defs": LAYERS, **to("layer0"), MEMBERS: False},
        {"id": 1, "p0": "a", "p4": "b", "at": "now"},
        EXTRA,
    ),
    "a closed tree": (
        {"$defs": {**LAYERS, "tree": TREE}, **to("tree")},
        {"at": "x", "children": [{"value": n, "children": [{"value": 1}]} for n in range(500)]},
        EXTRA,
    ),
    "closed kinds": (
        {"$defs": {**LAYERS, **KINDS}, "oneOf": [to(f"kind{n}") for n in range(40)]},
        {"kind": 7, "id": 1, "f7": 1, "p3": "a"},
        EXTRA,
    ),
    "conditions": (
        {
            "$defs": LAYERS,
            "allOf": [
                {
                    "if": {"properties": {"mode": {"const": n}}, "required": ["mode"]},
                    "then": {**to("layer2"), "properties": {f"only{n}": {}}},
                }
                for n in range(20)
            ],
            "properties": {"mode": {"type": "integer"}},
            MEMBERS: False,
        },
        {"mode": 3, "id": 1, "only3": 1, "p2": "a"},
        EXTRA,
    ),
    "closed at three levels": (
        nest(
            3,
            lambda inner: {
                "allOf": [{"properties": {"a": {"type": "object"}}}],
                "properties": {"inner": inner},
                MEMBERS: False,
            },
        ),
        {"a": {}, "inner": {"a": {}, "inner": {}}},
        EXTRA,
    ),
    "a tuple with a typed end": (
        {"allOf": [{"prefixItems": [{"type": "string"}]}], ITEMS: {"type": "integer"}},
        ["a", *range(5_000)],
        ["a", 1, "b"],
    ),
    "an OpenAPI document": (
        {
            "components": {"schemas": {"A": {"type": "object"}}, "x-example": {"$ref": "#/no"}},
            "$ref": "#/components/schemas/A",
        },
        {"a": 1},
        [],
    ),
}


@pytest.mark.parametrize(("schema", "payload", "misfit"), REAL.values(), ids=REAL.keys())
def test_schemas_of_real_life_are_accepted_and_judge_payloads(schema, payload, misfit):
    check_schema(schema)
    check = compile_schema(json.dumps(schema))
    check.check(payload)
    with pytest.raises(PayloadInvalid):
        check.check(payload | misfit if misfit is EXTRA else misfit)


SEARCH = """
import json, resource, sys
resource.setrlimit(resource.RLIMIT_CPU, (20, 20))
resource.setrlimit(resource.RLIMIT_AS, (2**31, 2**31))
from jobroom.errors import JobroomError
from jobroom.service import payloads
for schema in json.load(sys.stdin):
    try:
        payloads.check_schema(schema)
        check = payloads.compile_schema(json.dumps(schema))
        for payload in ({}, {"a": {"a": {"b": []}}}, [[], [{}]], 1):
            try:
                check.check(payload)
            except JobroomError:
                pass
    except JobroomError:
        pass
"""


def random_schema(seed):
    """Definitions that refer to later ones and now and then to any, with all sorts of keywords."""
    chance = random.Random(seed)
    count = chance.randint(2, 12)

    def one(n):
        target = chance.randrange(count if chance.random() < 0.1 else n + 1, count + 1)
        return {"$ref": f"#/$defs/d{min(target, count)}"}

    def schema(n, depth=0):
        made = {}
        for keyword in chance.choices(KEYWORDS, k=chance.randint(1, 3)):
            inner = [
                schema(n, depth + 1) if depth < 3 and chance.random() < 0.3 else one(n)
                for _ in range(chance.randint(1, 3))
            ]
            is_list = keyword in {"allOf", "anyOf", "oneOf", "prefixItems"}
            is_map = keyword in {"properties", "patternProperties", "dependentSchemas"}
            named = dict(zip("abc", inner, strict=False))
            made[keyword] = inner if is_list else named if is_map else inner[0]
        if chance.random() < 0.7:
            made[chance.choice([MEMBERS, ITEMS])] = chance.choice([False, one(n)])
        return made

    defs = {f"d{n}": schema(n) for n in range(count)}
    return {"$defs": defs | {f"d{count}": {}}, **to("d0")}


KEYWORDS = [
    *("allOf", "anyOf", "oneOf", "if", "then", "else", "not", "properties", "patternProperties"),
    *("additionalProperties", "propertyNames", "items", "prefixItems", "contains"),
    *("dependentSchemas", "allOf", "anyOf"),
]


def test_no_random_schema_takes_long_or_much_memory():
    """In a process of its own, which ends when the work takes 20 seconds or 2 GB."""
    schemas = [random_schema(seed) for seed in range(200)]
    done = subprocess.run(
        [sys.executable, "-c", SEARCH],
        input=json.dumps(schemas),
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-500:]
