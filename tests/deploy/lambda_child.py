"""One environment as a process of its own: an event a line comes in, an answer a line goes out."""

from __future__ import annotations

import json
import sys

from lambda_events import Context

import app

CALLS = {"handler": app.handler, "sweep": app.sweep}


def main():
    for line in sys.stdin:
        asked = json.loads(line)
        answer = CALLS[asked["call"]](asked["event"], Context(asked["seconds"]))
        sys.stdout.write(f"answer:{json.dumps(answer)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
