"""One SDK worker to be killed: ``kill_worker.py LOG URL JOB OPTIONS SECONDS [AHEAD]``.

Serves one job, whose tasks take ``SECONDS``; ``LOG`` gets a line when a task begins and one when
its work is done, each with this process's id. With ``AHEAD`` it claims so many tasks at once, runs
the first of them and no other.
"""

from __future__ import annotations

import json
import os
import sys
import time

import live_server

from jobroom import Connection, Extension, JobManager
from jobroom.client.task import ClaimedTask, current_task


def note(path, *words):
    line = " ".join(map(str, (*words, os.getpid()))) + "\n"
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(file, line.encode())
    os.close(file)


def job_class(name, log, seconds):
    def run(self, vis, **kwargs):
        task = current_task()
        note(log, "begin", task.id, task.attempt)
        time.sleep(seconds)
        note(log, "end", task.id, task.attempt)
        return {"pid": os.getpid()}

    return type(name, (Extension,), {"run": run, "__module__": __name__})


def run_first_of(jobs, ahead):
    claim = {"worker_id": jobs.worker.arrive(), "limit": ahead}
    jobs.worker.start_beating()
    path = f"{jobs.api.base_url}{live_server.BASE}/tasks/claim"
    answer = jobs.api.http.post(path, json=claim, headers=jobs.api.get_headers()).json()
    ClaimedTask.model_validate(answer["tasks"][0]).bind(jobs.worker).run()


def main(log, url, name, options, *how):
    seconds, ahead = [*map(float, how), 0][:2]
    jobs = JobManager(Connection(url, live_server.token_of("crew", is_admin=True)))
    jobs.register(job_class(name, log, seconds), room="r1", **json.loads(options))
    if ahead:
        run_first_of(jobs, int(ahead))
    with jobs:
        for task in jobs.listen(1.0):
            task.run()


if __name__ == "__main__":
    main(*sys.argv[1:])
