"""Maps many payloads over the worker of rotate.py, with a progress bar and memory that stays flat.

JOBROOM_URL=http://127.0.0.1:8000 JOBROOM_TOKEN=... python many.py 10000
"""

import sys

from rich.progress import Progress

import jobroom

number = int(sys.argv[1])
points = [{"a": (x, 0, 0)} for x in range(number)]

with jobroom.Client() as client, Progress() as bars:
    bar = bars.add_task("distances", total=number)

    def show(done: int, failed: int, _total: int | None) -> None:
        """Move the bar; the number that failed stands beside it."""
        bars.update(bar, completed=done, description=f"distances, {failed} failed")

    total = sum(client.map("r1:analysis:Distance", points, returns=float, on_progress=show))

print(total)
