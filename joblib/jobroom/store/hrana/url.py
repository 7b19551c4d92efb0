"""The URL of a libSQL database: which transport, where to, and what may be shown of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple
from urllib.parse import SplitResult, parse_qsl, urlsplit

from jobroom.errors import ConfigurationError
from jobroom.store.hrana.transport import Transport

SCHEMES = ("libsql", "https", "http", "libsql+client")
_SETTING = "ZNDRAW_JOBLIB_DATABASE_URL"
_ALLOWED = {
    "libsql": ("tls", "authToken"),
    "https": ("authToken",),
    "http": ("authToken",),
    "libsql+client": ("tls", "transport", "authToken"),
}


class Location(NamedTuple):
    """Where a database is. ``kind`` says by what it is reached; ``base_url`` holds no secret."""

    kind: Literal["http", "library"]
    base_url: str
    token: str | None


def parse(url: str) -> Location:
    """Read a URL; raises ConfigurationError with one sentence on what does not fit.

    ``libsql://`` and ``libsql+client://`` mean TLS unless ``?tls=0``, which needs a port.
    ``libsql+client://`` speaks WebSocket, or, with ``?transport=http``, plain requests.

    >>> parse("libsql://db.example.com").base_url
    'https://db.example.com'
    >>> parse("libsql+client://127.0.0.1:8080?tls=0&transport=http")
    Location(kind='library', base_url='http://127.0.0.1:8080', token=None)
    """
    parts = _split(url)
    query = _query(parts)
    is_library = parts.scheme == "libsql+client"
    is_secure = parts.scheme != "http" and _choice(query, "tls", ("1", "0")) == "1"
    if "tls" in query and not is_secure and parts.port is None:
        raise _fault("says tls=0 and no port; write libsql://HOST:PORT?tls=0")
    speaks = "ws" if _choice(query, "transport", ("ws", "http")) == "ws" and is_library else "http"
    scheme = speaks + "s" * is_secure
    base_url = f"{scheme}://{_place(parts)}"
    return Location("library" if is_library else "http", base_url, query.get("authToken") or None)


def safe_location(url: str) -> str:
    """The URL without anything that may be secret, to be logged and shown; never raises.

    >>> safe_location("libsql://db.example.com/main?authToken=secret")
    'libsql://db.example.com/main'
    """
    try:
        parts = urlsplit(url)
        is_clear = parts.hostname and "@" not in parts.path
        return f"{parts.scheme}://{_place(parts)}" if is_clear else "a libSQL database"
    except ValueError:
        return "a libSQL database"


def open_transport(
    url: str,
    token_provider: Callable[[], str | None] | None,
    timeout_seconds: float = 10.0,
    *,
    refused: Callable[[str | None], None] | None = None,
) -> Transport:
    """The transport that the URL names; a token in the URL is used where the provider gives none.

    ``refused`` is told of each token that the server does not take, before another is asked for.
    Nothing is sent yet. Raises ConfigurationError for a URL that does not fit, or where the
    library that it names is not installed.
    """
    location = parse(url)

    def token() -> str | None:
        given = token_provider() if token_provider is not None else None
        return given or location.token

    if location.kind == "library":
        from jobroom.store.hrana.client_library import LibsqlClientTransport

        return LibsqlClientTransport(
            location.base_url, token, refused=refused, timeout_seconds=timeout_seconds
        )
    from jobroom.store.hrana.http import HranaHttp

    return HranaHttp(location.base_url, token, refused=refused, timeout_seconds=timeout_seconds)


def _split(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        _ = parts.port  # raises for one that is no port
    except ValueError:
        raise _fault("is not a URL; write libsql://HOST, say") from None
    if parts.scheme not in SCHEMES:
        raise _fault(f"must begin with one of {', '.join(f'{name}://' for name in SCHEMES)}")
    if parts.username is not None or parts.password is not None:
        raise _fault("holds a user or a password; a libSQL server takes a token: ?authToken=...")
    if not parts.hostname:
        raise _fault("names no host; write libsql://HOST, say")
    if "@" in parts.path:
        raise _fault("has an @ behind its host; a libSQL server takes a token: ?authToken=...")
    if parts.fragment:
        raise _fault("has a part after '#'; leave that out")
    return parts


def _query(parts: SplitResult) -> dict[str, str]:
    allowed = _ALLOWED[parts.scheme]
    found: dict[str, str] = {}
    for name, value in parse_qsl(parts.query, keep_blank_values=True):
        if name not in allowed:
            raise _fault(f"has an unknown parameter; allowed are {', '.join(allowed)}")
        if name in found:
            raise _fault(f"says {name} twice")
        found[name] = value
    return found


def _choice(query: dict[str, str], name: str, choices: tuple[str, ...]) -> str:
    """The value of a parameter; the first of the choices where it is not said."""
    value = query.get(name, choices[0])
    if value not in choices:
        raise _fault(f"has a {name} that is not one of {', '.join(choices)}")
    return value


def _place(parts: SplitResult) -> str:
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    port = "" if parts.port is None else f":{parts.port}"
    return f"{host}{port}{parts.path.rstrip('/')}"


def _fault(what: str) -> ConfigurationError:
    # Without the URL itself: a token may stand in the wrong place.
    return ConfigurationError(f"{_SETTING} {what}.")
