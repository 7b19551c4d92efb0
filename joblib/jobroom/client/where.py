"""Where requests go, for log lines and messages: without a password."""

from __future__ import annotations

import urllib.request
from typing import Any

import httpx


def server_of(api: Any) -> str:
    """Return the server's address."""
    return _without_secrets(api.base_url)


def server_and_proxy_of(api: Any) -> str:
    """Return the server's address, and the proxy that stands before it if there is one."""
    proxy = _proxy_of(api)
    return f"{server_of(api)} proxy={proxy}" if proxy else server_of(api)


def _proxy_of(api: Any) -> str | None:
    """Return the proxy that the environment puts before the server."""
    try:
        url = httpx.URL(api.base_url)
    except (httpx.InvalidURL, TypeError):
        return None
    if not getattr(api.http, "trust_env", False) or urllib.request.proxy_bypass(url.host):
        return None
    proxies = urllib.request.getproxies()
    proxy = proxies.get(url.scheme) or proxies.get("all")
    return _without_secrets(proxy if "://" in proxy else f"http://{proxy}") if proxy else None


def _without_secrets(base_url: str) -> str:
    try:
        url = httpx.URL(base_url)
    except (httpx.InvalidURL, TypeError):
        return "?"
    return f"{url.scheme}://{url.netloc.decode()}"
