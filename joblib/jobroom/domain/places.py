"""Where the references of a schema lead, and which schemas can be reached by them.

A reference counts as found only where there is one thing that it can mean, so that what is weighed
here is what the validator will follow. Addresses are compared more loosely than the validator
does: two that may be the same are taken for one, and then for none.
"""

from __future__ import annotations

import posixpath
import re
from typing import Any
from urllib.parse import unquote, urljoin, urlsplit

from jobroom.domain.schemas import DATA, HOLDS_NAMED, REFERENCES, containers, subschemas

_BASE = "json-schema:///"
_MOST_DYNAMIC = 64
"""So many places may a dynamic reference lead to; each of them is followed from each of those."""
_INDEX = re.compile(r"0|[1-9][0-9]{0,8}")
_PORT = re.compile(r":[0-9]*\Z")


class Places:
    """All that a reference in one schema may lead to."""

    def __init__(self, root: Any) -> None:
        self.root = root
        self._bases: dict[int, str] = {}
        self._resources: dict[str, dict[int, Any]] = {}
        self._anchors: dict[tuple[str, str], dict[int, Any]] = {}
        self._dynamic: dict[str, dict[int, Any]] = {}
        self._targets: dict[tuple[int, str], list[Any] | None] = {}
        self._enter()
        self.unresolved: tuple[dict[str, Any], str] | None
        """The first schema found, and its keyword, whose reference leads nowhere."""
        self.reachable: list[dict[str, Any]] = []
        """The schemas that are written as objects, the root first."""
        self._reach()

    def targets(self, schema: dict[str, Any], keyword: str) -> list[Any] | None:
        """What the reference may lead to: one, but for a dynamic one; None where it is nothing."""
        key = (id(schema), keyword)
        if key not in self._targets:
            self._targets[key] = self._found(schema, keyword)
        return self._targets[key]

    def followed(self, schema: dict[str, Any]) -> list[Any]:
        """All that the references of a schema lead to."""
        found: list[Any] = []
        for keyword in REFERENCES:
            if isinstance(schema.get(keyword), str):
                found += self.targets(schema, keyword) or ()
        return found

    def path_of(self, schema: dict[str, Any]) -> tuple[str | int, ...]:
        """The keys and indexes that lead to a schema of this document."""
        waiting: list[tuple[Any, tuple[str | int, ...]]] = [(self.root, ())]
        while waiting:
            one, path = waiting.pop()
            if one is schema:
                return path
            inner = one.items() if isinstance(one, dict) else enumerate(one)
            waiting += [(v, (*path, k)) for k, v in inner if isinstance(v, dict | list)]
        return ()

    def _enter(self) -> None:
        waiting: list[tuple[Any, str, bool]] = [(self.root, _BASE, True)]
        while waiting:
            schema, base, is_place = waiting.pop()
            if isinstance(schema, list):
                waiting += [(item, base, False) for item in schema]
            if not isinstance(schema, dict):
                continue
            if isinstance(schema.get("$id"), str):
                if not is_place:
                    # The validator knows no addresses there: nothing in it can be referred to.
                    continue
                base = _joined(base, schema["$id"].partition("#")[0])
                self._resources.setdefault(base, {})[id(schema)] = schema
            elif schema is self.root:
                self._resources[base] = {id(schema): schema}
            self._name(schema, base)
            if is_place:
                waiting += [(inner, base, True) for _, inner in subschemas(schema)]
            waiting += [
                (value, base, False) for _, value in containers(schema, all_of=not is_place)
            ]

    def _name(self, schema: dict[str, Any], base: str) -> None:
        self._bases[id(schema)] = base
        for keyword in ("$anchor", "$dynamicAnchor"):
            name = schema.get(keyword)
            if isinstance(name, str):
                self._anchors.setdefault((base, name), {})[id(schema)] = schema
                if keyword == "$dynamicAnchor":
                    self._dynamic.setdefault(name, {})[id(schema)] = schema

    def _reach(self) -> None:
        seen: set[int] = set()
        waiting = [self.root]
        while waiting:
            schema = waiting.pop()
            if not isinstance(schema, dict) or id(schema) in seen:
                continue
            seen.add(id(schema))
            self.reachable.append(schema)
            waiting += self.followed(schema)
            waiting += [inner for _, inner in subschemas(schema)]
        self.unresolved = self._find_unresolved()

    def _find_unresolved(self) -> tuple[dict[str, Any], str] | None:
        # What is a map of schemas to one keyword, or data, is no schema to another.
        held = {id(one[kind]) for one in self.reachable for kind in HOLDS_NAMED if kind in one}
        held |= self._data()
        for schema in self.reachable:
            for keyword in REFERENCES:
                if keyword in schema:
                    found = self.targets(schema, keyword)
                    if found is None or any(id(one) in held for one in found):
                        return schema, keyword
        return None

    def _data(self) -> set[int]:
        seen: set[int] = set()
        waiting = [one[kind] for one in self.reachable for kind in DATA if kind in one]
        while waiting:
            value = waiting.pop()
            if isinstance(value, dict | list) and id(value) not in seen:
                seen.add(id(value))
                waiting += value.values() if isinstance(value, dict) else value
        return seen

    def _found(self, schema: dict[str, Any], keyword: str) -> list[Any] | None:
        uri = schema[keyword]
        if not isinstance(uri, str) or id(schema) not in self._bases:
            return None
        head, _, fragment = uri.partition("#")
        base = _joined(self._bases[id(schema)], head)
        resources = self._resources.get(base, {})
        if len(resources) != 1:
            return None
        [resource] = resources.values()
        if not fragment:
            return [resource]
        if fragment.startswith("/"):
            return self._pointed(resource, fragment)
        name = unquote(fragment)
        named = self._anchors.get((base, name), {})
        if len(named) != 1:
            return None
        moving = self._dynamic.get(name, {}) if keyword == "$dynamicRef" else {}
        return list((named | moving).values()) if len(moving) <= _MOST_DYNAMIC else None

    def _pointed(self, resource: Any, fragment: str) -> list[Any] | None:
        target = resource
        if "%2f" in fragment.lower():
            return None
        for token in unquote(fragment[1:]).split("/"):
            name = token.replace("~1", "/").replace("~0", "~")
            if isinstance(target, dict) and name in target:
                target = target[name]
            elif isinstance(target, list) and _INDEX.fullmatch(name) and int(name) < len(target):
                target = target[int(name)]
            else:
                return None
        is_schema = isinstance(target, bool) or id(target) in self._bases
        return [target] if is_schema else None


def _joined(base: str, reference: str) -> str:
    """An address as it is compared: whatever may be the same to anybody is written alike."""
    try:
        if not reference:
            return base
        if not urlsplit(reference).scheme:
            scheme, _, rest = base.partition(":")
            reference = f"{scheme}:{urljoin(f'http:{rest}', reference)[5:]}"
        parts = urlsplit(unquote(reference).casefold())
    except ValueError:
        return f"?{reference}"
    path = posixpath.normpath("/" + parts.path.lstrip("/"))
    return f"{parts.scheme}://{_PORT.sub('', parts.netloc)}{path}?{parts.query}"
