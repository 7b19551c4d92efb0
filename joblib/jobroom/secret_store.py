"""Secrets that are named by an ARN: what is known of one, and when it is asked for again."""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from jobroom import secret_place
from jobroom.errors import ConfigurationError, JobroomError
from jobroom.settings import PREFIX

if TYPE_CHECKING:
    from collections.abc import Callable

    from jobroom.settings import JobLibSettings

log = logging.getLogger(__name__)

RETRY_SECONDS = 30.0
"""After a refresh that failed; the last good value serves meanwhile."""
FIRST_RETRY_SECONDS = 1.0
REFUSED_SECONDS = 3.0
"""Whoever is refused asks again, but a secret that is really wrong is asked for no more often."""
OVERLAP_SECONDS = 24 * 3600.0
"""So long after a rotation the secret before it still counts, where both are asked for."""


class Text(Protocol):
    """A text of the settings, which may be another one by now."""

    def value(self) -> str:
        """The text as it is now."""

    def replace(self, refused: str) -> bool:
        """Whether there is another than this one, which was refused."""


@dataclass(frozen=True)
class Fixed:
    """A text that stays what it is."""

    text: str = field(repr=False)

    def value(self) -> str:
        """The text."""
        return self.text

    def replace(self, refused: str) -> bool:
        """Whether it is another one."""
        return refused != self.text


class Secret:
    """One secret: fetched when first needed, and again when it has aged or was refused.

    Threads share it. One of them fetches while the others go on with what is known; where a fetch
    fails, so do all. ``accept`` raises ConfigurationError for a text that does not fit, which
    never replaces one that did. ``with_previous``: the version before the last rotation, too.
    """

    def __init__(
        self,
        place: secret_place.Place,
        *,
        refresh_seconds: float,
        accept: Callable[[str], object] = str,
        with_previous: bool = False,
        refused_seconds: float = REFUSED_SECONDS,
    ) -> None:
        self._place = place
        self._refresh_seconds = refresh_seconds
        self._accept = accept
        self._with_previous = with_previous
        self._refused_seconds = refused_seconds
        self._lock = threading.Lock()
        self._found: tuple[str, ...] | None = None
        self._error: JobroomError | None = None
        self._read_at = self._due_at = self._refuse_until = 0.0

    def __repr__(self) -> str:
        return f"Secret({self._place.name})"

    def value(self) -> str:
        """The text as it is now; raises ConfigurationError or StoreUnavailable, but only once."""
        return self.versions()[0]

    def versions(self) -> tuple[str, ...]:
        """The text, and the one before it where that still counts; the same object while equal."""
        known = self.peek()
        if known is not None:
            return known
        last = self._found
        if last is None:
            with self._lock:
                return self._first()
        if self._lock.acquire(blocking=False):
            try:
                self._renew(secret_place.HURRIED)
                last = self._found or last
            finally:
                self._lock.release()
        return last

    def peek(self) -> tuple[str, ...] | None:
        """What ``versions`` returns, or None where it would have to ask first; never blocks."""
        # The time of day: the other clock may stand still while a function is frozen.
        is_fresh = self._read_at <= time.time() < self._due_at
        # While somebody asks, all others go on with what is known.
        return self._found if is_fresh or self._lock.locked() else None

    def replace(self, refused: str) -> bool:
        """Ask again, not too often, because this was refused; whether there is another one now."""
        with self._lock:
            now = time.monotonic()
            if self._found is None or self._found[0] != refused:
                return self._found is not None
            if now < self._refuse_until:
                return False
            is_known = self._renew(secret_place.PATIENT)  # the one that is known serves no more
            if self._found[0] != refused:
                return True
            wait = self._refused_seconds if is_known else RETRY_SECONDS
            self._refuse_until = time.monotonic() + wait
            return False

    def _first(self) -> tuple[str, ...]:
        if self._found is not None:  # somebody was faster
            return self._found
        if self._error is not None and self._read_at <= time.time() < self._due_at:
            raise type(self._error)(str(self._error))
        try:
            self._found = self._fetch(secret_place.PATIENT)
        except JobroomError as error:
            self._error = error
            self._schedule(FIRST_RETRY_SECONDS)
            raise
        self._error = None
        self._schedule(self._refresh_seconds)
        return self._found

    def _renew(self, patience: secret_place.Patience) -> bool:
        try:
            found = self._fetch(patience)
        except JobroomError as error:
            if self._error is None:
                log.warning("secret.kept variable=%s reason=%s", self._place.variable, error)
            self._error = error
            self._schedule(min(RETRY_SECONDS, self._refresh_seconds))
            return False
        self._error = None
        if found != self._found:
            log.info("secret.renewed variable=%s", self._place.variable)
            self._found = found
        self._schedule(self._refresh_seconds)
        return True

    def _schedule(self, seconds: float) -> None:
        self._read_at = time.time()
        self._due_at = self._read_at + seconds

    def _fetch(self, patience: secret_place.Patience) -> tuple[str, ...]:
        text, age = secret_place.read(self._place, patience)
        try:
            self._accept(text)
        except ConfigurationError as error:
            reason = str(error).rstrip(".")
            raise self._place.fault(f"does not fit: {reason}") from None
        if not self._with_previous or self._place.service == "ssm" or age > OVERLAP_SECONDS:
            return (text,)
        try:
            previous, _ = secret_place.read(self._place, patience, stage="AWSPREVIOUS")
            self._accept(previous)
        except ConfigurationError:  # none yet, or not for us
            return (text,)
        return (text, previous)


def database_url(settings: JobLibSettings, accept: Callable[[str], object]) -> Text:
    """The URL of the database, as the settings say it or by its ARN; nothing is fetched yet."""
    place = _chosen(settings, "database_url_arn", "database_url")
    if place is None:
        return Fixed(settings.database_url)
    return Secret(place, refresh_seconds=settings.secrets_refresh_seconds, accept=accept)


def database_auth_token(settings: JobLibSettings) -> Secret | None:
    """The token of a libSQL server by its ARN; None where the settings name none."""
    others = ("database_auth_token", "database_auth_token_file")
    place = _chosen(settings, "database_auth_token_arn", *others)
    if place is None:
        return None
    return Secret(place, refresh_seconds=settings.secrets_refresh_seconds)


def jwt_secret(
    settings: JobLibSettings, accept: Callable[[str], object], *, refused_seconds: float
) -> Secret | None:
    """The secret that signs tokens by its ARN, with the one before; None where none is named."""
    place = _chosen(settings, "jwt_secret_arn", "jwt_secret")
    if place is None:
        return None
    return Secret(
        place,
        refresh_seconds=settings.secrets_refresh_seconds,
        accept=accept,
        with_previous=True,
        refused_seconds=refused_seconds,
    )


def _chosen(settings: JobLibSettings, name: str, *others: str) -> secret_place.Place | None:
    """The place that a setting names, which none of the others may say as well."""
    arn = getattr(settings, name)
    if arn is None:
        return None
    variable = PREFIX + name.upper()
    for other in others:
        # One of them has a default: what counts is that somebody has set it.
        if other in settings.model_fields_set and getattr(settings, other) is not None:
            message = f"Set only one of {PREFIX}{other.upper()} and {variable}."
            raise ConfigurationError(message)
    return secret_place.of_arn(name, arn)
