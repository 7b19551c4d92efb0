"""Claimers in a process of its own: ``python claimer.py PORT PORT``, tokens on a line of stdin.

Each claims until it gets nothing, through one of the servers. Prints as JSON what each claim got,
when it was sent and when it was answered, by the clock that all processes share.
"""

from __future__ import annotations

import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection


def claim_all(port, token):
    connection = HTTPConnection("127.0.0.1", port, timeout=60)
    headers = {"Authorization": f"Bearer {token}"}
    claims = []
    while not claims or claims[-1][0]:
        sent = time.monotonic()
        connection.request("POST", "/v1/joblib/tasks/claim", headers=headers)
        answer = connection.getresponse()
        task = json.loads(answer.read())["task"]
        claims.append([task and task["id"], sent, time.monotonic()])
    connection.close()
    return claims


def main(*ports):
    print("ready", flush=True)  # noqa: T201
    tokens = sys.stdin.readline().split()
    with ThreadPoolExecutor(len(tokens)) as pool:
        jobs = [
            pool.submit(claim_all, int(ports[number % len(ports)]), token)
            for number, token in enumerate(tokens)
        ]
    print(json.dumps([claim for job in jobs for claim in job.result()]))  # noqa: T201


if __name__ == "__main__":
    main(*sys.argv[1:])
