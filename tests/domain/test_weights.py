"""What a schema asks for before it is compiled: levels and references that multiply."""

from __future__ import annotations

import itertools
import math

import pytest

from jobroom.domain.places import Places
from jobroom.domain.weights import Weights

LIMIT = 1_000


def weigh(schema):
    return Weights(Places(schema)).whole(schema)


def unfold(schema, limit=LIMIT):
    return Weights(Places(schema)).unfold(limit)


def to(name):
    return {"$ref": f"#/$defs/{name}"}


def chain(length, **keywords):
    """Definitions of which each uses the next one twice."""
    defs = {f"d{n}": {"anyOf": [to(f"d{n + 1}")] * 2} | keywords for n in range(length)}
    return {"$defs": defs | {f"d{length}": {}}, **to("d0")}


def test_a_schema_weighs_what_its_references_multiply_to():
    both = [{"$ref": "#/$defs/a~1b"}, {"$ref": "#/$defs/a~1b"}]
    assert weigh({"$defs": {"a/b": {"type": "string"}}, "allOf": both}) == 5
    assert weigh({"$defs": {"unused": {"anyOf": [{}] * 50}}}) == 1
    assert weigh(True) == 1
    chain = {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n - 1}"}] * 2} for n in range(1, 40)}
    assert weigh({"$defs": {"d0": {}, **chain}, "$ref": "#/$defs/d39"}) > 2**39


@pytest.mark.parametrize(
    "schema",
    [
        {"not": {"$ref": "#"}},
        {"$dynamicRef": "#x"},
        {"allOf": [{"$ref": "#/allOf/0"}]},
    ],
)
def test_what_recurs_weighs_without_end(schema):
    assert weigh(schema) == math.inf


def test_a_very_long_chain_of_references_is_weighed_without_recursion_error():
    chain = {f"d{n}": {"$ref": f"#/$defs/d{n + 1}"} for n in range(5000)}
    assert weigh({"$defs": {**chain, "d5000": {}}, "$ref": "#/$defs/d0"}) == math.inf


def test_only_what_stands_beside_unevaluated_is_kept_again():
    assert unfold(chain(30)) == (0, None)
    assert (
        unfold({"properties": {"a": {"allOf": [{}, {}]}}, "unevaluatedProperties": False})[0] == 1
    )
    assert unfold({"allOf": [{"anyOf": [{}]}, {}], "unevaluatedItems": False})[0] == 4


@pytest.mark.parametrize("keyword", ["unevaluatedProperties", "unevaluatedItems"])
def test_references_below_unevaluated_are_counted_as_often_as_they_are_met(keyword):
    copies, culprit = unfold(chain(4, **{keyword: False}))
    assert culprit is None
    assert copies > 2**5
    schema = chain(30, **{keyword: False})
    copies, culprit = unfold(schema)
    assert LIMIT < copies < 2 * LIMIT
    assert culprit in schema["$defs"].values()


def test_definitions_that_all_refer_to_one_another_are_counted_without_end():
    """Each path that meets no definition twice is kept: there are more than n! of them."""
    alike = {"anyOf": [to(f"d{n}") for n in range(9)], "unevaluatedProperties": False}
    defs = {f"d{n}": {**alike} for n in range(9)}
    assert unfold({"$defs": defs, **to("d0")})[1] is not None


def test_a_schema_that_recurs_through_its_members_is_kept_once():
    node = {"properties": {"next": to("node")}, "unevaluatedProperties": False}
    assert unfold({"$defs": {"node": node}, **to("node")}) == (1, None)


@pytest.mark.parametrize("keyword", ["allOf", "anyOf", "oneOf"])
def test_each_level_of_unevaluated_more_than_doubles_what_is_met_again(keyword):
    found = []
    schema = {"type": "object"}
    for _ in range(12):
        schema = {keyword: [schema], "unevaluatedProperties": False}
        found.append(Weights(Places(schema)).excess(schema))
    assert all(later > 2 * former for former, later in itertools.pairwise(found))


def test_members_met_again_by_the_level_above_count_with_all_that_is_in_them():
    schema = {}
    for _ in range(12):
        schema = {"allOf": [{"unevaluatedProperties": schema}], "unevaluatedProperties": False}
    assert Weights(Places(schema)).costliest()[0] > 2**12


def test_without_unevaluated_nothing_is_met_again():
    schema = {"allOf": [{"anyOf": [{"properties": {"a": {}}}] * 9}] * 9}
    assert Weights(Places(schema)).costliest() == (0, schema)
