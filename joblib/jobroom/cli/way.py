"""The way to the server, looked at hop by hop: proxy, name, port, certificate, health, clock."""

from __future__ import annotations

import socket
import ssl
import time
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus

import httpx

from jobroom import __version__
from jobroom.cli.checkpoint import TRY_SECONDS, Place, Skipped, Wrong, object_of, said_of

MOST_SKEW_SECONDS = 30.0


def dns(place: Place) -> str:
    """Whether the nearest host has an address."""
    host, port = place.nearest
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as failure:
        why = getattr(failure, "strerror", None) or "it is no host name"
        raise Wrong(
            f"{host} is not known ({why})",
            "Check the address for typing errors, and this machine's DNS.",
        ) from None
    return f"{host} is {', '.join(dict.fromkeys(str(one[4][0]) for one in found))}"


def tcp(place: Place) -> str:
    """Whether it takes connections."""
    host, port = place.nearest
    began = time.monotonic()
    try:
        socket.create_connection((host, port), timeout=TRY_SECONDS).close()
    except OSError as failure:
        raise Wrong(
            f"{host} port {port} takes no connection ({failure.strerror or failure})",
            "Start the server there, check the port, or ask who runs the firewall between.",
        ) from None
    return f"{host} port {port} takes connections ({_ms(began)})"


def tls(place: Place) -> str:
    """Whether its certificate is good."""
    if place.url.scheme != "https":
        raise Skipped("the address begins with http://")
    if place.proxy is not None:
        raise Skipped("the proxy stands between; the next lines tell")
    host, port = place.nearest
    try:
        with (
            socket.create_connection((host, port), timeout=TRY_SECONDS) as plain,
            httpx.create_ssl_context().wrap_socket(plain, server_hostname=host) as secured,
        ):
            version, certificate = secured.version(), secured.getpeercert() or {}
    except ssl.SSLCertVerificationError as failure:
        raise Wrong(
            f"the certificate is refused ({failure.verify_message})",
            "Name your authority's certificate in SSL_CERT_FILE, and use the name in the address"
            " that the certificate is for.",
        ) from None
    except OSError as failure:
        raise Wrong(
            f"no TLS is spoken there ({getattr(failure, 'reason', None) or failure})",
            "If the server has no TLS, the address begins with http://.",
        ) from None
    return f"{version}, certificate good until {certificate.get('notAfter', 'an unknown day')}"


def proxy(place: Place) -> str:
    """Which proxy stands between; none is good too."""
    shown = place.proxy_without_password
    return "none" if shown is None else f"{shown} (from the environment)"


def healthz(place: Place) -> str:
    """Whether it is the job queue that answers."""
    began = time.monotonic()
    try:
        answer = place.ask("GET", "/healthz")
    except httpx.HTTPError as failure:
        raise Wrong(
            f"/healthz is not answered ({said_of(failure)})",
            "Check what listens there, and the proxy if there is one.",
        ) from None
    place.date = answer.headers.get("date")
    if answer.status_code != HTTPStatus.OK or "status" not in object_of(answer):
        raise Wrong(
            f"/healthz is answered {answer.status_code}, not by the job queue",
            "Check the address: it ends before /v1/joblib, and a proxy's login page is none.",
        )
    return f"answers ({_ms(began)})"


def readyz(place: Place) -> str:
    """Whether its database takes writes."""
    answer = place.ask("GET", "/readyz")
    if answer.status_code != HTTPStatus.OK:
        raise Wrong(
            f"the server is there, its database takes no writes ({answer.status_code})",
            "Wait a moment; if it stays so, look at the server's log.",
        )
    return "the database takes writes"


def versions(place: Place) -> str:
    """Whether both are of one major version."""
    document = place.ask("GET", "/openapi.json")
    info = object_of(document).get("info")
    theirs = info.get("version") if isinstance(info, dict) else None
    if not isinstance(theirs, str):
        return f"this {__version__}; the server does not tell its own"
    if theirs.partition(".")[0] != __version__.partition(".")[0]:
        raise Wrong(
            f"the server is {theirs}, this is {__version__}",
            f'Install the one that fits: pip install "jobroom=={theirs}".',
        )
    return f"server {theirs}, this {__version__}"


def clock(place: Place) -> str:
    """Whether both clocks agree, by the answer's Date."""
    if place.date is None:
        raise Skipped("the server tells no time")
    try:
        theirs = parsedate_to_datetime(place.date).timestamp()
    except (ValueError, OverflowError):
        raise Skipped("the server tells no time that can be read") from None
    skew = datetime.now(UTC).timestamp() - theirs
    if abs(skew) > MOST_SKEW_SECONDS:
        ahead = "ahead of" if skew > 0 else "behind"
        raise Wrong(
            f"this machine's clock is {abs(skew):.0f} s {ahead} the server's",
            "Let NTP set it: tokens made here may be refused.",
        )
    return "this machine's and the server's agree"


def _ms(began: float) -> str:
    return f"{1000 * (time.monotonic() - began):.0f} ms"
