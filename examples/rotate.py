"""A worker for two jobs.

JOBROOM_URL=http://127.0.0.1:8000 JOBROOM_TOKEN=... jobroom worker rotate.py --room r1
"""

import math
import time
from typing import Any, ClassVar

import jobroom


@jobroom.job
def rotate(angle: float, axis: str = "z", steps: int = 4) -> dict[str, float | str]:
    """Turn by an angle in degrees; the parameters are the payload, and its schema."""
    task = jobroom.current_task()  # None where the function is simply called
    for step in range(1, steps + 1):
        print(f"turning about {axis}: {angle * step / steps:.1f}")  # goes into the task's log
        if task is not None:
            task.progress(step / steps, f"step {step} of {steps}")
        time.sleep(0.05)
    return {"axis": axis, "radians": math.radians(angle)}


class Distance(jobroom.Extension):
    """How far two points are apart: a class with fields and a run is a job too."""

    category: ClassVar[str] = "analysis"
    a: tuple[float, float, float]
    b: tuple[float, float, float] = (0, 0, 0)

    def run(self, vis: Any, **kwargs: Any) -> float:  # noqa: ARG002 - a host's object
        """Do the work; what is returned becomes the result."""
        return math.dist(self.a, self.b)
