"""A time before 1970 is a time like any other that has passed (rules, *Time fields*)."""

from __future__ import annotations

import pytest

from jobroom.domain import damage, timetext
from jobroom.service import claiming, reading, registration, submission
from jobroom.service.queue import JobQueue

EARLY = ["0001-01-01T00:00:00Z", "1969-12-31T23:59:59Z", "1970-01-01T00:00:00Z"]


@pytest.mark.parametrize("text", EARLY)
def test_a_run_at_before_1970_is_claimable_at_once(queue: JobQueue, alice, text: str) -> None:
    """What Go and .NET send for no time at all."""
    spec = registration.JobSpec("modifiers", "Rotate")
    job = queue.run(registration.register_job, caller=alice, room_id="r1", spec=spec).view.job
    new = submission.NewTask("{}", run_at=timetext.parse_time(text))
    made = queue.run(submission.submit_task, caller=alice, room_id="r1", job=job, new=new)
    read = queue.run(reading.get_task, caller=alice, task_id=made.view.task.id)
    assert damage.is_sound(read.task)
    assert timetext.format_time(read.task.run_at).startswith(text[:19])
    [claimed] = queue.run(claiming.claim_tasks, caller=alice)
    assert claimed.task.id == made.view.task.id
