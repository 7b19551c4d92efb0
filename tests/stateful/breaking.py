"""Rules of the code, broken on purpose while a test runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import pytest

from jobroom.store.statement import Statement

Break = Callable[[pytest.MonkeyPatch], None]


class Rewritten:
    """An SQL expression whose compiled text has one part replaced."""

    def __init__(self, element: Any, old: str, new: str) -> None:
        self._element, self._old, self._new = element, old, new

    def compile(self, **options: Any) -> RewrittenText:
        """The text with the replacement, which must change something."""
        compiled = self._element.compile(**options)
        text = " ".join(str(compiled).split())
        if self._old not in text:
            # No AssertionError: that would look like a mutation that was caught.
            message = f"no {self._old!r} in {text!r}"
            raise LookupError(message)
        return RewrittenText(text.replace(self._old, self._new), compiled.params)


@dataclass(frozen=True)
class RewrittenText:
    """What a statement needs of a compiled expression."""

    text: str
    params: dict[str, Any]

    def __str__(self) -> str:
        return self.text


def sql(statements: Iterable[Statement], old: str, new: str = "1 = 1") -> Break:
    """Replace a part of the statements' text."""

    def apply(monkeypatch: pytest.MonkeyPatch) -> None:
        for statement in statements:
            broken = {"": Rewritten(statement.element(), old, new)}
            monkeypatch.setattr(statement, "_elements", broken)
            monkeypatch.setattr(statement, "_compiled", {})

    return apply


def python(module: object, name: str, replacement: object) -> Break:
    """Replace a function or a figure."""
    return lambda monkeypatch: monkeypatch.setattr(module, name, replacement)
