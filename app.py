"""The deploy's one file: ``app`` for any ASGI server. It holds no logic and opens nothing."""

from __future__ import annotations

from jobroom.bootstrap import create_app

app = create_app()
