"""What a worker runs: pydantic models, each of them one kind of work."""

from __future__ import annotations

from enum import Enum, StrEnum
from typing import Any, ClassVar, Literal

from pydantic import BaseModel


class Category(StrEnum):
    """The categories that a server allows by default."""

    MODIFIER = "modifiers"
    SELECTION = "selections"
    ANALYSIS = "analysis"


class Extension(BaseModel):
    """A base for registered classes; any pydantic model with a ``run`` does as well.

    ``isolate`` and ``memory_mb`` say how a worker that serves runs its tasks, see ``workers.md``.
    """

    category: ClassVar[str]
    isolate: ClassVar[Literal["thread", "process"]]
    memory_mb: ClassVar[float]

    def run(self, vis: Any, **kwargs: Any) -> Any:
        """Do the work; what is returned becomes the task's result if JSON can carry it."""
        raise NotImplementedError(f"{type(self).__name__} has no method run of its own")


def category_of(cls: type[BaseModel]) -> str:
    """Return the class's category: its ``ClassVar``, else its field's default, else modifiers.

    A pydantic class hides the default of a field from ``getattr``.
    """
    field = cls.model_fields.get("category")
    found = getattr(cls, "category", None) if field is None else field.default
    value = found.value if isinstance(found, Enum) else found
    return value if isinstance(value, str) else Category.MODIFIER.value
