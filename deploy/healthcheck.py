"""Ends with 0 if the server of this container answers; the image's health check runs it."""

from __future__ import annotations

import os
import sys
from http.client import HTTPConnection, HTTPException

SECONDS = 3


def main() -> str | None:
    """What is wrong, None if nothing is."""
    # By name: a server that listens on :: has no IPv4 address. urllib would ask a proxy.
    connection = HTTPConnection("localhost", int(os.environ.get("PORT") or 8080), timeout=SECONDS)
    try:
        connection.request("GET", "/healthz")
        status = connection.getresponse().status
    except (OSError, HTTPException) as error:
        return f"no answer: {error}"
    finally:
        connection.close()
    return None if status == 200 else f"the server answers {status}"  # noqa: PLR2004 - OK


if __name__ == "__main__":
    sys.exit(main())
