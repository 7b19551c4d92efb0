"""A queue on a libSQL server where tasks wait by the thousand, and what each operation costs."""

from __future__ import annotations

from typing import NamedTuple

from jobroom.domain.records import Caller
from jobroom.service import registration
from jobroom.service import workers as crew
from jobroom.service.queue import JobQueue
from jobroom.settings import JobLibSettings
from jobroom.store.hrana.transport import Step
from jobroom.store.libsql import CLOCK

SIZES = (1_000, 100_000)
ROOMS = 10
CREW_JOBS = 20
ME = Caller("alice", is_admin=True)
BATCH = 25_000
# Half of them wait in one job, a quarter in a fair one, the rest in those of the worker of many.
ROW = {
    "id": "printf('%08x-%04x-7000-8000-%012x', n >> 16, n & 65535, n)",
    "job_seq": "CASE n % 4 WHEN 0 THEN :fair WHEN 1 THEN :first_of_crew + n / 4 % :jobs"
    " ELSE :solo END",
    "room_id": "'room' || (n / 4 % :rooms)",
    "created_by_id": "'user' || (n % 10)",
    "status": "'pending'",
    "ready": "1",
    "priority": "0",
    "turn": "CASE n % 4 WHEN 0 THEN n / 4 / :rooms ELSE 0 END",
    "payload": "'{\"angle\": 90}'",
    "schema_version": "1",
    "created_at": f"{CLOCK} + n",
    "attempt": "0",
    "starts": "0",
    "idle_claims": "0",
    "max_attempts": "1",
    "has_dependencies": "0",
    "has_dependents": "0",
    "version": "1",
}
FILL = (
    "WITH RECURSIVE numbers(n) AS"  # noqa: S608 - of the constants above
    " (SELECT :start UNION ALL SELECT n + 1 FROM numbers WHERE n < :end)"
    f" INSERT INTO task ({', '.join(ROW)}) SELECT {', '.join(ROW.values())} FROM numbers"
)
TURNS = (
    "INSERT INTO fair_turn (job_seq, priority, room_id, next)"
    " SELECT job_seq, 0, room_id, max(turn) + 1 FROM task WHERE job_seq = ? GROUP BY room_id"
)


class Cost(NamedTuple):
    """What one operation took."""

    requests: int
    rows_read: int
    rows_written: int

    def __sub__(self, other):
        return Cost(*(mine - its for mine, its in zip(self, other, strict=True)))


class Site:
    """An open queue with tasks that wait; its workers serve one job, five, or twenty."""

    def __init__(self, url):
        self.url = url
        self.queue = JobQueue.open(JobLibSettings(database_url=url))
        self.workers = {
            name: self._worker() for name in ("solo", "fair", "crew", "idle", "nothing")
        }
        self.solo = self.register("Solo", by="solo")
        self.fair = self.register("Fair", by="fair", claim_order="fair")
        self.empty_jobs = [self.register(f"Empty{number}", by="nothing") for number in range(5)]
        self.lenient = self.register("Lenient", by="idle", on_worker_lost="requeue")
        self.crew_jobs = [self.register(f"Crew{number}", by="crew") for number in range(CREW_JOBS)]

    def register(self, name, *, by, **policy):
        """The job of that name, served by one of the workers."""
        made = self.queue.run(
            registration.register_job,
            caller=ME,
            room_id="@global",
            spec=registration.JobSpec("modifiers", name, **policy),
            worker_id=self.workers[by],
        )
        return made.view.job

    def fill(self, pending):
        """Past the queue, with what each row would hold had it been submitted."""
        values = {
            "fair": self.fair.seq,
            "solo": self.solo.seq,
            "first_of_crew": self.crew_jobs[0].seq,
            "jobs": CREW_JOBS,
            "rooms": ROOMS,
        }
        text = FILL
        for name, value in values.items():
            text = text.replace(f":{name}", str(value))
        for start in range(1, pending + 1, BATCH):
            end = min(start + BATCH - 1, pending)
            self.sql(text.replace(":start", str(start)).replace(":end", str(end)))
        self.sql(TURNS, self.fair.seq)

    def sql(self, text, *values):
        return self.queue.database.transport.batch([Step(text, values)], write=True)[0].rows

    def waiting(self, job, *, last=False):
        """The id of the first task that waits in a job, or of the last."""
        order = "DESC" if last else "ASC"
        text = (
            "SELECT id FROM task WHERE job_seq = ? AND status = 'pending'"  # noqa: S608 - no value
            f" ORDER BY turn {order}, seq {order} LIMIT 1"
        )
        return self.sql(text, job.seq)[0][0]

    def heard(self, name, *, seconds_ago):
        """The worker was heard of last so long ago."""
        text = f"UPDATE worker SET last_heartbeat = {CLOCK} - ? WHERE id = ?"  # noqa: S608 - a constant
        self.sql(text, seconds_ago * 1_000_000, self.workers[name])

    def spent(self):
        counters = self.queue.database.transport.counters
        return Cost(counters.requests, counters.rows_read, counters.rows_written)

    def cost(self, use_case, **said):
        """What a use case takes, and its result."""
        before = self.spent()
        result = self.queue.run(use_case, caller=ME, **said)
        return self.spent() - before, result

    def _worker(self):
        return self.queue.run(crew.create_worker, caller=ME, name=None).worker.id
