"""What the embedded queue should hold, as plain dicts: its methods by the words of the contract."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from model_edges import stands

READY, PENDING, RUNNING, ERROR, SUCCESS = "READY", "PENDING", "RUNNING", "ERROR", "SUCCESS"
STATUSES = (READY, PENDING, RUNNING, ERROR, SUCCESS)
QUEUED, ENDED = {READY, PENDING}, {ERROR, SUCCESS}
CASCADE = "A job this job depends on failed"
BY_SUCCESS = "A job this job depends on succeeded, and was to fail"
IN_REST_WORDS = {SUCCESS: "completed", ERROR: "failed"}


@dataclass(eq=False)
class Job:
    """A job; ``needs`` says how each of its edges stands, and ``details`` what may be told."""

    parameters: dict[str, Any]
    condition: str
    needs: dict[str, str] = field(default_factory=dict)
    status: str = READY
    details: set[str | None] = field(default_factory=lambda: {None})
    worker: int | None = None
    has_begun: bool = False


class LocalModel:
    """The jobs by their names, in the order of ``add_job``; KeyError where the queue raises it."""

    def __init__(self, process: int) -> None:
        self.process = process
        self.jobs: dict[str, Job] = {}

    def having(self, *statuses: str) -> list[str]:
        """The names of the jobs that have one of these, in order."""
        return [name for name, job in self.jobs.items() if job.status in statuses]

    def add(self, name: str, new: Job, *, depends_on: set[str], parent: str | None) -> bool:
        """Add a job, unless it is there, waits for itself, or comes too late."""
        parent = None if parent == name else parent
        heirs = [job for job in self.jobs.values() if parent in job.needs]
        if name in self.jobs or name in depends_on or self._is_too_late(parent, heirs):
            return False
        heirs = [job for job in heirs if job.status in QUEUED]
        if self._would_wait_for_itself(name, depends_on, heirs):
            return False
        for heir in heirs:
            heir.needs.setdefault(name, "waiting")
            heir.status = PENDING
        new.needs = {each: self._stands(new, each) for each in depends_on}
        new.status = PENDING if depends_on else READY
        self.jobs[name] = new
        self.settle()
        return True

    def _is_too_late(self, parent: str | None, heirs: list[Job]) -> bool:
        is_live = parent in self.jobs and self.jobs[parent].status not in ENDED
        return not is_live and any(
            heir.status in {RUNNING, SUCCESS} or (heir.status == ERROR and heir.has_begun)
            for heir in heirs
        )

    def _would_wait_for_itself(self, name: str, depends_on: set[str], heirs: list[Job]) -> bool:
        reached: set[str] = set()
        ahead = list(depends_on)
        while ahead:
            each = ahead.pop()
            job = self.jobs.get(each)
            if job is None or job.status not in QUEUED or each in reached:
                continue
            reached.add(each)
            if job in heirs:
                return True
            ahead += [needed for needed, state in job.needs.items() if state == "waiting"]
            if name in job.needs:
                return True
        return False

    def _stands(self, job: Job, needed: str) -> str:
        known = self.jobs.get(needed)
        return stands(job.condition, IN_REST_WORDS.get(known.status, "") if known else "")

    def settle(self) -> None:
        """Let every job that waits be what its dependencies say, until nothing changes."""
        moves = True
        while moves:
            moves = False
            for job in self.jobs.values():
                for each, state in job.needs.items():
                    if state == "waiting":
                        job.needs[each] = self._stands(job, each)
                before = job.status
                if job.status == PENDING:
                    self._place(job)
                moves = moves or job.status != before

    def _place(self, job: Job) -> None:
        """Where a job belongs that has not begun."""
        if "broken" in job.needs.values():
            why = BY_SUCCESS if job.condition == "afternotok" else CASCADE
            job.status, job.details = ERROR, {why}
        else:
            job.status = PENDING if "waiting" in job.needs.values() else READY

    def take(self) -> str:
        """The first READY job runs; else ``pending`` or ``complete``."""
        for name in self.having(READY):
            self._run(self.jobs[name], None)
            return name
        return "pending" if self.having(PENDING, RUNNING) else "complete"

    def _run(self, job: Job, details: str | None) -> None:
        job.status, job.details = RUNNING, {details}
        job.worker, job.has_begun = self.process, True

    def update(self, name: str, status: str, details: str | None) -> None:
        """Any status at any moment."""
        job = self.jobs[name]
        if status in QUEUED:
            self._queue(name, job, details)
        elif job.status in ENDED:
            return
        elif status in ENDED:
            job.status, job.details = status, {details}
            self.settle()
        elif job.status in QUEUED:
            self._run(job, details)
        else:
            job.details = {details}

    def _queue(self, name: str, job: Job, details: str | None) -> None:
        was = job.status
        job.details = {details}
        if was in QUEUED:
            return
        job.worker, job.status = None, PENDING
        job.needs = {each: self._stands(job, each) for each in job.needs}
        for other in self.jobs.values() if was in ENDED else ():
            if name in other.needs and other.status in QUEUED:
                other.needs[name], other.status = "waiting", PENDING
        self._place(job)
        self.settle()

    def replace(self, name: str, parameters: dict[str, Any]) -> None:
        """Another config; what it depends on stays."""
        self.jobs[name].parameters = parameters

    def set_worker(self, name: str, process: int) -> None:
        """Who runs it, unless it has ended."""
        job = self.jobs[name]
        job.worker = job.worker if job.status in ENDED else process

    def fail_jobs_of(self, process: int) -> list[str]:
        """What a process runs fails."""
        held = [name for name in self.having(RUNNING) if self.jobs[name].worker == process]
        for name in held:
            self.jobs[name].status = ERROR
            self.jobs[name].details = {f"The worker that ran this job ended ({process})"}
            self.settle()
        return held

    def fail_deadlocked(self) -> list[str]:
        """What waits in vain fails, if nothing is READY or RUNNING, until something is."""
        failed: set[str] = set()
        while self.having(PENDING) and not self.having(READY, RUNNING):
            vain = self._in_vain() or set(self.having(PENDING))
            stories = {name: self._why_in_vain(self.jobs[name]) for name in vain}
            for name, story in stories.items():
                self.jobs[name].status, self.jobs[name].details = ERROR, story
            self.settle()
            failed |= vain
        return [name for name in self.jobs if name in failed]

    def _in_vain(self) -> set[str]:
        """Those that wait for what is not there, and those that need one of them to succeed."""
        vain: set[str] = set()
        while True:
            more = {
                name
                for name in self.having(PENDING)
                if name not in vain
                for each in self._awaited(self.jobs[name])
                if each not in self.jobs
                or (each in vain and self.jobs[name].condition == "afterok")
            }
            if not more:
                return vain
            vain |= more

    @staticmethod
    def _awaited(job: Job) -> list[str]:
        return [each for each, state in job.needs.items() if state == "waiting"]

    def _why_in_vain(self, job: Job) -> set[str | None]:
        missing = [each for each in self._awaited(job) if each not in self.jobs]
        if missing:
            return {f"It waits for {each}, which never came" for each in missing}
        return {f"It waits for {each}, which can never run" for each in self._awaited(job)}
