"""The seed's *Usage Example*, to be run as it stands with a ``vis`` in scope."""

from __future__ import annotations

import textwrap

USAGE = textwrap.dedent("""
    from pydantic import BaseModel

    # Extension classes are Pydantic BaseModels
    class Rotate(BaseModel):
        category: str = "modifiers"  # class attribute for category
        angle: float = 0.0
        axis: str = "z"

    # 1. Register jobs
    @vis.jobs.register  # @global by default
    class Rotate(BaseModel):
        angle: float = 0.0

    @vis.jobs.register(room="room_123")
    class PrivateRotate(BaseModel):
        angle: float = 0.0

    print(len(vis.jobs))  # 2 Jobs Registered

    # 2. Consume tasks
    for task in vis.jobs.listen():
        vis.jobs.heartbeat()  # keep alive during processing
        task.run(vis)
""")
