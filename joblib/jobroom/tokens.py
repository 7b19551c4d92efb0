"""Bearer tokens: how they are made, and how they are verified and remembered."""

from __future__ import annotations

import math
import threading
import time
import unicodedata
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeGuard, cast

import jwt
from jwt.types import Options

from jobroom import keys
from jobroom.domain.records import Caller
from jobroom.errors import ConfigurationError, Unauthorized, ValidationFailed
from jobroom.settings import JobLibSettings

# PyJWT looks at each byte in Python before it sees the signature: a longer text is refused unread.
MAX_TOKEN_BYTES = 16 * 1024
MAX_IDENTITY_LENGTH = 255
MAX_HOURS = 100 * 366 * 24
REMEMBERED_TOKENS = 4096
# For `nbf` and `iat` alone: an issuer's clock may be a little ahead. `exp` is taken exactly.
CLOCK_SKEW_SECONDS = 5
YEAR_9999 = 253_402_300_799

# The first that fits speaks; none of them repeats anything of the token.
_REFUSALS: tuple[tuple[type[jwt.PyJWTError], str], ...] = (
    (jwt.ExpiredSignatureError, "The token has expired: get a new one."),
    (jwt.ImmatureSignatureError, "The token is not valid yet: its nbf or iat is in the future."),
    (jwt.InvalidAudienceError, "The token was made for another audience than this server."),
    (jwt.InvalidIssuerError, "The token comes from an issuer that this server does not trust."),
    (jwt.InvalidAlgorithmError, "The token is signed with an algorithm that is not accepted here."),
    (jwt.InvalidSignatureError, "The token's signature does not fit: it is of another key."),
    (jwt.InvalidKeyError, "The token is signed with a key that is not accepted here."),
)


class Identity(NamedTuple):
    """A verified caller, and the second (since 1970, UTC) at which the proof ends; None: never."""

    caller: Caller
    expires_at: float | None = None


def is_identity(value: object) -> TypeGuard[str]:
    """Whether this may name a caller: text of 1 to 255 characters, none of them a control."""
    return isinstance(value, str) and 1 <= len(value) <= MAX_IDENTITY_LENGTH and _is_plain(value)


def _is_plain(text: str) -> bool:
    # A lone surrogate (Cs) is no text: no store and no answer can encode it.
    return not any(unicodedata.category(character) in {"Cc", "Cs"} for character in text)


def issue_token(
    secret: str,
    *,
    sub: str,
    is_admin: bool = False,
    rooms: Iterable[str] | None = None,
    hours: float = 8,
    algorithm: str = "HS256",
    issuer: str | None = None,
    audience: str | None = None,
) -> str:
    """Sign a token with a shared secret; ``rooms`` None means every room, empty means none."""
    if not is_identity(sub):
        message = "A token's sub must have 1 to 255 characters and no control characters."
        raise ValidationFailed(message)
    if not 0 < hours <= MAX_HOURS:
        raise ValidationFailed(f"A token's hours must be over 0 and at most {MAX_HOURS}.")
    now = time.time()
    claims: dict[str, object] = {"sub": sub, "iat": int(now), "exp": math.ceil(now + hours * 3600)}
    claims["is_admin"] = is_admin
    optional = {"rooms": None if rooms is None else list(rooms), "iss": issuer, "aud": audience}
    claims.update((name, value) for name, value in optional.items() if value is not None)
    return jwt.encode(claims, secret, algorithm=algorithm)


class TokenVerifier:
    """Verifies tokens, and remembers the good ones (bounded, until they expire)."""

    def __init__(
        self,
        accepted: keys.FixedKey | keys.PublishedKeys | keys.SecretKeys,
        *,
        issuer: str | None = None,
        audience: str | None = None,
        require_exp: bool = True,
        remembered: int = REMEMBERED_TOKENS,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.may_fetch = accepted.may_fetch
        self._accepted = accepted
        self._issuer = issuer
        self._audience = audience
        self._options: Options = {
            "require": ["sub", "exp"] if require_exp else ["sub"],
            "verify_sub": False,  # `is_identity` is stricter
            "enforce_minimum_key_length": True,
        }
        self._limit = remembered
        self._clock = clock
        self._known: OrderedDict[bytes, Identity] = OrderedDict()
        self._lock = threading.Lock()
        self._secret = accepted.secret if isinstance(accepted, keys.SecretKeys) else None
        # What is remembered was verified by these, and is worth nothing with others.
        self._versions: tuple[str, ...] | None = None

    def recall(self, token: bytes) -> Identity | None:
        """Return what this token proved before, while it lasts; never blocks."""
        identity = self._known.get(token)
        if identity is None or (
            self._secret is not None and self._secret.peek() is not self._versions
        ):
            return None
        expires_at = identity.expires_at
        if expires_at is not None and expires_at <= self._clock():
            with self._lock:
                self._known.pop(token, None)
            return None
        return identity

    def verify(self, token: bytes) -> Identity:
        """Check signature and claims; raises ``Unauthorized``. May block if ``may_fetch``."""
        versions = self.prepare()
        identity = self.recall(token)
        if identity is None:
            _check_length(token)
            identity = self._read(self._decode(token, self._accepted.key_for))
            self._remember(token, identity, versions)
        return identity

    def verify_at_hand(self, token: bytes) -> Identity | None:
        """Do as ``verify`` by the secrets or keys that are known; None where they do not tell.

        Never blocks, so whoever has a good token does not wait behind those that make us ask.
        """
        if isinstance(self._accepted, keys.PublishedKeys):
            _check_length(token)
            key = self._accepted.peek(token)
            return None if key is None else self._verified(token, key, None)
        versions = None if self._secret is None else self._secret.peek()
        if versions is None or versions is not self._versions:
            return None
        _check_length(token)
        fitting = cast("keys.SecretKeys", self._accepted).fitting(token, versions)
        return None if fitting is None else self._verified(token, fitting, versions)

    def _verified(self, token: bytes, key: object, versions: tuple[str, ...] | None) -> Identity:
        identity = self._read(self._decode(token, lambda _: key))
        self._remember(token, identity, versions)
        return identity

    def prepare(self) -> tuple[str, ...] | None:
        """Fetch a secret that is kept elsewhere, if it has to be; forget what others had verified.

        Raises ConfigurationError or StoreUnavailable where it was never to be had.
        """
        if self._secret is None:
            return None
        versions = self._secret.versions()
        with self._lock:
            if versions is not self._versions:
                self._known.clear()
                self._versions = versions
        return versions

    def _decode(self, token: bytes, key_for: Callable[[bytes], Any]) -> dict[str, object]:
        try:
            return jwt.decode(
                token,
                key_for(token),
                algorithms=self._accepted.algorithms,
                options=self._options,
                audience=self._audience,
                issuer=self._issuer,
                leeway=CLOCK_SKEW_SECONDS,
            )
        except jwt.PyJWTError as error:
            raise Unauthorized(_refusal_for(error)) from None

    def _read(self, claims: Mapping[str, object]) -> Identity:
        sub = claims["sub"]
        if not is_identity(sub):
            message = "The claim sub must be text of 1 to 255 characters, none of them a control."
            raise Unauthorized(message)
        is_admin = claims.get("is_admin", False)
        if not isinstance(is_admin, bool):
            raise Unauthorized("The claim is_admin must be true or false.")
        expires_at = _expiry_of(claims)
        if expires_at is not None and expires_at <= self._clock():
            raise Unauthorized(_refusal_for(jwt.ExpiredSignatureError()))
        return Identity(Caller(sub, is_admin, _rooms_of(claims)), expires_at)

    def _remember(
        self, token: bytes, identity: Identity, versions: tuple[str, ...] | None = None
    ) -> None:
        with self._lock:
            if versions is not self._versions:
                return  # a rotation came between
            self._known[token] = identity
            while len(self._known) > self._limit:
                self._known.popitem(last=False)


def _check_length(token: bytes) -> None:
    if len(token) > MAX_TOKEN_BYTES:
        raise Unauthorized(f"The token is longer than {MAX_TOKEN_BYTES} bytes.")


def _refusal_for(error: jwt.PyJWTError) -> str:
    if isinstance(error, jwt.MissingRequiredClaimError):
        return f"The token lacks the claim {error.claim}."
    for kind, sentence in _REFUSALS:
        if isinstance(error, kind):
            return sentence
    return "The token cannot be read: send a signed JWT, whole and unchanged."


def _expiry_of(claims: Mapping[str, object]) -> float | None:
    if "exp" not in claims:
        return None
    exp = claims["exp"]
    if isinstance(exp, bool) or not isinstance(exp, int | float):
        raise Unauthorized("The claim exp must be a number of seconds since 1970.")
    return float(min(exp, YEAR_9999))


def _rooms_of(claims: Mapping[str, object]) -> frozenset[str] | None:
    if "rooms" not in claims:
        return None
    rooms = claims["rooms"]
    if not isinstance(rooms, list) or not all(
        isinstance(room, str) and _is_plain(room) for room in rooms
    ):
        raise Unauthorized("The claim rooms must be a list of room ids, all of them strings.")
    return frozenset(rooms)


def verifier_from_settings(
    settings: JobLibSettings, *, local_key_path: Path | None, allow_local: bool = True
) -> tuple[TokenVerifier, str | None]:
    """Build the verifier that the settings ask for; beside it the local key, where that is used.

    Raises ``ConfigurationError`` where nothing is configured and there can be no local key:
    without a path beside a SQLite file, or with ``allow_local`` False.
    """
    configured = keys.configured_keys(settings)
    local_key = None
    if configured is None:
        local_key = keys.local_key(settings, local_key_path if allow_local else None)
        configured = keys.shared_key(local_key, settings.jwt_algorithms)
    verifier = TokenVerifier(
        configured,
        issuer=settings.jwt_issuer,
        audience=settings.jwt_audience,
        require_exp=settings.jwt_require_exp,
    )
    verifier.prepare()
    return verifier, local_key


def token_for_settings(
    settings: JobLibSettings,
    *,
    sub: str,
    is_admin: bool = False,
    rooms: Iterable[str] | None = None,
    hours: float = 8,
) -> str:
    """Make a token that a server with these settings accepts: by its secret, or its local key."""
    configured = keys.configured_keys(settings)
    if configured is None:
        local_key = keys.local_key(settings, keys.local_key_path_of(settings))
        configured = keys.shared_key(local_key, settings.jwt_algorithms)
    if isinstance(configured, keys.SecretKeys):
        configured = keys.FixedKey(configured.secret.value(), configured.algorithms)
    if not isinstance(configured, keys.FixedKey) or not isinstance(configured.key, str):
        message = "Tokens are made by your issuer: this server has only a key to check them by."
        raise ConfigurationError(message)
    return issue_token(
        configured.key,
        sub=sub,
        is_admin=is_admin,
        rooms=rooms,
        hours=hours,
        algorithm=configured.algorithms[0],
        issuer=settings.jwt_issuer,
        audience=settings.jwt_audience,
    )
