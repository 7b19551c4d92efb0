"""What the jobs of the pipelines do: each writes a line into the run's log when it is run."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import time
from pathlib import Path

from pyantz.infrastructure.config import JobConfig
from pyantz.infrastructure.runner.local import local_runner


def _log(parameters, *, began=None):
    """One write of one line: the processes of a pool share the file."""
    now = time.monotonic()  # one clock for all processes of a machine
    queue = local_runner.SqliteQueue
    line = {
        "job": parameters["job"],
        "process": os.getpid(),
        "began": began or now,
        "ended": now,
        "queue": f"{queue.__module__}:{queue.__qualname__}",
        "digest": hashlib.sha256(parameters.get("filler", "").encode()).hexdigest(),
    }
    log = os.open(parameters["log"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(log, json.dumps(line).encode() + b"\n")
    os.close(log)


def _child(parameters, job, function="succeed", **others):
    return JobConfig(
        job_id=job,
        function=f"pipeline_jobs.{function}",
        parameters={"log": parameters["log"], "job": job} | others.pop("own", {}),
        **others,
    )


def succeed(parameters, submit):
    began = time.monotonic()
    time.sleep(parameters.get("seconds", 0))
    _log(parameters, began=began)
    return True


def fail_at_first(parameters, submit):
    """Raises in the first ``failures`` runs; a file counts them."""
    _log(parameters)
    counter = Path(parameters["counter"])
    runs = int(counter.read_text()) + 1 if counter.exists() else 1
    counter.write_text(str(runs))
    if runs <= parameters["failures"]:
        raise ValueError(f"failure {runs}")
    return True


def return_false(parameters, submit):
    _log(parameters)
    return False


def add_children(parameters, submit):
    """Submits jobs that take a while, and one of them has a child of its own."""
    _log(parameters)
    for number in range(parameters["children"]):
        submit(_child(parameters, f"child-{number}", own={"seconds": 0.2}))
    submit(_child(parameters, "middle", "add_grandchild"))
    return True


def add_grandchild(parameters, submit):
    _log(parameters)
    submit(_child(parameters, "grandchild", own={"seconds": 0.2}))
    return True


def add_one_that_waits_for_ever(parameters, submit):
    _log(parameters)
    submit(_child(parameters, "stuck", depends_on={"never-added"}))
    return True


def add_one_that_is_there(parameters, submit):
    _log(parameters)
    submit(_child(parameters, "start"))
    return True


def kill_the_worker(parameters, submit):
    _log(parameters)
    os.kill(os.getpid(), signal.SIGKILL)


def outlast_the_test(parameters, submit):
    _log(parameters)
    time.sleep(600)
    return True
