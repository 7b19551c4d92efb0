"""What is asked of a store across a network, beside what is asked of any database."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from jobroom.store.dialect import Database

if TYPE_CHECKING:
    from jobroom.store.session import Outcome, Session


class NetworkDatabase(Database, Protocol):
    """A store that is spoken to in sessions, several at a time."""

    skips_locked: bool
    """Whether a claim passes over rows that somebody else holds at that moment."""
    spares: bool
    """Whether several statements cost one round trip, so that it pays to send one to spare one."""

    threads: int
    """How many requests of one kind may be under way at the same time."""

    def session(self, *, write: bool) -> Session:
        """A conversation; nothing is sent before its first statement."""

    def outcome(self, error: Exception) -> Outcome | None:
        """What became of a transaction that met this error; None for an error of our own."""

    def has_news(self) -> bool:
        """Whether somebody else may have committed since this was last asked; may ask the store."""
