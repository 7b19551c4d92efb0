"""4 processes drain a random graph; two of them are killed on the way (issue 4, *Done when*).

``JOBROOM_DRAIN_JOBS`` (10000) is the number of jobs of the embedded queue.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import kill_drain_local
import kill_drain_rest
import live_server
from kill_crew import environment, until
from kill_drained import IN_VAIN, Log, Notes, check_log, check_rows
from kill_graph import Maker
from kill_store import Store

from jobroom.embedded import JobStatus, SqliteQueue

HERE = Path(__file__).parent
WORKERS, WORKERS_KILLED = 4, 2
JOBS = int(os.environ.get("JOBROOM_DRAIN_JOBS", "10000"))
TASKS = 1000
LONGEST_SECONDS = 300
WITHOUT_WAITING = {"ZNDRAW_JOBLIB_SQLITE_SYNCHRONOUS": "NORMAL"}
"""For the disk: that is for power cuts, which tests have not."""
CASCADE = "A job this job depends on failed"
BY_SUCCESS = "A job this job depends on succeeded, and was to fail"
SETTINGS = {"worker_timeout_seconds": 10, "sweeper_interval_seconds": 0.5}


class Crew:
    """Workers of one program, each with its own notes."""

    def __init__(self, folder, processes, program, arguments):
        self.folder = folder / "notes"
        self.folder.mkdir(exist_ok=True)
        self.notes = Notes(self.folder / "parent.notes")
        self._processes, self._program, self._arguments = processes, HERE / program, arguments
        self._started = 0
        self.members: list[subprocess.Popen] = []
        for _ in range(WORKERS):
            self.start()

    def start(self):
        path, number = self.folder / f"{self._started}.notes", str(self._started)
        self._started += 1
        command = [sys.executable, "-W", "error", self._program, path, number, *self._arguments]
        process = subprocess.Popen(command, env=environment() | WITHOUT_WAITING)
        self.members.append(process)
        self._processes.append(process)

    def dying(self, job):
        """Who holds this job, and waits to be killed."""
        found = [int(path.suffix[1:]) for path in self.folder.glob(f"{job.name}.dies.*")]
        assert len(found) <= 1
        return next((each for each in self.members if each.pid in found), None)

    def kill(self, process):
        process.kill()
        process.wait()
        self.members.remove(process)

    def are_done(self):
        """Whether all have ended; none may have failed, as others would wait for its job."""
        codes = [each.poll() for each in self.members]
        assert set(codes) <= {None, 0}
        return codes == [0] * WORKERS

    def wait(self):
        until(self.are_done, seconds=LONGEST_SECONDS, what="a worker never ended")


def make_graph(size, *, is_mixed):
    seed = int(os.environ.get("JOBROOM_DRAIN_SEED", random.randrange(10**6)))
    print(f"JOBROOM_DRAIN_SEED={seed}")  # noqa: T201 - shown if the test fails
    return Maker(size, seed, is_mixed=is_mixed), seed


def counts_of(graph, log):
    ends = Counter(fate.end for fate in graph.fates.values())
    return {
        "jobs": len(graph.fates),
        "edges": sum(len(fate.needs) for fate in graph.fates.values()),
        "added_by_jobs": sum(fate.parent is not None for fate in graph.fates.values()),
        **{end.replace(" ", "_"): ends[end] for end in ("well", "badly", "lost", "never begun")},
        "starts": log.count("start"),
    }


# --- the embedded queue -----------------------------------------------------------------------


def add_early(queue, jobs):
    """In order, but that one in ten comes later than some of those that depend on it."""
    order = {
        job.name: place + random.choice((0,) * 9 + (random.uniform(1, 20),))
        for place, job in enumerate(jobs)
    }
    for job in sorted(jobs, key=lambda job: order[job.name]):
        assert queue.add_job(kill_drain_local.described(job), None)


class Runner:
    """Adds the late jobs and mourns the dead, as pyantz's runner does, in both its ways."""

    def __init__(self, queue, crew, graph):
        self._queue, self._crew = queue, crew
        self._doomed = [job for job in graph.early if job.dies]

    def add(self, jobs):
        for job in jobs:
            assert self._queue.add_job(kill_drain_local.described(job), None)
            self.look()

    def look(self):
        self._crew.are_done()
        for job in self._doomed:
            if (holder := self._crew.dying(job)) is not None:
                self._crew.kill(holder)
                self._bury(job, holder.pid)
                self._doomed.remove(job)
                self._crew.start()
                break
        return not self._doomed

    def _bury(self, job, pid):
        if job.dies == "lost":
            self._crew.notes.add("end", job.name)
            assert self._queue.fail_jobs_of_worker(pid) == [job.name]
        else:
            again = kill_drain_local.described(job).model_copy(update={"num_attempted_runs": 1})
            self._queue.change_config_in_place(again)
            self._queue.update_job_status(job.name, JobStatus.PENDING)
            assert self._queue.fail_jobs_of_worker(pid) == []


def check_told(queue, fates):
    """The queue tells the same, in its words."""
    ended_well = sorted(name for name, fate in fates.items() if fate.end == "well")
    assert queue.get_job_ids_with_status(JobStatus.SUCCESS) == ended_well
    failed = {report.job_id: report.status_details for report in queue.get_failed_jobs()}
    assert failed.keys() == fates.keys() - set(ended_well)
    for name, details in failed.items():
        fate = fates[name]
        if fate.end == "badly":
            assert details == IN_VAIN
        elif fate.end == "lost":
            assert details.startswith("The worker that ran this job ended before it did")
        else:
            by_success = {needed for needed in fate.broken if fates[needed].end == "well"}
            stories = {BY_SUCCESS: by_success, CASCADE: fate.broken - by_success}
            assert stories[details]
    report = queue.get_jobs_report()
    assert (report.total, report.success) == (len(fates), len(ended_well))
    assert (report.ready, report.pending, report.running) == (0, 0, 0)
    assert queue.fail_deadlocked_jobs() == []


def test_processes_drain_a_random_graph_of_the_embedded_queue(
    empty_database, tmp_path, processes, tally, monkeypatch
):
    for setting in WITHOUT_WAITING.items():
        monkeypatch.setenv(*setting)
    graph, seed = make_graph(JOBS, is_mixed=False)
    path = tmp_path / "queue.db"
    path.write_bytes(empty_database.read_bytes())
    with SqliteQueue(path) as queue:
        began = time.monotonic()
        add_early(queue, graph.early)
        loaded = time.monotonic()
        crew = Crew(tmp_path, processes, "kill_drain_local.py", [path])
        runner = Runner(queue, crew, graph)
        runner.add(graph.late)
        (crew.folder / "all-added").touch()
        until(runner.look, seconds=LONGEST_SECONDS, what="nobody came to be killed")
        crew.wait()
        drained = time.monotonic()
        log = Log(crew.folder)
        check_log(log, graph.fates)
        check_told(queue, graph.fates)
    lost = "The worker that ran this job ended before it did"
    check_rows(Store(path), graph.fates, name_of=lambda row: row.key, lost=lost)
    tally(
        **counts_of(graph, log),
        killed=WORKERS_KILLED,
        load_seconds=round(loaded - began, 1),
        drain_seconds=round(drained - loaded, 1),
        seed=seed,
    )


# --- over REST --------------------------------------------------------------------------------


def submit(client, jobs, number):
    for start in range(0, len(jobs), number):
        tasks = [kill_drain_rest.described(job) for job in jobs[start : start + number]]
        client.send("POST", kill_drain_rest.TASKS, {"tasks": tasks}, expect=202)


class Reaper:
    """Kills the two workers and, when a third is done, a server, which it starts again."""

    def __init__(self, crew, graph, server, store):
        self._crew, self._server, self._store = crew, server, store
        self._doomed = [job for job in graph.early if job.dies]
        self._size = len(graph.fates)
        self.servers_killed = 0

    def look(self):
        self._crew.are_done()
        for job in list(self._doomed):
            if (holder := self._crew.dying(job)) is not None:
                if job.dies == "lost":
                    self._crew.notes.add("end", job.name)
                self._crew.kill(holder)
                self._doomed.remove(job)
                self._crew.start()
        ended = self._store.count("task WHERE completed_at IS NOT NULL")
        if not self.servers_killed and ended > self._size / 3:
            self._server.kill()
            self._server.start()
            self.servers_killed += 1
        return not self._store.count("task WHERE completed_at IS NULL")


def test_workers_drain_a_random_graph_over_rest(place, tally):
    """Two servers on one file; one of them is killed as well."""
    graph, seed = make_graph(TASKS, is_mixed=True)
    servers = [place.start(**SETTINGS) for _ in range(2)]
    urls = [server.until_ready().url for server in servers]
    store = Store(place.folder / "jobroom.db")
    with servers[0].client(live_server.token_of(kill_drain_rest.IDENTITY)) as client:
        for name, policy in kill_drain_rest.JOBS.items():
            live_server.register(client, name=name, **policy)
    began = time.monotonic()
    (place.folder / "notes").mkdir()
    notes = Notes(place.folder / "notes" / "client.notes")
    with kill_drain_rest.patient(1, urls, notes) as client:
        submit(client, graph.early, 300)
        loaded = time.monotonic()
        crew = Crew(place.folder, place.processes, "kill_drain_rest.py", urls)
        reaper = Reaper(crew, graph, servers[0], store)
        submit(client, graph.late, 10)
    until(reaper.look, seconds=LONGEST_SECONDS, what="a task never ended")
    (crew.folder / "stop").touch()
    crew.wait()
    drained = time.monotonic()
    log = Log(crew.folder)
    check_log(log, graph.fates)
    check_rows(
        store,
        graph.fates,
        name_of=lambda row: json.loads(row.payload)["name"],
        lost="Worker disconnected: worker ",
    )
    tally(
        **counts_of(graph, log),
        killed=WORKERS_KILLED,
        servers_killed=reaper.servers_killed,
        broken=log.count("broken"),
        odd=log.count("odd"),
        load_seconds=round(loaded - began, 1),
        drain_seconds=round(drained - loaded, 1),
        seed=seed,
    )
