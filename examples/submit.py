"""Submits to the worker of rotate.py and waits for what comes out.

JOBROOM_URL=http://127.0.0.1:8000 JOBROOM_TOKEN=... python submit.py
"""

import jobroom

with jobroom.Client() as client:
    task = client.submit("r1:modifiers:rotate", angle=90)
    for progress in task.progress():
        print(f"{progress.fraction or 0:4.0%} {progress.status} {progress.message or ''}")
    print(task.result(timeout=30))

    points = [{"a": (x, 0, 0)} for x in range(5)]
    print(list(client.map("r1:analysis:Distance", points)))
