"""A machine that drives the embedded queue and its model side by side."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from comparison import same
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from local_model import ERROR, SUCCESS, Job, LocalModel
from model_edges import CONDITIONS

from jobroom.embedded import JobStatus, JobWithContext, SqliteQueue

OTHER_PROCESS = 4_000_001
NAMES = ("a", "b", "c", "d", "e", "f", "g", "h", "i", "0190163d-8694-739b-aea5-966c26f8ad91")

names = st.sampled_from(NAMES)
some_names = st.sets(st.sampled_from(NAMES), max_size=3)
kinds = st.sampled_from(("afterok", "afterok", *CONDITIONS))
parents = st.none() | names
statuses = st.sampled_from(list(JobStatus))
details = st.sampled_from((None, "it broke", "half way"))
picks = st.integers(0, 11)


class LocalMachine(RuleBasedStateMachine):
    """Rules are the methods of the class, each with any argument at any moment."""

    def __init__(self, make_file: Callable[[], Path]) -> None:
        super().__init__()
        self.queue = SqliteQueue(make_file())
        self.model = LocalModel(os.getpid())

    def teardown(self) -> None:
        """Let go of the file."""
        self.queue.close()

    def both(self, name: str, predict: Callable[[], Any], act: Callable[[], Any]) -> None:
        """The same answer, or KeyError from both for a job that is not there."""
        try:
            got = act()
        except KeyError:
            assert name not in self.model.jobs
            return
        same(got, predict())

    def known(self, pick: int, *statuses: str) -> str:
        """Mostly a job that has one of these statuses."""
        found = self.model.having(*statuses) if pick < 10 else []
        return found[pick % len(found)] if found else NAMES[pick % len(NAMES)]

    @rule(name=names, depends_on=some_names, kind=kinds, parent=parents)
    def add_job(self, name: str, depends_on: set[str], kind: str, parent: str | None) -> None:
        """A job, whatever it waits for, and whoever submits it."""
        job = _config(name, depends_on=depends_on or None, dependency_type=kind)
        new = Job(dict(job.parameters), kind)
        same(
            self.queue.add_job(job, parent),
            self.model.add(name, new, depends_on=depends_on, parent=parent),
        )

    @rule(chain=st.permutations(NAMES), kind=kinds)
    def add_a_chain(self, chain: list[str], kind: str) -> None:
        """Each waits for the one before it, some of which come later."""
        for name, needed in itertools.pairwise(chain[:5]):
            self.add_job(name, {needed}, kind, None)

    @precondition(lambda self: self.model.jobs)
    @rule(name=names, pick=picks, depends_on=st.sets(st.sampled_from(NAMES), max_size=1))
    def add_a_child(self, name: str, pick: int, depends_on: set[str]) -> None:
        """Of a job that others wait for, if there is one."""
        awaited = sorted({each for job in self.model.jobs.values() for each in job.needs})
        parent = awaited[pick % len(awaited)] if awaited else None
        free = [each for each in NAMES if each not in self.model.jobs]
        self.add_job(free[pick % len(free)] if free else name, depends_on, "afterok", parent)

    @rule(how_many=st.integers(1, 3))
    def get_job(self, how_many: int) -> None:
        """Who asks gets the first that is ready."""
        for _ in range(how_many):
            payload = self.queue.get_job().payload
            taken = self.model.take()
            if payload.type_ != "job":
                same(payload.type_, taken)
                break
            same(payload.job.job_id, taken)
            same(payload.job.parameters, self.model.jobs[taken].parameters)

    @rule(pick=picks, status=statuses, details=details)
    def update(self, pick: int, status: JobStatus, details: str | None) -> None:
        """Any status at any moment."""
        self._update(NAMES[pick % len(NAMES)], status, details)

    def _update(self, name: str, status: JobStatus, details: str | None) -> None:
        self.both(
            name,
            lambda: self.model.update(name, status.name, details),
            lambda: self.queue.update_job_status(name, status, details),
        )

    @rule(pick=picks, is_ok=st.booleans(), details=details)
    def end_what_runs(self, pick: int, *, is_ok: bool, details: str | None) -> None:
        """A worker reports."""
        end = JobStatus.SUCCESS if is_ok else JobStatus.ERROR
        self._update(self.known(pick, "RUNNING", "READY"), end, details)

    @rule(pick=picks, details=details)
    def queue_again_what_has_ended(self, pick: int, details: str | None) -> None:
        """It is to run once more."""
        self._update(self.known(pick, ERROR, SUCCESS), JobStatus.PENDING, details)

    @rule(pick=picks, n=st.integers())
    def change_config(self, pick: int, n: int) -> None:
        """Another config for it."""
        name = NAMES[pick % len(NAMES)]
        job = _config(name, depends_on={"nobody"}, parameters={"n": n})
        self.both(
            name,
            lambda: self.model.replace(name, {"n": n}),
            lambda: self.queue.change_config_in_place(job),
        )

    @rule(pick=picks)
    def set_worker(self, pick: int) -> None:
        """Another process runs it."""
        name = self.known(pick, "RUNNING")
        self.both(
            name,
            lambda: self.model.set_worker(name, OTHER_PROCESS),
            lambda: self.queue.set_job_worker(name, OTHER_PROCESS),
        )

    @rule(is_own=st.booleans())
    def fail_jobs_of_worker(self, *, is_own: bool) -> None:
        """A process has died."""
        process = os.getpid() if is_own else OTHER_PROCESS
        same(self.queue.fail_jobs_of_worker(process), self.model.fail_jobs_of(process))

    @rule(is_still=st.booleans())
    def fail_deadlocked(self, *, is_still: bool) -> None:
        """Nothing moves; mostly somebody has ended all that did."""
        for name in self.model.having("READY", "RUNNING") if is_still else ():
            self._update(name, JobStatus.SUCCESS, None)
        same(self.queue.fail_deadlocked_jobs(), self.model.fail_deadlocked())

    @rule()
    def reopen(self) -> None:
        """Nothing is kept in memory alone."""
        self.queue.close()
        self.queue = SqliteQueue(self.queue.database_file)

    @invariant()
    def the_queue_is_the_model(self) -> None:
        """The report, the names by status, and what is told of each."""
        counts = {status.name.lower(): len(self.model.having(status.name)) for status in JobStatus}
        same(
            self.queue.get_jobs_report().model_dump(),
            {"total": len(self.model.jobs), **counts},
        )
        for status in JobStatus:
            wanted = sorted(self.model.having(status.name))
            same(self.queue.get_job_ids_with_status(status), wanted)
        failed = {each.job_id: each for each in self.queue.get_failed_jobs()}
        same(list(failed), sorted(self.model.having(ERROR)))
        for name, job in self.model.jobs.items():
            told = self.queue.get_job_status(name)
            same(told.status.name, job.status)
            assert _is_told(told.status_details, job.details), (name, told, job.details)
            job.details = {told.status_details}
            if name in failed:
                same(failed[name].status_details, told.status_details)


def _config(name: str, **given: Any) -> JobWithContext:
    given = {"parameters": {"name": name}, **given}
    return JobWithContext(job_id=name, function="jobroom.testing.do_nothing", **given)


def _is_told(told: str | None, wanted: set[str | None]) -> bool:
    """Whether that may be told; of a lost worker not each word is fixed."""
    lost = any((each or "").startswith("The worker that ran") for each in wanted)
    return told in wanted or (lost and (told or "").startswith("The worker that ran this job"))


def driving(make_file: Callable[[], Path]) -> type[LocalMachine]:
    """The machine on a fresh file for each example."""

    class Driving(LocalMachine):
        def __init__(self) -> None:
            super().__init__(make_file)

    return Driving
