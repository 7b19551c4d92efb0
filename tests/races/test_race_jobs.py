"""A job that comes and goes: registering, leaving, submitting and tidying up at one moment."""

from __future__ import annotations

from uuid import uuid4

import pytest
import racing
from live_server import BASE
from racing import NEW_WORKER, ROUNDS, SWEEP, Request, claim, registration, report, submission

HIDDEN_BUT_USED = """
SELECT job.name FROM job WHERE hidden = 1 AND room_id = ? AND (
    EXISTS (SELECT 1 FROM task WHERE job_seq = job.seq
            AND status IN ('blocked', 'pending', 'claimed', 'running'))
    OR EXISTS (SELECT 1 FROM worker_job_link JOIN worker ON worker.id = worker_id
               WHERE job_seq = job.seq AND state = 'active'))
"""
NEVER_HIDDEN, REFUSED = "never hidden", "task refused"
# Each alone as well: where both come, the one would make good what the other has missed.
COMPANY = {
    "register": {201: "back by the worker"},
    "submit": {202: "back by the task"},
    "register || submit": {201: "back by the worker", 202: "back by the task"},
}
COMERS = {
    "register": [racing.OWNER],
    "submit": [racing.CREATOR],
    "register || submit": [racing.OWNER, racing.CREATOR],
}


class Stage:
    """A job whose last worker leaves in each round, just when somebody else comes."""

    def __init__(self, pair, room, company, creator, worker):
        self.pair, self.room, self.company = pair, room, company
        self.creator, self.worker = creator, worker
        self.last = self.join(self.make_worker())
        self.version = self.job_version()

    def make_worker(self):
        return self.worker.expect(201, *NEW_WORKER)["id"]

    def join(self, worker_id):
        answer = self.worker.send(*registration(self.room, worker_id=worker_id))
        assert answer.status in (200, 201)
        return worker_id

    def job_version(self):
        """It rises when the job is hidden, and when it is listed again."""
        [[version]] = self.pair.rows("SELECT version FROM job WHERE room_id = ?", self.room)
        return version

    def leave(self):
        return Request("DELETE", f"{BASE}/workers/{self.last}")

    def leave_an_orphan(self):
        """No worker, no task, and still listed: it had a task when its last worker left."""
        task_id = self.creator.expect(202, *submission(self.room))["id"]
        assert self.worker.send(*self.leave()).status == 204
        self.creator.expect(200, *report(task_id, "cancelled"))

    def comers(self, new):
        known = {
            "register": registration(self.room, worker_id=new),
            "submit": submission(self.room),
        }
        return [known[name] for name in self.company.split(" || ")]

    def outcome(self, new, answers):
        """Nothing hangs on a hidden job, and who serves it gets what was accepted."""
        assert self.pair.rows(HIDDEN_BUT_USED, self.room) == []
        statuses = [answer.status for answer in answers]
        assert set(statuses) <= {200, 201, 202, 404, 409}
        before, self.version = self.version, self.job_version()
        submitted = [answer.body["id"] for answer in answers if answer.status == 202]
        self.serve(new, submitted)
        if {404, 409} & set(statuses):
            self.version = self.job_version()  # with the registration that serve() needed
            return REFUSED
        if self.version == before:
            assert 201 not in statuses
            return NEVER_HIDDEN
        assert self.version == before + 2
        return COMPANY[self.company][201 if 201 in statuses else 202]

    def serve(self, new, submitted):
        self.last = self.join(new)
        task = self.worker.expect(200, *claim(new, start=True))["task"]
        assert [task["id"]] == submitted if task else not submitted
        if task:
            self.worker.expect(200, *report(task["id"], "completed", attempt=1))


@pytest.fixture(params=COMPANY)
def stage(pair, request):
    with pair.line(racing.CREATOR) as creator, pair.line(racing.OWNER, 1) as worker:
        yield Stage(pair, f"stage-{uuid4()}", request.param, creator, worker)


def told(stage):
    return {"expected": (NEVER_HIDDEN, *COMPANY[stage.company].values()), "perhaps": (REFUSED,)}


def test_a_job_whose_last_worker_leaves_serves_who_comes_at_that_moment(stage, outcomes_of):
    """C16: DELETE of the last worker || PUT of the job by another || POST of a task."""
    outcomes = []
    with racing.Race(stage.pair, racing.OWNER, *COMERS[stage.company]) as race:
        for _ in range(ROUNDS):
            new = stage.make_worker()
            left, *answers = race.run(stage.leave(), *stage.comers(new))
            assert left.status == 204
            outcomes.append(stage.outcome(new, answers))
            race.learn(first_won=outcomes[-1] != NEVER_HIDDEN)
    outcomes_of(f"leave || {stage.company}", outcomes, **told(stage))


def test_a_sweep_hides_no_job_that_is_taken_up_at_that_moment(stage, outcomes_of):
    """C16 with the sweep as who removes: contract, *The sweep*, orphan jobs."""
    outcomes = []
    with racing.Race(stage.pair, racing.ADMIN, *COMERS[stage.company]) as race:
        for _ in range(ROUNDS):
            stage.leave_an_orphan()
            new = stage.make_worker()
            swept, *answers = race.run(SWEEP, *stage.comers(new))
            outcomes.append(stage.outcome(new, answers))
            assert swept.body["hidden_jobs"] == (outcomes[-1] != NEVER_HIDDEN)
            race.learn(first_won=outcomes[-1] != NEVER_HIDDEN)
    outcomes_of(f"orphan sweep || {stage.company}", outcomes, **told(stage))


@pytest.mark.parametrize("same", [True, False], ids=["one identity", "twenty identities"])
def test_of_twenty_registrations_of_a_new_job_one_makes_it(pair, me, outcomes_of, same):
    """C15: one 201, nineteen 200, one row, one link for each worker."""
    room, rounds = f"twenty-{same}", 20
    schema = {"type": "object", "properties": {"angle": {"type": "number"}}}
    subs = [me if same else f"{me}-{number}" for number in range(20)]
    with racing.Race(pair, *subs) as race:
        for number in range(rounds):
            wish = registration(room, name=f"Job {number}", schema=schema)
            answers = race.run(*[wish] * 20)
            assert sorted(answer.status for answer in answers) == [200] * 19 + [201]
            assert len({answer.body["id"] for answer in answers}) == 1
            assert {answer.body["worker_id"] for answer in answers} == set(subs)
    jobs = pair.rows("SELECT seq FROM job WHERE room_id = ?", room)
    links = "SELECT count(*) FROM worker_job_link WHERE job_seq = ?"
    assert len(jobs) == rounds
    assert {pair.rows(links, *job)[0][0] for job in jobs} == {len(set(subs))}
    seen = "one 201 and nineteen 200"
    name = f"20 x register ({len(set(subs))} identities)"
    outcomes_of(name, [seen] * rounds, expected=(seen,), rounds=rounds)
