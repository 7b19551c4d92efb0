"""Who works with the embedded queue: threads, forks, processes, and those that die."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import sqlite3
import subprocess
import sys
import textwrap
import threading
import time
from collections import Counter
from contextlib import closing
from pathlib import Path

import jobmaker
import pytest
from jobmaker import CASCADE, add, counts, details, statuses, succeed, take

import jobroom
from jobroom.embedded import JobStatus, SqliteQueue, local_queue

DEAD = 4_194_305
"""No process can have this number."""
WORKER = """
import sys, time
from jobroom.embedded import JobStatus, SqliteQueue
queue, left = SqliteQueue(sys.argv[1]), int(sys.argv[2])
print("ready", flush=True)
sys.stdin.readline()
while (found := queue.get_job().payload).type_ != "complete":
    if found.type_ == "pending":
        time.sleep(0.002)
        continue
    print(found.job.job_id, flush=True)
    left -= 1
    if not left:
        sys.stdin.read()  # holds the job until it is killed
    time.sleep(0.002)
    queue.update_job_status(found.job.job_id, JobStatus.SUCCESS)
"""


def run_python(code: str, *arguments: object, **options: object) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": str(Path(jobroom.__file__).parent.parent)}
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(code), *map(str, arguments)],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,  # type: ignore[call-overload]  # options of a process
    )


def output_of(code: str, *arguments: object) -> str:
    process = run_python(code, *arguments)
    said, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (0, "")
    return said


def test_the_jobs_of_a_dead_worker_fail_with_a_reason_and_what_waits_for_them(queue) -> None:
    for each in "abc":
        add(queue, each)
    add(queue, "after", "b")
    assert [take(queue), take(queue), take(queue)] == ["a", "b", "c"]
    queue.set_job_worker("c", DEAD)
    queue.set_job_worker("b", DEAD)
    assert queue.fail_jobs_of_worker(DEAD) == ["b", "c"]
    assert statuses(queue, "a", "b", "c", "after") == "RUNNING ERROR ERROR ERROR"
    assert f"process {DEAD} on" in (details(queue, "b") or "")
    assert details(queue, "after") == CASCADE
    assert queue.fail_jobs_of_worker(DEAD) == []


def test_who_takes_a_job_is_its_worker_until_somebody_else_is_named(queue) -> None:
    """A worker that dies before it says who it is is found too."""
    add(queue, "a")
    take(queue)
    assert queue.fail_jobs_of_worker(os.getpid()) == ["a"]


def test_a_finished_or_queued_job_is_no_longer_its_workers(queue) -> None:
    for each in "ab":
        add(queue, each)
        take(queue)
        queue.set_job_worker(each, DEAD)
    succeed(queue, "a")
    jobmaker.again(queue, "b")
    assert queue.fail_jobs_of_worker(DEAD) == []
    assert statuses(queue, "a", "b") == "SUCCESS READY"


def test_equal_numbers_on_two_hosts_are_two_workers(queue, monkeypatch) -> None:
    add(queue, "a")
    take(queue)
    monkeypatch.setattr(local_queue, "_host", lambda: "elsewhere")
    assert queue.fail_jobs_of_worker(os.getpid()) == []
    monkeypatch.undo()
    assert queue.fail_jobs_of_worker(os.getpid()) == ["a"]


def test_a_queue_can_be_pickled_and_means_the_same_file(path, monkeypatch, tmp_path) -> None:
    monkeypatch.chdir(path.parent)
    queue = SqliteQueue(path.name)
    assert queue.database_file == Path(path.name)
    add(queue, "a")
    monkeypatch.chdir("/")
    with pickle.loads(pickle.dumps(queue)) as other:  # noqa: S301 - made on the line
        assert take(other) == "a"
    assert statuses(queue, "a") == "RUNNING"
    queue.close()


def test_a_queue_that_was_closed_opens_again(queue) -> None:
    queue.close()
    queue.close()
    assert add(queue, "a")


def test_two_objects_on_one_file_see_the_same_jobs(queue, path) -> None:
    with SqliteQueue(str(path)) as other:
        add(queue, "a")
        assert not add(other, "a")
        assert take(other) == "a"
        assert take(queue) == "pending"
        succeed(other, "a")
        assert take(queue) == "complete"


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_queue_is_usable_in_a_child_process(queue, method) -> None:
    add(queue, "a")
    context = multiprocessing.get_context(method)
    process = context.Process(target=_take_in_child, args=(queue,))
    process.start()
    process.join(30)
    assert process.exitcode == 0
    assert details(queue, "a") == "by the child"
    assert add(queue, "b")
    assert take(queue) == "b"


def _take_in_child(queue: SqliteQueue) -> None:
    assert take(queue) == "a"
    queue.update_job_status("a", JobStatus.SUCCESS, "by the child")


def test_a_fork_neither_harms_its_parent_nor_complains(path) -> None:
    """SQLite forbids even to close in a fork what was opened before it."""
    said = output_of(
        """
        import os, sys
        from jobroom.embedded import JobStatus, JobWithContext, SqliteQueue
        queue, unused = SqliteQueue(sys.argv[1]), SqliteQueue(sys.argv[1])
        for n in range(4):
            queue.add_job(JobWithContext(job_id=str(n), function="a.b", parameters={}))
        if child := os.fork():
            assert os.waitpid(child, 0)[1] == 0
            print(queue.get_jobs_report().success, unused.get_job().payload.job.job_id)
        else:
            queue.update_job_status(queue.get_job().payload.job.job_id, JobStatus.SUCCESS)
            del unused
        """,
        path,
    )
    assert said == "1 1\n"


def test_a_queue_needs_no_closing_and_leaves_no_thread(path) -> None:
    said = output_of(
        """
        import gc, sys, threading
        from jobroom.embedded import JobStatus, JobWithContext, SqliteQueue
        def use():
            queue = SqliteQueue(sys.argv[1])
            queue.add_job(JobWithContext(function="a.b", parameters={}))
            queue.get_jobs_report()
            return queue
        use()
        gc.collect()
        kept = use()
        print(kept.get_jobs_report().total, threading.active_count())
        """,
        path,
    )
    assert said == "2 1\n"
    assert sorted(each.name for each in path.parent.iterdir()) == ["queue.db"]


def test_threads_share_one_queue(queue) -> None:
    ran: list[str] = []

    def work(name: int) -> None:
        for n in range(40):
            assert add(queue, f"{name} {n}")
        while (found := take(queue)) not in {"pending", "complete"}:
            ran.append(found)
            succeed(queue, found)

    threads = [threading.Thread(target=work, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert Counter(ran) == Counter({f"{name} {n}": 1 for name in range(4) for n in range(40)})
    assert counts(queue) == {"total": 160, "success": 160}


def test_processes_drain_one_file_while_some_are_killed(path, queue, tally) -> None:
    """Issue, *Done when*: each job ends once, and in an order that its dependencies allow."""
    names = [str(n) for n in range(300)]
    needs = {name: {str(n // 2), str(n // 3)} - {name} for n, name in enumerate(names)}
    for name in names:
        add(queue, name, *needs[name])
    doomed, other, spare = everyone = [run_python(WORKER, path, left) for left in (20, 0, 0)]
    try:
        for worker in everyone:
            assert worker.stdout is not None
            assert worker.stdout.readline() == "ready\n"
        go(doomed)
        go(other)
        until(lambda: len(held_by(doomed, path)) == 1 and counts(queue).get("success", 0) > 60)
        doomed.send_signal(signal.SIGKILL)
        doomed.wait(30)
        lost = queue.fail_jobs_of_worker(doomed.pid)
        # In an order in which each finds what it depends on queued already.
        for each in sorted(queue.get_job_ids_with_status(JobStatus.ERROR), key=int):
            jobmaker.again(queue, each)
        go(spare)
        outputs = [worker.communicate(timeout=60) for worker in everyone]
    finally:
        for worker in everyone:
            worker.kill()
            worker.wait()
    assert [errors for _, errors in outputs] == ["", "", ""]
    ran = Counter(name for said, _ in outputs for name in said.split())
    assert counts(queue) == {"total": 300, "success": 300}
    assert set(ran) == set(names)
    assert len(lost) == 1
    assert [name for name, times in ran.items() if times > 1] == lost
    for said, _ in outputs[1:]:
        order = {name: place for place, name in enumerate(said.split())}
        assert all(order[each] < order[name] for name in order for each in needs[name] & set(order))
    tally(jobs=300, lost=len(lost), by=[len(said.split()) for said, _ in outputs])


def held_by(worker: subprocess.Popen[str], path: Path) -> list[str]:
    """What the worker has said that it took, and the file says that it holds."""
    with closing(sqlite3.connect(path)) as connection:
        found = connection.execute(
            "SELECT key FROM task WHERE status = 'running' AND worker_id = ? AND starts = 1"
            " AND started_at < (SELECT max(started_at) - 500000 FROM task)",
            (local_queue.worker_id_of(worker.pid),),
        )
        return [key for (key,) in found]


def go(worker: subprocess.Popen[str]) -> None:
    assert worker.stdin is not None
    worker.stdin.write("go\n")
    worker.stdin.flush()


def until(condition) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)
