"""The parts of a request as gateways write them: pairs, paths and hosts."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

DEFAULT_PORTS = {"https": 443, "http": 80}

_ENCODED = re.compile(r"(?:[A-Za-z0-9\-._~!$&'()*+,;=:@/]|%[0-9A-Fa-f]{2})*")
_PATH_SAFE = "/-._~!$&'()*+,;=:@"


def pairs(event: Mapping[str, Any], single: str, several: str = "") -> Iterator[tuple[str, str]]:
    """Names with values, a pair for each value; where one stands in both, its list counts."""
    lists: Mapping[str, Iterable[str]] = event.get(several) or {}
    for name, value in (event.get(single) or {}).items():
        if name not in lists and value is not None:
            yield name, str(value)
    for name, values in lists.items():
        for value in values or ():
            if value is not None:
                yield name, str(value)


def decoded_or_not(path: str) -> tuple[str, str]:
    """A path, encoded and decoded, from a gateway that decodes.

    What it decoded holds no escape any more, or something that an encoded path cannot hold; else
    it was not decoded after all, as by a stand-in for the gateway.
    """
    if _ENCODED.fullmatch(path):
        return path, unquote(path)
    return quote(path, safe=_PATH_SAFE, errors="replace"), path


def encoded(path: str) -> str:
    """A path that came encoded; whatever is no ASCII in it was not."""
    return path if path.isascii() else quote(path, safe=f"{_PATH_SAFE}%", errors="replace")


def server(first: Mapping[bytes, bytes], scheme: str) -> tuple[str, int] | None:
    """Host and port of the Host header, whose host may be an IPv6 literal."""
    host, _, port = _split_host(first.get(b"host", b"").decode("latin-1").strip())
    if not host:
        return None
    port = port or first.get(b"x-forwarded-port", b"").decode("latin-1").strip()
    is_number = port.isascii() and port.isdigit() and len(port) <= len("65535")
    return host, int(port) if is_number else DEFAULT_PORTS.get(scheme, 443)


def _split_host(given: str) -> tuple[str, str, str]:
    if given.startswith("["):
        host, _, rest = given[1:].partition("]")
        return host, "]", rest.removeprefix(":")
    if given.count(":") > 1:
        return given, "", ""
    return given.partition(":")
