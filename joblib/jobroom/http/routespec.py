"""What one route of the API is, as data: the router and the OpenAPI document are made from it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeGuard

Answer = str | None
"""The model of a JSON answer, the media types of any other (``"a/b, c/d"``), or nothing."""

_PLACEHOLDER = re.compile(r"\{(\w+)(?::\w+)?\}")


@dataclass(frozen=True, slots=True)
class Query:
    """A query parameter; ``schema`` is JSON Schema."""

    name: str
    description: str
    schema: Mapping[str, Any] = field(default_factory=lambda: {"type": "string"})


@dataclass(frozen=True, slots=True)
class Link:
    """What to do next with a good answer; ``parameters`` are runtime expressions of OpenAPI."""

    name: str
    operation_id: str
    description: str
    parameters: Mapping[str, str]
    body: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class RouteSpec:
    """One route. ``headers`` names request headers, ``problems`` the slugs it may answer.

    Models are named as ``wire`` names them: the router needs none, and a cold start is longer by
    each that is made.

    What every route may answer (401 if secured, 406 where JSON is the answer, 500, 503, and the
    faults of a body) is not listed; ``build_openapi`` adds it.
    """

    method: str
    path: str
    operation_id: str
    summary: str
    tag: str
    answers: Mapping[int, Answer]
    endpoint: Callable[..., Any] | None = None
    request: str | None = None
    body_required: bool = True
    query: tuple[Query, ...] = ()
    headers: tuple[str, ...] = ()
    answer_headers: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    links: tuple[Link, ...] = ()
    secured: bool = True

    @property
    def answers_json(self) -> bool:
        """Whether its good answers are JSON, so that a client must accept that."""
        return not any(is_media_types(answer) for answer in self.answers.values())

    @property
    def plain_path(self) -> str:
        """The path without Starlette's converters, as OpenAPI writes it."""
        return _PLACEHOLDER.sub(r"{\1}", self.path)

    @property
    def path_parameters(self) -> tuple[str, ...]:
        """The names of the path's placeholders, in order."""
        return tuple(_PLACEHOLDER.findall(self.path))


def is_media_types(answer: Answer) -> TypeGuard[str]:
    """Whether an answer is no JSON of a model's."""
    return answer is not None and "/" in answer
