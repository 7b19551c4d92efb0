"""A use case: a rule that works with one transaction, and whether it writes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Concatenate, Generic, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from jobroom.store.transaction import Transaction

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class UseCase(Generic[P, T]):
    """One step of the queue's work, run by ``JobQueue`` in a transaction of the right kind.

    Called like a function it runs inside a transaction that is open already.
    """

    rule: Callable[Concatenate[Transaction, P], T]
    writes: bool

    def __call__(self, tx: Transaction, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run inside an open transaction."""
        return self.rule(tx, *args, **kwargs)


def reads(rule: Callable[Concatenate[Transaction, P], T]) -> UseCase[P, T]:
    """A use case that only reads."""
    return UseCase(rule, writes=False)


def writes(rule: Callable[Concatenate[Transaction, P], T]) -> UseCase[P, T]:
    """A use case that may write. It refuses before it writes, or raises ``Refused``."""
    return UseCase(rule, writes=True)
