"""What submitting tasks that depend on others costs on libSQL: requests (issue 4)."""

from __future__ import annotations

import pytest
from filled_site import Site

from jobroom.errors import DependencyCycle
from jobroom.service import bulk, submission
from jobroom.service.planning import Asked
from jobroom.service.submission import NewTask

ROOM = "room0"
READ_WRITE_COMMIT = 4
"""The dependencies, the jobs, all that is written with what is answered, and the commit."""


@pytest.fixture(scope="module")
def site(sqld):
    """A queue without tasks."""
    sqld.fork_namespace("migrated", "graphs")
    made = Site(sqld.url_of("graphs"))
    yield made
    made.queue.close()


def submit(site, job=None, **said):
    new = NewTask('{"angle": 1}', **said)
    return site.cost(submission.submit_task, room_id=ROOM, job=job or site.solo, new=new)


def submit_all(site, news, *, job=None, key=None):
    asked = [Asked(new, job or site.solo, ("tasks", n)) for n, new in enumerate(news)]
    return site.cost(bulk.submit_tasks, room_id=ROOM, asked=asked, key=key)


def test_one_that_depends_on_another_is_four_requests(site, tally) -> None:
    _, first = submit(site)
    cost, second = submit(site, depends_on=((first.view.task.id, "afterok"),))
    tally(requests=cost.requests, rows_read=cost.rows_read, rows_written=cost.rows_written)
    assert second.view.task.status == "blocked"
    assert cost.requests == READ_WRITE_COMMIT


def test_as_many_for_100_dependencies_as_for_one(site) -> None:
    _, made = submit_all(site, [NewTask() for _ in range(100)])
    needs = tuple((view.task.id, "afterok") for view in made.views)
    cost, _ = submit(site, depends_on=needs)
    assert cost.requests == READ_WRITE_COMMIT


def test_a_key_is_one_request_more(site) -> None:
    _, first = submit(site)
    said = {"depends_on": ((first.view.task.id, "afterok"),), "fingerprint": "f"}
    with_key, _ = submit(site, idempotency_key="k", **said)
    again, done = submit(site, idempotency_key="k", **said)
    assert (with_key.requests, done.replayed) == (READ_WRITE_COMMIT + 1, True)
    assert again.requests <= with_key.requests


@pytest.mark.parametrize("count", [1, 100, 500])
def test_a_bulk_is_three_requests_however_many_tasks(site, count, tally) -> None:
    """The jobs, all tasks and edges with what is answered, and the commit."""
    news = [NewTask(depends_on=((n - 1, "afterok"),) if n else ()) for n in range(count)]
    cost, made = submit_all(site, news)
    tally(tasks=count, **cost._asdict())
    assert len(made.views) == count
    assert cost.requests == 3


def test_a_bulk_of_1000_reads_its_answer_in_two(site) -> None:
    cost, made = submit_all(site, [NewTask() for _ in range(1000)])
    assert (cost.requests, len(made.views)) == (4, 1000)


def test_a_bulk_with_a_key_is_one_request_more(site) -> None:
    news = [NewTask(fingerprint="f") for _ in range(100)]
    cost, made = submit_all(site, news, key="of the bulk")
    again, same = submit_all(site, news, key="of the bulk")
    assert (cost.requests, again.requests) == (4, 4)
    assert [view.task.id for view in same.views] == [view.task.id for view in made.views]


def test_a_bulk_for_a_fair_job_is_no_more_requests(site) -> None:
    cost, made = submit_all(site, [NewTask() for _ in range(100)], job=site.fair)
    assert cost.requests == 3
    assert len({view.task.turn for view in made.views}) == 100


def test_a_refused_graph_is_read_and_not_written(site) -> None:
    before = site.spent().rows_written
    news = [NewTask(depends_on=((1, "afterok"),)), NewTask(depends_on=((0, "afterok"),))]
    with pytest.raises(DependencyCycle):
        submit_all(site, news)
    assert site.spent().rows_written == before
