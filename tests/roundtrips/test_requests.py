"""What each operation costs on libSQL: requests, which wait for the network, and rows, which are
billed (issue 3: the request counter prints 1; rows read and written at 1k and 100k pending).
"""

from __future__ import annotations

import pytest
from filled_site import ME, SIZES
from plots import Node, plant

from jobroom.domain import names
from jobroom.service import claiming, reading, reporting, submission, workers
from jobroom.service.reporting import Report
from jobroom.service.submission import NewTask

SMALL, LARGE = SIZES
ROOM = "room0"
LONG_AGO = 10
HEADS = f"{'requests':>12}{'rows read':>14}{'rows written':>14}"
ONE = (
    "submit",
    "submit, fair",
    "submit with a key",
    "submit with an id",
    "status of the first in line",
    "status of the last in line",
    "status of a held task",
    "status of a finished task",
    "claim",
    "claim by a worker heard of long ago",
    "claim of a fair job",
    "claim by a worker of 20 jobs",
    "claim and start",
    "claim and start by a worker of 20 jobs",
    "start",
    "progress",
    "progress by a worker heard of long ago",
    "complete",
    "fail for good",
    "heartbeat",
    "heartbeat with a notice",
)
TWO = (
    "complete and claim next",
    "complete and claim next by a worker of 20 jobs",
    "claim where nothing waits",
    "claim of what the worker had before",
    "cancel a held task",
    "complete what one waits for",
    "complete what 100 wait for",
    "complete the head of 100 in a row",
    "fail the head of 100 in a row",
)
"""A report and a claim; a claim and a look whether there is nothing at all, or a notice to drop.

A report of what is waited for: that it goes alone was not so; then all of it, with what it settles.
"""
OTHERS = (
    "submit again with the same key",
    "claim of two at once",
    "hand back",
    "fail with attempts left",
    "complete again",
    "cancel a task in line",
    "cancel what one waits for",
    "complete what one waits for and claim next",
)
"""Step by step, by a transaction: as many requests however many tasks wait."""
PLACES = "status of the last in line"
"""It counts the places before it, up to 1,000: by design it reads more where more wait."""


class Measured:
    """Every operation once, on one site."""

    def __init__(self, site):
        self.site = site
        self.costs = {}
        self._submit()
        self._read()
        self._work()
        self._report_what_ends_otherwise()
        self._end_in_a_graph()
        self._claim_otherwise()

    def _say(self, name, use_case, **said):
        self.costs[name], result = self.site.cost(use_case, **said)
        return result

    def _submit_to(self, job, name, **said):
        new = NewTask('{"angle": 1}', **said)
        return self._say(name, submission.submit_task, room_id=ROOM, job=job, new=new)

    def _claim(self, name, *, by="solo", **said):
        worker_id = self.site.workers[by]
        return self._say(name, claiming.claim_tasks, worker_id=worker_id, **said)[0].task

    def _report(self, name, task, status=None, **said):
        report = Report(status, attempt=task.attempt, **said)
        return self._say(name, reporting.report, task_id=task.id, report=report)

    def _submit(self):
        site = self.site
        self._submit_to(site.solo, "submit")
        self._submit_to(site.fair, "submit, fair")
        once = {"idempotency_key": "once", "fingerprint": "f"}
        self._submit_to(site.solo, "submit with a key", **once)
        self._submit_to(site.solo, "submit again with the same key", **once)
        chosen = {"id": "01a228f3-f9db-751e-a755-afedc232ce56", "fingerprint": "f"}
        self._submit_to(site.solo, "submit with an id", **chosen)

    def _read(self):
        for name in ("first", "last"):
            task_id = self.site.waiting(self.site.solo, last=name == "last")
            self._say(f"status of the {name} in line", reading.get_task, task_id=task_id)

    def _work(self):
        """A task's life, reported by a worker that is heard of all the time."""
        self.site.heard("solo", seconds_ago=0)
        held = self._claim("claim")
        self._report("hand back", held, "pending")
        held = self._claim("claim of what the worker had before")
        self._report("start", held, "running")
        self._report("progress", held, progress=0.5)
        self._say("status of a held task", reading.get_task, task_id=held.id)
        self._report("complete", held, "completed", result="[1]")
        self._say("status of a finished task", reading.get_task, task_id=held.id)
        self._report("complete again", held, "completed", result="[1]")
        started = self._claim("claim and start", start=True)
        self._report("complete and claim next", started, "completed", claim_next=True)

    def _report_what_ends_otherwise(self):
        site = self.site
        self._report("fail for good", self._claim("", start=True), "failed", error="no")
        self._submit_to(site.lenient, "submit")
        held = self._claim("", by="idle", start=True)
        self._report("fail with attempts left", held, "failed", error="no")
        self._report("fail for good", self._claim("", by="idle", start=True), "failed", final=True)
        held = self._claim("")
        for task_id, what in (
            (site.waiting(site.solo), "a task in line"),
            (held.id, "a held task"),
        ):
            cancelled = Report("cancelled")
            self._say(f"cancel {what}", reporting.report, task_id=task_id, report=cancelled)
        worker_id = site.workers["solo"]
        told = self._say("heartbeat with a notice", workers.heartbeat, worker_id=worker_id)
        assert told.cancel == [held.id]
        self._say("heartbeat", workers.heartbeat, worker_id=site.workers["crew"])

    def _end_in_a_graph(self):
        fan, row = [[0]] * 100, [[n] for n in range(100)]
        self._report("complete what one waits for", self._head_of([[0]]), "completed")
        self._report("complete what 100 wait for", self._head_of(fan), "completed")
        self._report("complete the head of 100 in a row", self._head_of(row), "completed")
        self._report("fail the head of 100 in a row", self._head_of(row), "failed", error="no")
        self._report("cancel what one waits for", self._head_of([[0]]), "cancelled")
        name = "complete what one waits for and claim next"
        self._report(name, self._head_of([[0]]), "completed", claim_next=True)

    def _head_of(self, dependents):
        """The first task of a graph, claimed and started; each next one depends on these places."""
        ids = [names.new_uuid7() for _ in range(len(dependents) + 1)]
        first = {"priority": 9, "room_id": ROOM}
        nodes = [Node(ids[0], (), first)]
        nodes += [
            Node(task_id, tuple((ids[place], "afterok") for place in places))
            for task_id, places in zip(ids[1:], dependents, strict=True)
        ]
        said = {"job": self.site.solo, "identity": ME.identity, "nodes": nodes}
        self.site.queue.run(plant, **said)
        held = self._claim("", start=True)
        assert held.id == ids[0]
        return held

    def _claim_otherwise(self):
        site = self.site
        for name in ("solo", "fair", "crew", "idle"):
            site.heard(name, seconds_ago=0)
        self._claim("claim of a fair job", by="fair")
        self._claim("claim by a worker of 20 jobs", by="crew")
        started = self._claim("claim and start by a worker of 20 jobs", by="crew", start=True)
        name = "complete and claim next by a worker of 20 jobs"
        self._report(name, started, "completed", claim_next=True)
        self._claim("claim of two at once", limit=2)
        idle = {"worker_id": site.workers["idle"]}
        self._say("claim where nothing waits", claiming.claim_tasks, **idle)
        site.heard("solo", seconds_ago=LONG_AGO)
        held = self._claim("claim by a worker heard of long ago", start=True)
        site.heard("solo", seconds_ago=LONG_AGO)
        self._report("progress by a worker heard of long ago", held, progress=0.5)


@pytest.fixture(scope="module")
def costs(sites):
    """What each operation took, by size."""
    return {size: Measured(site).costs for size, site in sites.items()}


@pytest.mark.parametrize("name", ONE)
def test_the_operation_is_one_request(name, costs):
    assert [costs[size][name].requests for size in SIZES] == [1, 1]


@pytest.mark.parametrize("name", TWO)
def test_the_operation_is_two_requests(name, costs):
    assert [costs[size][name].requests for size in SIZES] == [2, 2]


@pytest.mark.parametrize("name", OTHERS)
def test_the_operation_takes_as_many_requests_at_100k_as_at_1k(name, costs):
    assert costs[LARGE][name].requests == costs[SMALL][name].requests > 1


@pytest.mark.parametrize("name", sorted({*ONE, *TWO, *OTHERS} - {PLACES}))
def test_the_operation_reads_and_writes_as_many_rows_at_100k_as_at_1k(name, costs):
    assert costs[LARGE][name][1:] == costs[SMALL][name][1:]


def test_a_claim_reads_no_more_rows_the_more_its_worker_holds(sites):
    site = sites[SMALL]
    crew = {"worker_id": site.workers["fair"]}
    before, _ = site.cost(claiming.claim_tasks, **crew)
    for _ in range(20):
        site.cost(claiming.claim_tasks, **crew)
    after, _ = site.cost(claiming.claim_tasks, **crew)
    assert after.rows_read == before.rows_read


def test_a_place_in_the_queue_is_counted_up_to_1000(costs):
    at_first = costs[LARGE]["status of the first in line"]
    assert costs[LARGE][PLACES].rows_read - at_first.rows_read in range(990, 1001)


def test_the_costs_are_printed(costs, tally):
    tally(f"{'one operation on libSQL, at 1,000 / 100,000 pending':53}{HEADS}")
    for name in (*ONE, *TWO, *OTHERS):
        small, large = costs[SMALL][name], costs[LARGE][name]
        pairs = [f"{one:,} / {other:,}" for one, other in zip(small, large, strict=True)]
        tally(f"  {name:49}" + "".join(f"{pair:>14}" for pair in pairs))
