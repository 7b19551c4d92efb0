"""What a check may cost: the ceiling that needs no look at the payload lies above the estimate."""

from __future__ import annotations

import json
import math
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from jobroom.domain.costs import Ceiling, Estimate
from jobroom.domain.places import Places
from jobroom.domain.weights import Weights

LEAVES = st.sampled_from(
    [
        {"type": "integer"},
        {"minimum": 1, "multipleOf": 0.1},
        {"pattern": "^[a-z]{3}"},
        {"enum": [1, 2.5, {"a": [1, 2]}]},
        {"const": 1.5},
        {"required": ["a", "b"]},
        {"uniqueItems": True},
    ]
)


def _around(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    named = st.dictionaries(st.sampled_from("abc"), inner, max_size=3)
    return st.one_of(
        st.fixed_dictionaries({"allOf": st.lists(inner, min_size=1, max_size=3)}),
        st.fixed_dictionaries({"properties": named, "additionalProperties": inner}),
        st.fixed_dictionaries({"items": inner, "contains": inner}),
        st.fixed_dictionaries({"patternProperties": named, "propertyNames": inner}),
        st.fixed_dictionaries({"unevaluatedProperties": inner, "anyOf": st.just([{}])}),
    )


SCHEMAS = st.recursive(LEAVES, _around, max_leaves=12)
PAYLOADS = st.recursive(
    st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: (
        st.lists(inner, max_size=6) | st.dictionaries(st.sampled_from(["a", "b", "xyz"]), inner)
    ),
    max_leaves=30,
)


@given(SCHEMAS, PAYLOADS)
def test_the_ceiling_for_a_length_lies_above_the_estimate_for_any_payload_of_it(schema, payload):
    text = json.dumps(payload, ensure_ascii=False, separators=(",", ":"))
    places = Places(schema)
    weights = Weights(places)
    price = Estimate(places, weights.costliest()[0]).price(payload, math.inf)
    assert price is not None
    assert price.total <= Ceiling(places, weights.whole(schema)).of(len(text))


def test_no_length_bounds_a_pattern_that_may_backtrack():
    schema = {"properties": {"a": {"pattern": "^(?=a)a*$"}}}
    assert Ceiling(Places(schema), 2).of(2) == math.inf
