"""Addresses of servers, as people type them."""

from __future__ import annotations

from urllib.parse import urlsplit

import httpx

from jobroom.errors import ConfigurationError

MOST_PORT = 65_535


def check(url: str) -> None:
    """Raise ``ConfigurationError`` for what is no address of a server, which is not repeated.

    It may hold a password, typed where none belongs.
    """
    if not str(url).startswith(("http://", "https://")):
        raise ConfigurationError(
            "The server's address must begin with http:// or https://; set JOBROOM_URL so."
        )
    if (fault := _fault_in(str(url))) is not None:
        raise ConfigurationError(f"The server's address {fault}; write it as http://host:port.")


def _fault_in(url: str) -> str | None:
    """Say what is wrong with it; None if nothing is."""
    if not url.isprintable() or any(letter.isspace() for letter in url):
        return "holds a space or a line end"
    try:
        parts = urlsplit(url)
        host = httpx.URL(url).host
    except (ValueError, httpx.InvalidURL):
        return "has a host or a port that cannot be"
    if "@" in parts.netloc:
        return "names a user or a password, and the token belongs into JOBROOM_TOKEN"
    if not host:
        return "names no host"
    if parts.query or parts.fragment:
        return "holds a ? or a #, and ends before them"
    return _fault_in_port(parts.netloc.rpartition("]")[2])


def _fault_in_port(netloc: str) -> str | None:
    _, colon, port = netloc.partition(":")
    if not colon or (port.isascii() and port.isdigit() and 0 < int(port) <= MOST_PORT):
        return None
    return f"has a port that cannot be (1 to {MOST_PORT})"
