"""A worker of the embedded queue: ``kill_drain_local.py NOTES NUMBER FILE``.

Runs jobs until all have ended and there is a file ``all-added`` beside ``NOTES``. A job adds its
children, and ends as it was planned to; one that is to die stops halfway in its first run, and
waits there to be killed.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from kill_drained import IN_VAIN, Notes, await_kill

from jobroom.embedded import JobStatus, JobWithContext, SqliteQueue


def described(job):
    """A job of the plan as one of the queue."""
    (condition,) = set(job.needs.values()) or {"afterok"}
    return JobWithContext(
        job_id=job.name,
        depends_on=set(job.needs) or None,
        dependency_type=condition,
        function="jobroom.testing.do_nothing",
        parameters={
            "ends_well": job.ends_well,
            "dies": job.dies is not None,
            "children": [described(child).model_dump(mode="json") for child in job.children],
        },
    )


def run(queue, job, notes, path):
    notes.add("start", job.job_id)
    children = [JobWithContext.model_validate(each) for each in job.parameters["children"]]
    half = len(children) // 2
    is_first = job.num_attempted_runs == 0
    for n, child in enumerate(children):
        if job.parameters["dies"] and is_first and n == half:
            await_kill(path, job.job_id)
        # Those that were added before its worker was killed are there.
        assert queue.add_job(child, job.job_id) == (is_first or n >= half), child.job_id
    ends_well = job.parameters["ends_well"]
    notes.add("end", job.job_id)
    status = JobStatus.SUCCESS if ends_well else JobStatus.ERROR
    queue.update_job_status(job.job_id, status, None if ends_well else IN_VAIN)


def main(path, database):
    queue, notes = SqliteQueue(database), Notes(path)
    all_added = path.with_name("all-added")
    while True:
        may_end = all_added.exists()
        found = queue.get_job().payload
        if found.type_ == "job":
            run(queue, found.job, notes, path)
        elif found.type_ == "complete" and may_end:
            break
        else:
            time.sleep(0.002)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[3])
