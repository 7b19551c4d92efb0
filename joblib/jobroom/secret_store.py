"""Secrets that are named by an ARN: AWS Secrets Manager and the SSM parameter store."""

from __future__ import annotations

import json
import logging
import re
import threading
import time
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol
from urllib.parse import quote

from jobroom.errors import ConfigurationError, JobroomError, StoreUnavailable
from jobroom.settings import PREFIX

if TYPE_CHECKING:
    from collections.abc import Callable

    from jobroom.settings import JobLibSettings

log = logging.getLogger(__name__)

CONNECT_SECONDS, READ_SECONDS, MOST_TRIES = 2, 3, 3
RENEWAL_SECONDS, RENEWAL_TRIES = 1.5, 1
"""A request waits for a renewal, which is not worth its whole time: the last good value serves."""
RETRY_SECONDS = 30.0
"""After a refresh that failed; the last good value serves meanwhile."""
FIRST_RETRY_SECONDS = 1.0
REFUSED_SECONDS = 3.0
"""Whoever is refused asks again, but a secret that is really wrong is asked for no more often."""
OVERLAP_SECONDS = 24 * 3600.0
"""So long after a rotation the secret before it still counts, where both are asked for."""

_ARN = re.compile(
    r"(?P<name>arn:aws[a-z-]*:(?P<service>secretsmanager|ssm):(?P<region>[a-z0-9-]+):\d{12}"
    r":(?P<kind>secret:|parameter/)[^\s#]+)(?:#(?P<member>.+))?"
)
_KINDS = {"secretsmanager": "secret:", "ssm": "parameter/"}
_RIGHTS = {"secretsmanager": "secretsmanager:GetSecretValue", "ssm": "ssm:GetParameter"}
_MISSING = ("ResourceNotFoundException", "ParameterNotFound", "ParameterVersionNotFound")
_DENIED = ("AccessDenied", "DecryptionFailure", "InvalidKeyId", "KMSAccessDenied")
_LOGIN = ("UnrecognizedClient", "InvalidSignature", "ExpiredToken", "InvalidClientTokenId")
_LATER = ("Throttl", "TooManyRequests", "RequestLimitExceeded", "InternalServ", "ServiceUnavail")
_DATABASES = {"postgres": "postgresql", "postgresql": "postgresql"}
_TELLING = ("botocore.parsers", "botocore.endpoint", "botocore.auth")
"""Loggers that show, at their lowest level, answers with secrets and the keys to them."""


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


class Patience(NamedTuple):
    """How long AWS is asked: ``tries`` times, each so long."""

    connect_seconds: float
    read_seconds: float
    tries: int


PATIENT = Patience(CONNECT_SECONDS, READ_SECONDS, MOST_TRIES)
HURRIED = Patience(RENEWAL_SECONDS, RENEWAL_SECONDS, RENEWAL_TRIES)


class Place(NamedTuple):
    """Where a secret is kept. ``member``: it is JSON, and the secret is this member of it."""

    setting: str
    service: str
    region: str
    name: str
    member: str | None

    @property
    def variable(self) -> str:
        """The environment variable that names it."""
        return PREFIX + self.setting.upper()

    def fault(self, what: str) -> ConfigurationError:
        """The error that says what is wrong with it."""
        return ConfigurationError(f"{self.variable}: the secret {self.name} {what}.")


class Secret:
    """One secret: fetched when first needed, and again when it has aged or was refused.

    Threads share it. One of them fetches while the others go on with what is known; where a fetch
    fails, so do all. ``accept`` raises ConfigurationError for a text that does not fit, which
    never replaces one that did. ``with_previous``: the version before the last rotation, too.
    """

    def __init__(
        self,
        place: Place,
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
                self._renew(HURRIED)
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
            is_known = self._renew(PATIENT)  # the one that is known serves no more
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
            self._found = self._fetch(PATIENT)
        except JobroomError as error:
            self._error = error
            self._schedule(FIRST_RETRY_SECONDS)
            raise
        self._error = None
        self._schedule(self._refresh_seconds)
        return self._found

    def _renew(self, patience: Patience) -> bool:
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

    def _fetch(self, patience: Patience) -> tuple[str, ...]:
        text, age = _read(self._place, patience)
        try:
            self._accept(text)
        except ConfigurationError as error:
            reason = str(error).rstrip(".")
            raise self._place.fault(f"does not fit: {reason}") from None
        if not self._with_previous or self._place.service == "ssm" or age > OVERLAP_SECONDS:
            return (text,)
        try:
            previous, _ = _read(self._place, patience, stage="AWSPREVIOUS")
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


def _chosen(settings: JobLibSettings, name: str, *others: str) -> Place | None:
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
    found = _ARN.fullmatch(arn.strip())
    if found is None or found["kind"] != _KINDS[found["service"]]:
        # Without what it says: it may be the secret itself.
        message = (
            f"{variable} is no ARN of a secret; write arn:aws:secretsmanager:REGION:ACCOUNT:secret:"
            "NAME or arn:aws:ssm:REGION:ACCOUNT:parameter/NAME, with #MEMBER for one of a JSON one."
        )
        raise ConfigurationError(message)
    return Place(name, found["service"], found["region"], found["name"], found["member"])


def _read(place: Place, patience: Patience, stage: str = "AWSCURRENT") -> tuple[str, float]:
    """The text that is kept there, and for how many seconds it has been the current one."""
    answer = _ask(place, stage, patience)
    if place.service == "ssm":
        return _member(place, answer["Parameter"]["Value"]), 0.0
    if "SecretString" not in answer:
        raise place.fault("is binary; store it as text")
    created = answer.get("CreatedDate")
    age = 0.0 if created is None else time.time() - created.timestamp()
    return _member(place, answer["SecretString"]), age


def _member(place: Place, text: str) -> str:
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if place.member is None:
        if isinstance(found, dict):
            text = _url_of(place, found)
    elif isinstance(found, dict) and isinstance(found.get(place.member), str):
        text = found[place.member]
    else:
        raise place.fault(f"is no JSON object with the text {place.member!r}")
    if not text.strip():
        raise place.fault("is empty")
    # A key is what it is; an address or a token may have been stored with the end of its line.
    return text if place.setting == "jwt_secret_arn" else text.strip()


def _url_of(place: Place, found: dict[str, Any]) -> str:
    """The URL that is meant by the JSON which AWS itself keeps, and rotates, for a database."""
    scheme = _DATABASES.get(str(found.get("engine")))
    parts = [found.get(name) for name in ("username", "password", "host")]
    if place.setting != "database_url_arn" or scheme is None or None in parts:
        raise place.fault("is a JSON object; say which member of it by #MEMBER behind the ARN")
    user, password, host = (quote(str(part), safe="") for part in parts)
    name = quote(str(found.get("dbname") or "postgres"), safe="")
    return f"{scheme}://{user}:{password}@{host}:{found.get('port') or 5432}/{name}"


def _ask(place: Place, stage: str, patience: Patience) -> dict[str, Any]:
    client, faults = _client(place, patience)
    for name in _TELLING:
        teller = logging.getLogger(name)
        if teller.getEffectiveLevel() < logging.INFO:
            teller.setLevel(logging.INFO)
    try:
        found: dict[str, Any] = (
            client.get_parameter(Name=place.name, WithDecryption=True)
            if place.service == "ssm"
            else client.get_secret_value(SecretId=place.name, VersionStage=stage)
        )
    except faults.ClientError as error:
        raise _refusal(place, str(error.response.get("Error", {}).get("Code"))) from None
    except (faults.HTTPClientError, faults.ConnectionError):
        message = f"{place.variable}: AWS in {place.region} does not answer; check the network."
        raise StoreUnavailable(message) from None
    except faults.BotoCoreError as error:
        what = f"cannot be read without credentials for AWS ({type(error).__name__})"
        raise place.fault(what) from None
    return found


def _refusal(place: Place, code: str) -> JobroomError:
    if code in _MISSING:
        return place.fault("does not exist in that account and region")
    if code.startswith(_DENIED):
        what = f"may not be read; allow {_RIGHTS[place.service]}, and kms:Decrypt on a key of yours"
        return place.fault(what)
    if code.startswith(_LOGIN):
        return place.fault(f"cannot be read with these credentials for AWS ({code}); renew them")
    if code.startswith(_LATER) or code.isdigit():
        message = f"{place.variable}: AWS does not serve the secret now ({code}); try again soon."
        return StoreUnavailable(message)
    return place.fault(f"cannot be read ({code})")


def _client(place: Place, patience: Patience) -> tuple[Any, Any]:
    """The client of the service, and the module of its errors."""
    try:
        return _make_client(place.service, place.region, patience)
    except ImportError:
        message = f"{place.variable} needs boto3, which is not installed; run: pip install boto3"
        raise ConfigurationError(message) from None


@lru_cache(maxsize=8)
def _make_client(service: str, region: str, patience: Patience) -> tuple[Any, Any]:
    # Here, not above: most servers name no secret by an ARN, and it takes a while.
    import boto3
    from botocore import config, exceptions

    made = config.Config(
        connect_timeout=patience.connect_seconds,
        read_timeout=patience.read_seconds,
        retries={"total_max_attempts": patience.tries, "mode": "standard"},
    )
    # A session of our own: the shared one may be the host's, and is not for threads.
    client = boto3.session.Session().client(service, region_name=region, config=made)
    return client, exceptions
