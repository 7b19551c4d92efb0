"""What a check of one payload by one schema may cost at most, told before it is begun.

Each value of the payload is met once, together with all the subschemas that may be applied to it
and how often; so telling is linear in the payload, whatever the keywords. Prices are nanoseconds.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

from jobroom.domain.patterns import states_of
from jobroom.domain.places import Places
from jobroom.domain.schemas import subschemas
from jobroom.domain.weights import UNEVALUATED

Roots = tuple[tuple[int, float], ...]

IN_PLACE = frozenset(
    {"allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "dependencies"}
)
BY_NAME = frozenset({"properties", "prefixItems"})
REST_OF_NAMES = frozenset({"additionalProperties"})
ALL_NAMES = frozenset({"patternProperties", "unevaluatedProperties"})
REST_OF_ITEMS = frozenset({"items", "additionalItems"})
ALL_ITEMS = frozenset({"contains", "unevaluatedItems"})
LISTS = ("required", "dependentRequired", "dependencies", "dependentSchemas", "type")
BOUNDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")

MAX_PLANNED = 300_000
_REPEATS = 20.0
_TIMES_OF_UNEVALUATED = 3
_VISIT, _ENTRY, _COMPARE, _DIVIDE, _DIVIDE_EXTREME = 15, 20, 1_800, 3_000, 60_000
_MATCH, _MATCH_CHARACTER, _MATCH_CHARACTER_OF_LARGE = 90, 4, 30
_MATCH_STATE = 25
_SEARCH_MEMBER, _SEARCH_CHARACTER = 25, 0.1
_COMPARE_PLAIN = 300
_LOOKS_AROUND = re.compile(r"\(\?[=!<>]|\\[1-9k]|[*+?}]\+|\\[GKzZbB]")
_ORDINARY = 2**53
_TINY = 1e-15
_LONG_PATTERN = 200
_COPY_BYTES = 20_000
_BOOLEAN: dict[str, Any] = {}


class Price:
    """The sum so far, and how many texts meet patterns that may backtrack."""

    def __init__(self) -> None:
        self.total = 0.0
        self.backtracking_texts = 0.0
        self.backtracking_characters = 0.0


class _Part:
    """What one subschema costs by itself, for each sort of value."""

    def __init__(self, schema: dict[str, Any]) -> None:
        self.value = _VISIT + _ENTRY * sum(_length(schema.get(keyword)) for keyword in LISTS)
        self.whole = self.fraction = self.extreme = self.container = 0
        self._compare(schema)
        self.extreme += _COMPARE * sum(keyword in schema for keyword in BOUNDS)
        if (divisor := schema.get("multipleOf")) is not None:
            is_tame = isinstance(divisor, int | float) and _TINY < divisor < _ORDINARY
            self.whole += _DIVIDE if is_tame else _DIVIDE_EXTREME
            self.fraction += _DIVIDE if is_tame else _DIVIDE_EXTREME
            self.extreme += _DIVIDE_EXTREME
        self.text = _Matching([schema["pattern"]] if "pattern" in schema else [])
        self.name = _Matching(list(schema.get("patternProperties") or ()))
        self.is_unique = schema.get("uniqueItems") is True

    @property
    def dearest(self) -> float:
        """What the dearest value costs, apart from its characters and its equals."""
        number = max(self.whole, self.fraction, self.extreme)
        return self.value + number + self.container + self.text.text + self.name.text

    def _compare(self, schema: dict[str, Any]) -> None:
        members = list(schema["enum"]) if isinstance(schema.get("enum"), list) else []
        members += [schema["const"]] if "const" in schema else []
        self.value += _VISIT + len(members) // 100
        numbers = [member for member in members if isinstance(member, int | float)]
        is_plain = all(isinstance(n, int) and abs(n) < _ORDINARY for n in numbers)
        self.whole += 0 if is_plain else _COMPARE * len(numbers)
        self.fraction += _COMPARE * len(numbers)
        self.extreme += _COMPARE * len(numbers)
        inside = sum(size_of(member) for member in members if isinstance(member, dict | list))
        self.container += _COMPARE * inside
        if _is_mixed(members):
            # Members of several kinds are compared one by one until one is equal; those of one
            # kind are looked up.
            texts = sum(len(member) for member in members if isinstance(member, str))
            self.value += int(_SEARCH_MEMBER * len(members) + _SEARCH_CHARACTER * texts)
            self.whole += _COMPARE_PLAIN * len(numbers) if is_plain else 0


class _Matching:
    """What it costs to try some patterns on one text."""

    def __init__(self, patterns: list[str]) -> None:
        self.backtracking = sum(1 for one in patterns if _LOOKS_AROUND.search(one))
        self.text = _MATCH * len(patterns)
        large = sum(1 for one in patterns if len(one) > _LONG_PATTERN or re.search(r"[{\\\[]", one))
        self.character = _MATCH_CHARACTER * (len(patterns) - large)
        self.character += _MATCH_CHARACTER_OF_LARGE * large
        # An ambiguous pattern is in many states at once, and each character moves them all.
        found = [states_of(one) for one in patterns]
        self.states = _MATCH_STATE * sum(full for full, _ in found)
        self.states_by_length = _MATCH_STATE * sum(of_one for _, of_one in found)


class _Plan:
    """All that is applied to one value: the prices summed, and what goes on to its children."""

    def __init__(self, met: list[tuple[dict[str, Any], _Part, float]]) -> None:
        self.value = sum(part.value * n for _, part, n in met)
        self.whole = sum(part.whole * n for _, part, n in met)
        self.fraction = sum(part.fraction * n for _, part, n in met)
        self.extreme = sum(part.extreme * n for _, part, n in met)
        self.container = sum(part.container * n for _, part, n in met)
        self.is_unique = sum(part.is_unique * n for _, part, n in met)
        self.text = [sum(_prices(p.text)[i] * n for _, p, n in met) for i in range(5)]
        self.name = [sum(_prices(p.name)[i] * n for _, p, n in met) for i in range(5)]
        self.rest_of_names: Counter[int] = Counter()
        self.rest_of_items: Counter[int] = Counter()
        self.names: Counter[int] = Counter()
        self.by_name: dict[str | int, Counter[int]] = {}
        self.next: dict[Any, _Plan] = {}


def _prices(matching: _Matching) -> tuple[int, int, int, int, int]:
    one = matching
    return one.text, one.character, one.backtracking, one.states, one.states_by_length


class Estimate:
    """The prices of one schema; they are worked out as payloads ask for them."""

    def __init__(self, places: Places, excess: float) -> None:
        self._root = places.root
        self._places = places
        # How often references repeat it is the guard's to bound, but not how often levels do.
        self._repeats = max(_REPEATS, excess)
        self._by_id: dict[int, Any] = {}
        self._parts: dict[int, _Part] = {}
        self._plans: dict[Roots, _Plan] = {}
        self._planned = 0

    def price(self, payload: Any, budget: float) -> Price | None:
        """What a check of it may cost; None when that is more than ``budget``."""
        if self._planned > MAX_PLANNED // 2:
            # What earlier payloads made us work out must not count against this one.
            self._plans.clear()
            self._planned = 0
        price = Price()
        waiting = [(self._plan(Counter({self._known(self._root): 1})), payload)]
        while waiting:
            plan, value = waiting.pop()
            self._charge(plan, value, price)
            if price.total > budget or self._planned > MAX_PLANNED:
                return None
            if isinstance(value, dict):
                for name, child in value.items():
                    waiting.append((self._below(plan, name, "name"), child))
                    _match(plan.name, name, price)
                    self._charge(self._below(plan, None, "names"), name, price)
            elif isinstance(value, list):
                waiting.extend(
                    (self._below(plan, index, "item"), child) for index, child in enumerate(value)
                )
        return price

    def _charge(self, plan: _Plan, value: Any, price: Price) -> None:
        price.total += plan.value
        if isinstance(value, str):
            _match(plan.text, value, price)
        elif isinstance(value, list | dict):
            if plan.container:
                price.total += plan.container
            if plan.is_unique and isinstance(value, list):
                price.total += plan.is_unique * _COMPARE * _count_extreme(value) ** 2 / 2
        elif isinstance(value, int):
            price.total += plan.whole if abs(value) < _ORDINARY else plan.extreme
        elif isinstance(value, float):
            price.total += plan.fraction if _TINY < abs(value) < _ORDINARY else plan.extreme

    def _below(self, plan: _Plan, name: str | int | None, kind: str) -> _Plan:
        key = (kind, name if name in plan.by_name else None)
        found = plan.next.get(key)
        if found is None:
            if kind == "names":
                roots = plan.names
            else:
                rest = plan.rest_of_names if kind == "name" else plan.rest_of_items
                roots = plan.by_name[key[1]] if key[1] is not None else rest
            found = plan.next[key] = self._plan(roots)
        return found

    def _plan(self, roots: Counter[int]) -> _Plan:
        key = tuple(sorted(roots.items()))
        if key not in self._plans:
            self._plans[key] = self._planned_for(roots)
        return self._plans[key]

    def _planned_for(self, roots: Counter[int]) -> _Plan:
        times = self._times(roots)
        self._planned += 1 + len(times)
        met = [(self._by_id[known], self._part(known), n) for known, n in times.items()]
        plan = _Plan(met)
        owners: dict[str | int, list[tuple[Counter[int], Counter[int]]]] = {}
        for schema, _, n in met:
            self._go_on(plan, schema, n, owners)
        for name, owned in owners.items():
            rest = plan.rest_of_items if isinstance(name, int) else plan.rest_of_names
            below = Counter(rest)
            for own, without in owned:
                below.update(own)
                below.subtract(without)
            plan.by_name[name] = +below
            self._planned += len(below)
            if self._planned > MAX_PLANNED:
                break
        return plan

    def _go_on(
        self,
        plan: _Plan,
        schema: dict[str, Any],
        times: float,
        owners: dict[str | int, list[tuple[Counter[int], Counter[int]]]],
    ) -> None:
        rest: dict[type, Counter[int]] = {str: Counter(), int: Counter()}
        for path, inner in subschemas(schema):
            known, n = self._root_below(inner, times)
            keyword = path[0]
            if keyword in REST_OF_NAMES | ALL_NAMES:
                plan.rest_of_names[known] += n
                rest[str][known] += n if keyword in REST_OF_NAMES else 0
            elif keyword in REST_OF_ITEMS | ALL_ITEMS:
                plan.rest_of_items[known] += n
                rest[int][known] += n if keyword in REST_OF_ITEMS else 0
            elif keyword == "propertyNames":
                plan.names[known] += n
        for path, inner in subschemas(schema):
            if path[0] in BY_NAME:
                is_schema = isinstance(inner, dict)
                own = Counter(dict([self._root_below(inner, times)])) if is_schema else Counter()
                owners.setdefault(path[1], []).append((own, rest[type(path[1])]))

    def _root_below(self, schema: Any, times: float) -> tuple[int, Any]:
        return self._known(schema), min(times, self._repeats)

    def _times(self, roots: Counter[int]) -> dict[int, float]:
        """How often each subschema is applied to the value itself; what recurs counts once."""
        order: list[int] = []
        seen: set[int] = set()
        for root in roots:
            self._visit(root, seen, order)
        place = {known: index for index, known in enumerate(order)}
        times = {known: float(roots.get(known, 0)) for known in reversed(order)}
        for known in reversed(order):
            n = times[known] * (
                _TIMES_OF_UNEVALUATED if UNEVALUATED & self._by_id[known].keys() else 1
            )
            for inner in self._in_place(self._by_id[known]):
                if place[inner] < place[known]:
                    times[inner] = min(times[inner] + n, 1e30)
        return times

    def _visit(self, root: int, seen: set[int], order: list[int]) -> None:
        stack: list[tuple[int, Iterator[int]]] = []
        entered = iter((root,))
        stack.append((-1, entered))
        while stack:
            known, inner = stack[-1]
            following = next((one for one in inner if one not in seen), None)
            if following is not None:
                seen.add(following)
                stack.append((following, self._in_place(self._by_id[following])))
                continue
            stack.pop()
            if known != -1:
                order.append(known)

    def _in_place(self, schema: dict[str, Any]) -> Iterator[int]:
        for path, inner in subschemas(schema):
            if path[0] in IN_PLACE:
                yield self._known(inner)
        yield from map(self._known, self._places.followed(schema))

    def _known(self, schema: Any) -> int:
        kept = schema if isinstance(schema, dict) else _BOOLEAN
        return id(self._by_id.setdefault(id(kept), kept))

    def _part(self, known: int) -> _Part:
        if known not in self._parts:
            self._parts[known] = _Part(self._by_id[known])
        return self._parts[known]


class Ceiling:
    """What a check by a schema costs at most for any payload of so many characters.

    Far above the estimate, and told without a look at the payload: most payloads are so small
    that even this is affordable. ``weight`` is how many subschemas one value may meet.
    """

    def __init__(self, places: Places, weight: float) -> None:
        parts = [_Part(one) for one in places.reachable]
        met = _TIMES_OF_UNEVALUATED * weight
        self._value = met * max(part.dearest for part in parts)
        self._character = met * max(
            sum(m.character + m.states for m in (p.text, p.name)) for p in parts
        )
        self._square = met * _COMPARE / 2 if any(part.is_unique for part in parts) else 0.0
        self._is_endless = any(p.text.backtracking + p.name.backtracking for p in parts)

    def of(self, characters: float) -> float:
        """Nanoseconds; infinite where no length of the payload bounds them."""
        if self._is_endless:
            return math.inf
        return characters * (self._value + self._character + characters * self._square)


def size_of(value: Any) -> int:
    """How many values a JSON value holds, itself and names included."""
    size = 0
    waiting = [value]
    while waiting:
        one = waiting.pop()
        size += 1
        if isinstance(one, list):
            waiting.extend(one)
        elif isinstance(one, dict):
            size += len(one)
            waiting.extend(one.values())
    return size


def weight_in_memory(places: Places, copies: int, characters: int) -> int:
    """About how many bytes it takes when compiled, as measured, rounded up."""
    schemas, patterns, values = burden(places)
    links = sum(len(places.followed(one)) for one in places.reachable)
    known = 3_500 * schemas + 14_000 * links + 27_000 * patterns + 2_000 * values
    return 8 * characters + 450 * size_of(places.root) + known + _COPY_BYTES * copies


def burden(places: Places) -> tuple[int, int, int]:
    """How many subschemas, patterns, and values in other keywords, a schema is written with."""
    written: list[dict[str, Any]] = [places.root]
    schemas = 1
    for one in written:
        inner = [schema for _, schema in subschemas(one)]
        schemas += len(inner)
        written.extend(schema for schema in inner if isinstance(schema, dict))
    known = {id(one) for one in written}
    elsewhere = [one for one in places.reachable if id(one) not in known]
    patterns = values = 0
    for one in [*written, *elsewhere]:
        patterns += ("pattern" in one) + _length(one.get("patternProperties"))
        values += sum(size_of(one[k]) for k in ("enum", "const", *LISTS[:2]) if k in one)
    return schemas + len(elsewhere), patterns, values


def _match(prices: list[float], text: str, price: Price) -> None:
    if prices[0]:
        price.total += prices[0] + prices[1] * len(text)
        price.total += min(prices[3], prices[4] * len(text)) * len(text)
        price.backtracking_texts += prices[2]
        price.backtracking_characters += prices[2] * len(text)


def _is_mixed(members: list[Any]) -> bool:
    """Whether the validator must search an enum: it hashes texts alone or integers alone."""
    kinds = {type(member) for member in members} - {type(None)}
    return len(kinds) > 1 or (len(members) > len(kinds) > 0 and bool(kinds & {list, dict}))


def _count_extreme(value: Any) -> int:
    count = 0
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, list):
            waiting.extend(one)
        elif isinstance(one, dict):
            waiting.extend(one.values())
        elif isinstance(one, int | float):
            count += abs(one) >= _ORDINARY
    return count


def _length(value: Any) -> int:
    return len(value) if isinstance(value, list | dict) else 0
