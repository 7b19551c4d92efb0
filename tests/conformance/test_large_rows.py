"""A row that a store does not take is refused as too large, never as a fault of ours."""

from __future__ import annotations

from pathlib import Path

import pytest

from jobroom.domain.records import Caller
from jobroom.errors import PayloadTooLarge
from jobroom.service import claiming, registration, reporting, submission
from jobroom.service.queue import JobQueue
from jobroom.settings import JobLibSettings

ME = Caller("alice", is_admin=True)


def test_a_result_that_the_store_takes_no_row_for_is_refused_and_a_smaller_one_taken(
    stores, tmp_path: Path
) -> None:
    """sqld takes rows of 5 MB unless it is told otherwise; the contract's limit is 16 MiB."""
    settings = JobLibSettings(database_url=stores.fresh("libsql", tmp_path))
    with JobQueue.open(settings) as queue:
        spec = registration.JobSpec("modifiers", "Rotate")
        job = queue.run(registration.register_job, caller=ME, room_id="r1", spec=spec).view.job
        new = submission.NewTask("{}")
        queue.run(submission.submit_task, caller=ME, room_id="r1", job=job, new=new)
        [claimed] = queue.run(claiming.claim_tasks, caller=ME, start=True)

        def report(size: int) -> reporting.Reported:
            said = reporting.Report(status="completed", attempt=1, result='"' + "x" * size + '"')
            return queue.run(reporting.report, caller=ME, task_id=claimed.task.id, report=said)

        with pytest.raises(PayloadTooLarge, match="keeps no task of that size"):
            report(6_000_000)
        assert report(1_000_000).view.task.status == "completed"
