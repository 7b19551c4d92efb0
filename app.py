"""The deploy's one file: ``app`` for an ASGI server, ``handler`` and ``sweep`` for AWS Lambda.

It holds no logic and opens nothing: the store is opened by the first request, or by the server.
"""

from __future__ import annotations

from jobroom.aws.environment import Environment
from jobroom.aws.handler import Handler
from jobroom.aws.sweep import Sweep
from jobroom.bootstrap import create_app

app = create_app()
environment = Environment(app)
sweep = Sweep(environment)
handler = Handler(environment, sweep)
