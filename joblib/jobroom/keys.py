"""The keys that tokens are checked by: configured, published by an issuer, or the local one."""

from __future__ import annotations

import logging
import math
import os
import secrets
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import jwt

from jobroom import secret_store
from jobroom.errors import ConfigurationError, StoreUnavailable, Unauthorized
from jobroom.settings import JobLibSettings

if TYPE_CHECKING:
    from jwt.algorithms import AllowedPublicKeys

logger = logging.getLogger(__name__)

# RFC 7518, 3.2: a shared secret is at least as long as the hash; in bytes.
LEAST_SECRET_BYTES = {"HS256": 32, "HS384": 48, "HS512": 64}
LEAST_RSA_BITS = 2048
RSA_ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
PUBLIC_KEY_ALGORITHMS = (*RSA_ALGORITHMS, "ES256", "ES384", "ES512", "EdDSA")
DEFAULT_PUBLIC_KEY_ALGORITHMS = ("RS256", "ES256", "EdDSA")

FRESH_SECONDS = 300.0
COOLDOWN_SECONDS = 30.0
RETRY_SECONDS = 5.0
FETCH_TIMEOUT_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class FixedKey:
    """One key known from the start: a shared secret, as text, or a public key."""

    key: AllowedPublicKeys | bytes | str
    algorithms: tuple[str, ...]
    may_fetch: ClassVar[bool] = False

    def key_for(self, _token: bytes) -> AllowedPublicKeys | bytes | str:
        """Return the one key."""
        return self.key


class PublishedKeys:
    """The keys that an issuer publishes at an address (JWKS), fetched when needed and kept.

    Fetching blocks, so ``key_for`` belongs in a thread. One thread asks at a time; meanwhile, and
    through an outage of the issuer, the last known keys serve whoever names one, without waiting.
    An unknown key id makes it ask again at most every 30 seconds.
    """

    may_fetch: ClassVar[bool] = True

    def __init__(self, url: str, algorithms: tuple[str, ...]) -> None:
        self.algorithms = algorithms
        self._client = jwt.PyJWKClient(url, cache_jwk_set=False, timeout=FETCH_TIMEOUT_SECONDS)
        self._lock = threading.Lock()
        self._keys: dict[str, jwt.PyJWK] = {}
        self._reachable = True
        self._stale_at = self._fetch_after = self._sent_until = -math.inf

    def peek(self, token: bytes) -> jwt.PyJWK | None:
        """Return the key if it is known; None where somebody should ask ``key_for``. Never blocks.

        Where the keys are old, one caller is sent to ask, and the others have those until he has.
        """
        try:
            key = self._keys.get(self._key_id(token))
        except (jwt.PyJWTError, Unauthorized):
            return None
        now = time.monotonic()
        if key is not None and now >= self._sent_until and self._may_refresh(now):
            self._sent_until = now + FETCH_TIMEOUT_SECONDS
            return None
        return key

    def key_for(self, token: bytes) -> jwt.PyJWK:
        """Return the key that the token's header names; its signature is yet to be checked."""
        key_id = self._key_id(token)
        key = self._keys.get(key_id)
        # Who names a known key does not wait for what others have made us ask.
        if key is not None and (self._lock.locked() or not self._may_refresh(time.monotonic())):
            return key
        with self._lock:
            return self._look_up(key_id)

    def _key_id(self, token: bytes) -> str:
        header = jwt.get_unverified_header(token)
        if header.get("alg") not in self.algorithms:
            raise jwt.InvalidAlgorithmError
        key_id = header.get("kid")
        if not isinstance(key_id, str):
            raise Unauthorized("The header of the token names no key: its issuer must set kid.")
        return key_id

    def _may_refresh(self, now: float) -> bool:
        return now >= self._stale_at and now >= self._fetch_after

    def _look_up(self, key_id: str) -> jwt.PyJWK:
        now = time.monotonic()
        is_unknown = key_id not in self._keys and now >= self._fetch_after
        if is_unknown or self._may_refresh(now):
            self._fetch()
        key = self._keys.get(key_id)
        if key is not None:
            return key
        if not self._reachable:
            raise StoreUnavailable("The keys of the issuer cannot be fetched now: try again soon.")
        raise Unauthorized("The token is signed with a key that its issuer does not publish.")

    def _fetch(self) -> None:
        try:
            # Beside its own errors PyJWT lets those of the socket and of broken JSON through.
            keys = {str(key.key_id): key for key in self._client.get_signing_keys()}
        except (jwt.PyJWTError, OSError, ValueError, LookupError) as error:
            logger.warning("jwks_fetch_failed error=%s", type(error).__name__)
            self._reachable = False
            self._fetch_after = time.monotonic() + RETRY_SECONDS
            return
        self._keys, self._reachable = keys, True
        self._stale_at = time.monotonic() + FRESH_SECONDS
        self._fetch_after = time.monotonic() + COOLDOWN_SECONDS


class SecretKeys:
    """A shared secret that a store of secrets keeps, where it may be rotated at any time.

    Its version before the last rotation is accepted beside it. Fetching blocks, so ``key_for``
    belongs in a thread; a token that fits neither makes it ask again at most every 30 seconds.
    """

    may_fetch: ClassVar[bool] = True

    def __init__(self, secret: secret_store.Secret, algorithms: tuple[str, ...]) -> None:
        self.secret = secret
        self.algorithms = algorithms

    def key_for(self, token: bytes) -> str:
        """Return the secret that the token is signed with, or the current one if it is neither."""
        versions = self.secret.versions()
        fitting = self.fitting(token, versions)
        if fitting is None and self.secret.replace(versions[0]):
            versions = self.secret.versions()
            fitting = self.fitting(token, versions)
        return fitting or versions[0]

    def fitting(self, token: bytes, versions: tuple[str, ...]) -> str | None:
        """Return the one of these that the token is signed with; None: another one might be."""
        for version in versions:
            try:
                jwt.PyJWS().decode_complete(token, version, algorithms=self.algorithms)
            except jwt.InvalidSignatureError:
                continue
            except jwt.PyJWTError:  # no other secret would help it
                return versions[0]
            return version
        return None


def configured_keys(settings: JobLibSettings) -> FixedKey | PublishedKeys | SecretKeys | None:
    """Return the keys that the settings name, None if they name none; raises on a bad choice.

    Nothing is fetched yet.
    """
    names = ("jwt_secret", "jwt_secret_arn", "jwt_public_key", "jwt_jwks_url")
    given = [variable_name(name) for name in names if getattr(settings, name) is not None]
    if len(given) > 1:
        raise ConfigurationError(f"Set only one of {' and '.join(given)}.")
    if given and settings.auth_mode == "local":
        mode = variable_name("auth_mode")
        raise ConfigurationError(f"Unset {given[0]} or {mode}=local: local mode makes its own key.")
    if settings.jwt_secret is not None:
        return shared_key(settings.jwt_secret.get_secret_value(), settings.jwt_algorithms)
    if settings.jwt_secret_arn is not None:
        return secret_keys(settings)
    if settings.jwt_public_key is not None:
        return public_key(settings.jwt_public_key, settings.jwt_algorithms)
    if settings.jwt_jwks_url is not None:
        return published_keys(settings.jwt_jwks_url, settings.jwt_algorithms)
    return None


def secret_keys(settings: JobLibSettings) -> SecretKeys | None:
    """Name a shared secret by its ARN; it is checked as any other, each time it is fetched."""
    algorithms = _shared_algorithms(settings.jwt_algorithms)
    secret = secret_store.jwt_secret(
        settings,
        lambda text: shared_key(text, algorithms, setting="jwt_secret_arn"),
        refused_seconds=COOLDOWN_SECONDS,
    )
    return None if secret is None else SecretKeys(secret, algorithms)


def shared_key(
    secret: str, algorithms: Sequence[str] | None = None, *, setting: str = "jwt_secret"
) -> FixedKey:
    """Check a shared secret; HS256 unless told otherwise."""
    chosen = _shared_algorithms(algorithms)
    variable = variable_name(setting)
    least = max(LEAST_SECRET_BYTES[name] for name in chosen)
    if len(secret.encode(errors="replace")) < least:
        raise ConfigurationError(f"{variable} is too short: give it at least {least} random bytes.")
    if _prepare(chosen[0], secret) is None:
        raise ConfigurationError(f"{variable} must be random UTF-8 text, no key or certificate.")
    return FixedKey(secret, chosen)


def public_key(text: str, algorithms: Sequence[str] | None = None) -> FixedKey:
    """Read a PEM public key; of the algorithms only those that fit its kind are accepted."""
    variable = variable_name("jwt_public_key")
    # Env files hold no line breaks, so a PEM arrives from them with "\n" spelled out.
    pem = text.replace("\\n", "\n")
    if "PRIVATE KEY" in pem:
        raise ConfigurationError(f"{variable} holds a private key: give it the public one.")
    chosen = _chosen_algorithms(
        algorithms, DEFAULT_PUBLIC_KEY_ALGORITHMS, allowed=PUBLIC_KEY_ALGORITHMS
    )
    fitting = {name: key for name in chosen if (key := _prepare(name, pem)) is not None}
    if not fitting:
        kinds = ", ".join(chosen)
        raise ConfigurationError(f"{variable} must hold a PEM public key for one of {kinds}.")
    key = next(iter(fitting.values()))
    # Imported where it is used: a function that is built for a shared secret has none of it.
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

    if isinstance(key, RSAPublicKey) and key.key_size < LEAST_RSA_BITS:
        raise ConfigurationError(f"{variable} is too short: RSA needs {LEAST_RSA_BITS} bits.")
    return FixedKey(key, tuple(fitting))


def published_keys(url: str, algorithms: Sequence[str] | None = None) -> PublishedKeys:
    """Name the address of an issuer's keys; nothing is fetched yet."""
    chosen = _chosen_algorithms(
        algorithms, DEFAULT_PUBLIC_KEY_ALGORITHMS, allowed=PUBLIC_KEY_ALGORITHMS
    )
    try:
        return PublishedKeys(url, chosen)
    except (jwt.PyJWKClientError, ValueError):
        message = f"{variable_name('jwt_jwks_url')} must be an http:// or https:// address."
        raise ConfigurationError(message) from None


def variable_name(setting: str) -> str:
    """Name the environment variable of a setting."""
    return f"ZNDRAW_JOBLIB_{setting.upper()}"


def _shared_algorithms(algorithms: Sequence[str] | None) -> tuple[str, ...]:
    return _chosen_algorithms(algorithms, ("HS256",), allowed=tuple(LEAST_SECRET_BYTES))


def _chosen_algorithms(
    algorithms: Sequence[str] | None, default: tuple[str, ...], *, allowed: tuple[str, ...]
) -> tuple[str, ...]:
    if allowed is PUBLIC_KEY_ALGORITHMS and not jwt.algorithms.has_crypto:
        message = 'Public keys need a library; install it: pip install "pyjwt[crypto]".'
        raise ConfigurationError(message)
    # One kind of key only: HS beside a public key would let anyone sign with what is public.
    chosen = default if algorithms is None else tuple(algorithms)
    if not chosen or not set(chosen) <= set(allowed):
        variable = variable_name("jwt_algorithms")
        raise ConfigurationError(f"{variable} must be among {', '.join(allowed)} with this key.")
    return chosen


def _prepare(algorithm: str, text: str) -> AllowedPublicKeys | bytes | None:
    try:
        return jwt.get_algorithm_by_name(algorithm).prepare_key(text)  # type: ignore[no-any-return]
    except (jwt.InvalidKeyError, ValueError):
        return None


def local_key_path_of(settings: JobLibSettings) -> Path | None:
    """Return where the local key of a server with these settings lies, None if it has none.

    A database that is named by an ARN is a server's.
    """
    return local_key_path(settings.database_url) if settings.database_url_arn is None else None


def local_key_path(database_url: str) -> Path | None:
    """Return where the local key of a SQLite file lies: beside it, or None for other stores."""
    scheme, separator, rest = database_url.partition(":///")
    database = rest.partition("?")[0]
    is_file = database not in {"", ":memory:"} and not database.startswith("file:")
    if not separator or scheme.strip().lower() not in {"sqlite", "sqlite+pysqlite"} or not is_file:
        return None
    return Path(f"{database}.key")


def local_key(settings: JobLibSettings, path: Path | None) -> str:
    """Return the local key, made if absent; raises where a key must be configured instead."""
    if path is None or settings.auth_mode == "jwt":
        secret, public, published = map(
            variable_name, ("jwt_secret", "jwt_public_key", "jwt_jwks_url")
        )
        message = f"Nothing says whose tokens to accept: set {secret}, {public} or {published}."
        raise ConfigurationError(message)
    return load_or_create_local_key(path)


def load_or_create_local_key(path: Path) -> str:
    """Read the local key, or make one; whoever starts at the same moment gets the same key."""
    try:
        if not path.exists():
            _create_local_key(path)
    except OSError as error:
        message = f"The key file {path} cannot be made ({error.strerror}): {_INSTEAD}."
        raise ConfigurationError(message) from error
    return load_local_key(path)


def _create_local_key(path: Path) -> None:
    draft = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(secrets.token_urlsafe(64))
            file.flush()
            os.fsync(file.fileno())
        # A link, not a rename, gives the whole file its name: it never replaces the key of a
        # server that was a moment faster, which may have handed out tokens already.
        os.link(draft, path)
    except FileExistsError:
        return
    finally:
        draft.unlink()


def load_local_key(path: Path) -> str:
    """Read the local key; a file that others can read, or that is damaged, is refused."""
    try:
        mode = path.stat().st_mode & 0o777
        # Tightening it silently would hide that the key may be known to others by now.
        if os.name == "posix" and mode & 0o077:
            message = f"Others may read the key file {path} (mode {mode:04o}): delete it to get a "
            raise ConfigurationError(message + "new key, or run chmod 600 on it to keep it.")
        key = path.read_bytes().decode("ascii", errors="replace").strip()
    except OSError as error:
        message = f"The key file {path} cannot be read ({error.strerror}): {_INSTEAD}."
        raise ConfigurationError(message) from error
    if not key.isascii() or len(key) < LEAST_SECRET_BYTES["HS512"]:
        raise ConfigurationError(f"The key file {path} is damaged: delete it to get a new key.")
    return key


_INSTEAD = f"mend that or set {variable_name('jwt_secret')}"
