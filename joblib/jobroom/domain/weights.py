"""How much a schema asks for: of the one who compiles it, and of the one who checks by it.

``unevaluatedProperties`` and ``unevaluatedItems`` ask what every schema beside them has looked at.
The validator keeps a copy of all these for each such keyword, references written out; and a check
runs them again, at each level that has such a keyword, so that levels multiply.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import inf
from typing import Any

from jobroom.domain.places import Places
from jobroom.domain.schemas import DEFINITIONS, subschemas

UNEVALUATED = frozenset({"unevaluatedItems", "unevaluatedProperties"})
MAX_WEIGHED_DEPTH = 150
_MARKS = frozenset({"allOf", "anyOf", "oneOf", "if", "then", "else", "dependentSchemas", "$ref"})
_MET_AGAIN = frozenset({"allOf", "anyOf", "oneOf", "if"}) | UNEVALUATED
_MOST_ENTRIES_OF_ONE = 32
_ALONE = 8
"""As many schemas that recur cost as much as a copy does by itself."""

Weight = tuple[float, float]


class Weights:
    """The weights of the schemas of one document."""

    def __init__(self, places: Places) -> None:
        self._places = places
        self._asking = [one for one in places.reachable if UNEVALUATED & one.keys()]
        self._whole: dict[int, Weight] = {}
        self._local: dict[int, Weight] = {}
        self._plain: dict[int, Weight] = {}

    def whole(self, schema: Any) -> float:
        """How many subschemas one value may meet, references followed; infinite if they recur."""
        return _weigh(self._places, schema, self._whole)[0]

    def excess(self, schema: Any) -> float:
        """How many are met again for ``unevaluated…`` alone, before a reference is followed."""
        if not self._asking:
            return 0
        local = _weigh(None, schema, self._local)[0]
        return local - _weigh(None, schema, self._plain, repeats=False)[0]

    def costliest(self) -> tuple[float, dict[str, Any]]:
        """The greatest excess of all schemas, and the innermost schema that has it."""
        found = [(self.excess(one), one) for one in self._asking or [self._places.root]]
        return max(found, key=lambda one: one[0])

    def unfold(self, limit: int) -> tuple[int, dict[str, Any] | None]:
        """How many copies are kept for ``unevaluated…``; beyond the limit, with who asks for them.

        A reference is not written out inside itself. But the validator compiles anew, for each
        copy of what recurs, all that recurs with it.
        """
        total = 0
        again = max(_ALONE, 1 + sum(self.whole(one) == inf for one in self._places.reachable))
        for schema in self._asking:
            for copied, copies in _copies(self._places, schema):
                total += copies * (again if self.whole(copied) == inf else _ALONE)
                if total > limit * _ALONE:
                    return total // _ALONE, schema
        return total // _ALONE, None


def _copies(places: Places, root: dict[str, Any]) -> Iterator[tuple[Any, int]]:
    inside: set[int] = set()
    waiting: list[tuple[Any, bool]] = [(root, False)]
    while waiting:
        schema, is_left = waiting.pop()
        if is_left:
            inside.discard(id(schema))
        elif not isinstance(schema, dict) or id(schema) in inside:
            yield schema, 1
        else:
            entries = sum(1 for path, _ in subschemas(schema) if path[0] not in DEFINITIONS)
            yield schema, 1 + entries // _MOST_ENTRIES_OF_ONE
            inside.add(id(schema))
            waiting.append((schema, True))
            waiting += [(one, False) for path, one in subschemas(schema) if path[0] in _MARKS]
            waiting += [(one, False) for one in places.followed(schema)]


# No closure over the weights: one that calls itself would keep the schema until a collection.
def _weigh(
    places: Places | None,
    schema: Any,
    weights: dict[int, Weight],
    depth: int = 0,
    *,
    repeats: bool = True,
) -> Weight:
    """What a check meets, and what it meets again to tell what was evaluated."""
    if not isinstance(schema, dict):
        return 1, 1
    if id(schema) in weights:
        return weights[id(schema)]
    if depth > MAX_WEIGHED_DEPTH or (places and "$dynamicRef" in schema):
        return inf, inf
    weights[id(schema)] = inf, inf
    met = again = 1.0
    inside = [(path[0], one) for path, one in subschemas(schema) if path[0] not in DEFINITIONS]
    if places:
        inside += [("$ref", one) for one in places.followed(schema)]
    for keyword, one in inside:
        own, marked = _weigh(places, one, weights, depth + 1, repeats=repeats)
        met += own
        again += own if keyword in _MET_AGAIN else 0
        again += marked if keyword in _MARKS else 0
    if repeats and UNEVALUATED & schema.keys():
        met += again
    weights[id(schema)] = met, again
    return met, again
