"""The deploy's one file: ``app`` for an ASGI server, ``handler`` and ``sweep`` for AWS Lambda.

It holds no logic and opens nothing: the store is opened by the first request, or by the server.
"""

from __future__ import annotations

import gc

# What modules make is there to stay: to look through it for garbage, again and again while they are
# loaded, was a tenth of a cold start.
gc.set_threshold(50_000, 20, 20)

from jobroom.aws.environment import Environment  # noqa: E402 - see above
from jobroom.aws.handler import Handler  # noqa: E402
from jobroom.aws.sweep import Sweep  # noqa: E402
from jobroom.bootstrap import create_app  # noqa: E402

app = create_app()
environment = Environment(app)
sweep = Sweep(environment)
handler = Handler(environment, sweep)
