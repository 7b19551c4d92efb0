"""A conversation with a store across a network, as the two that we speak with have it."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence


class Step(NamedTuple):
    """A statement with its values, ready to be sent.

    ``tells``: what it writes may be what another process waits for.
    """

    text: str
    values: tuple[Any, ...] = ()
    writes: bool = False
    tells: bool = False


class Answer(NamedTuple):
    """What a step brought: its rows, and how many it wrote."""

    rows: list[tuple[Any, ...]]
    count: int  # type: ignore[assignment]  # the name hides the tuple's method


class Session(Protocol):
    """One conversation; at most one transaction is open in it. Used by one thread at a time.

    Every method raises the driver's error; ``NetworkDatabase.outcome`` says what it means.
    """

    def alone(self, steps: Sequence[Step]) -> list[Answer]:
        """Run steps as a transaction of their own, all or none, in one round trip."""

    def run(self, steps: Sequence[Step]) -> list[Answer]:
        """Run steps in the transaction, which the first of them opens."""

    def serialize(self) -> None:
        """Open the transaction, and in it be the only one that judges several rows."""

    def commit(self, steps: Sequence[Step] = ()) -> None:
        """Run the last steps and commit; with nothing done and no steps nothing is sent."""

    def rollback(self) -> None:
        """Give up what is open. Never raises."""

    def close(self) -> None:
        """End the conversation. Never raises."""


class Outcome(Enum):
    """What became of a transaction that met an error of the store."""

    BUSY = "busy"
    """Nothing was kept; another try at once is sensible: others were at work."""
    AWAY = "away"
    """Nothing was kept, and the store does not answer."""
    UNKNOWN = "unknown"
    """Nobody knows: the store was lost while it was at work."""
    TOO_LARGE = "too large"
    """Nothing was kept, as the store takes no row of that size."""
    FAULT = "fault"
    """The statement is at fault; another try would meet the same."""


class Contended(Exception):
    """Others hold what was looked for, again and again: try the whole transaction again."""
