"""A process that was forked has not opened the queue: it is told so, and the parent's goes on."""

from __future__ import annotations

import os
import warnings
from pathlib import Path

import pytest

from jobroom.domain.records import Caller
from jobroom.errors import StoreUnavailable
from jobroom.service import registration, submission
from jobroom.service.queue import JobQueue
from jobroom.settings import JobLibSettings

ME = Caller("alice", is_admin=True)


@pytest.mark.parametrize("kind", ["sqlite", "libsql", "postgresql"])
def test_a_queue_that_was_opened_before_a_fork_is_refused_after_it(
    stores, kind: str, tmp_path: Path
) -> None:
    """Two processes on one connection would read each other's answers."""
    with JobQueue.open(JobLibSettings(database_url=stores.fresh(kind, tmp_path))) as queue:
        spec = registration.JobSpec("modifiers", "Rotate")
        job = queue.run(registration.register_job, caller=ME, room_id="r1", spec=spec).view.job

        def submit() -> object:
            new = submission.NewTask("{}")
            return queue.run(submission.submit_task, caller=ME, room_id="r1", job=job, new=new)

        assert submit()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # a fork beside threads, from 3.12
            child = os.fork()
        if child == 0:
            code = 1
            try:
                submit()
            except StoreUnavailable as error:
                queue.close()
                code = 0 if "forked" in str(error) else 2
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert submit()
