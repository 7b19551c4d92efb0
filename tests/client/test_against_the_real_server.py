"""The SDK end to end, against the real application behind a real uvicorn on 127.0.0.1."""

from __future__ import annotations

import asyncio
import json
import logging
import shutil
import socket
import threading
import time

import httpx
import pytest
import uvicorn
from pydantic import SecretStr, create_model
from seed_usage import USAGE

from jobroom import tokens
from jobroom.bootstrap import create_app
from jobroom.client.connection import Connection
from jobroom.client.extension import Extension
from jobroom.client.manager import JobManager
from jobroom.client.plan import when
from jobroom.client.sweeper import run_cleanup_sweeper
from jobroom.client.task import current_task
from jobroom.client.worker import BRIEF
from jobroom.domain.records import Caller
from jobroom.errors import (
    Forbidden,
    InvalidInput,
    InvalidTaskTransition,
    NotFound,
    PayloadInvalid,
    SchemaConflict,
)
from jobroom.service import registration, submission
from jobroom.service.queue import JobQueue
from jobroom.settings import JobLibSettings

SECRET = "a shared secret of more than 32 bytes"
NAME = "r1:modifiers:Rotate"
SECOND = 1_000_000
UPPER_BOUND_SECONDS = 20
AWKWARD = ["A?B", "A#B", "é", "名前", "100%", "A%2FB", "A+B", "a b", "x" * 255, "%", "A&B=C"]
REFUSED = ["A:B", "A/B", " ", "..", "x" * 300, "a\x01b"]


class Rotate(Extension):
    angle: float

    def run(self, vis, **kwargs):
        return vis.work(self)


class Vis:
    def __init__(self, jobs, work=None):
        self.jobs = jobs
        self.work = work or (lambda _self: None)


class Served:
    """The application of a test, its queue, and what connects to it."""

    def __init__(self, url, queue):
        self.url = url
        self.queue = queue
        self.opened = []

    def connect(self, sub="alice", *, transport=None, **claims):
        token = tokens.issue_token(SECRET, sub=sub, **claims)
        http = httpx.Client(transport=transport or httpx.HTTPTransport(verify=False))
        jobs = JobManager(Connection(self.url, token, http=http))
        self.opened.append((jobs, http))
        return jobs

    def lose_workers(self):
        """Let so much time pass that every worker counts as lost, and sweep."""
        self.queue.clock_offset += 10 * SECOND
        return self.queue.sweep()

    def close(self):
        for jobs, http in self.opened:
            jobs.close()
            http.close()


@pytest.fixture
def serve(tmp_path, empty_database):
    """Start the application with the settings of a test; the clock is the queue's to shift."""
    stack = []

    def start(**more):
        path = tmp_path / "queue.db"
        shutil.copy(empty_database, path)
        settings = JobLibSettings(
            database_url=f"sqlite:///{path}",
            sqlite_synchronous="NORMAL",
            **{"jwt_secret": SecretStr(SECRET), "sweeper_interval_seconds": 0, **more},
        )
        queue = JobQueue.open(settings)
        listening = socket.create_server(("127.0.0.1", 0))
        server = uvicorn.Server(uvicorn.Config(create_app(settings, queue=queue), log_config=None))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        served = Served(f"http://127.0.0.1:{listening.getsockname()[1]}", queue)
        stack.append((served, server, thread, queue))
        return served

    yield start
    for served, server, thread, queue in stack:
        served.close()
        server.should_exit = True
        thread.join(UPPER_BOUND_SECONDS)
        queue.close()


@pytest.fixture
def served(serve):
    return serve(worker_timeout_seconds=5, max_result_bytes=2048)


@pytest.fixture
def jobs(served):
    manager = served.connect()
    manager.register(Rotate, room="r1")
    return manager


def run_one(jobs, work):
    task = next(jobs.listen(1.0))
    task.run(Vis(jobs, work))
    return jobs.wait(task.id, timeout=0)


def test_the_seeds_usage_example_runs_with_its_text_unchanged(served, capsys):
    vis = Vis(served.connect("root", is_admin=True))
    ended = []

    def submit_and_stop():
        submitter = served.connect("root", is_admin=True)
        task = submitter.submit("@global:modifiers:Rotate", {"angle": 90}, room="room_123")
        ended.append(submitter.wait(task["id"], timeout=UPPER_BOUND_SECONDS))
        for stream in tuple(vis.jobs._streams):
            stream.stop()

    def listen(interval=2.0):
        stream = JobManager.listen(vis.jobs, interval)
        thread.start()
        return stream

    thread = threading.Thread(target=submit_and_stop)
    vis.jobs.listen = listen
    exec(compile(USAGE, "usage_example", "exec"), {"vis": vis})  # noqa: S102
    thread.join(UPPER_BOUND_SECONDS)
    assert capsys.readouterr().out == "2\n"
    # The example's class has no run: that fails its task, naming it, and the loop goes on.
    assert ended[0]["status"] == "failed"
    assert "Rotate" in ended[0]["error"]


def test_a_task_goes_from_submit_to_its_result(served, jobs):
    submitted = served.connect("bob").submit(NAME, angle=90)
    assert (submitted["status"], submitted["payload"]) == ("pending", {"angle": 90})

    def work(extension):
        current_task().progress(0.5, "half way")
        return {"turned": extension.angle}

    task = run_one(jobs, work)
    assert (task["status"], task["result"]) == ("completed", {"turned": 90.0})
    assert (task["progress"], task["message"], task["attempt"]) == (0.5, "half way", 1)


def test_an_exception_is_the_tasks_error(jobs):
    jobs.submit(NAME, angle=1)

    def work(_extension):
        raise ValueError("odd\0angle")

    task = run_one(jobs, work)
    assert task["status"] == "failed"
    assert task["error"].startswith("ValueError: odd\u2400angle")


def test_a_result_over_the_limit_fails_the_task_and_says_so(jobs):
    jobs.submit(NAME, angle=1)
    task = run_one(jobs, lambda _self: "x" * 3000)
    assert task["status"] == "failed"
    assert task["error"].startswith("result too large")


def test_a_task_too_large_for_the_servers_answers_holds_a_worker_up_but_does_not_end_it(
    serve, caplog
):
    """It came through another door; the worker goes on as soon as it is taken away."""
    served = serve(worker_timeout_seconds=5, max_answer_bytes=64 * 1024)
    jobs = served.connect()
    jobs.register(Rotate, room="r1")
    large = submit_through_another_door(served, {"angle": 1, "note": "x" * 100_000})
    small = jobs.submit(NAME, angle=2)
    got = []
    thread = threading.Thread(target=lambda: got.append(next(jobs.listen(0.05))))
    thread.start()
    deadline = time.monotonic() + UPPER_BOUND_SECONDS
    while "claim.too_large" not in caplog.text and time.monotonic() < deadline:
        time.sleep(0.02)
    headers = {"authorization": f"Bearer {tokens.issue_token(SECRET, sub='alice')}"}
    cancelled = httpx.patch(
        f"{served.url}/v1/joblib/tasks/{large}", json={"status": "cancelled"}, headers=headers
    )
    assert cancelled.status_code == 200
    thread.join(UPPER_BOUND_SECONDS)
    assert [task.id for task in got] == [small["id"]]
    assert caplog.text.count("claim.too_large") == 1


def submit_through_another_door(served, payload):
    alice = Caller("alice")
    job = served.queue.run(registration.find_job, caller=alice, room_id="r1", full_name=NAME)
    done = served.queue.run(
        submission.submit_task,
        caller=alice,
        room_id="r1",
        job=job,
        new=submission.NewTask(json.dumps(payload)),
    )
    return done.view.task.id


@pytest.mark.parametrize("result", ["\ud800", {"a": 10**5000}])
def test_a_result_that_the_server_refuses_fails_the_task(jobs, result):
    jobs.submit(NAME, angle=1)
    assert run_one(jobs, lambda _self: result)["status"] == "failed"


def test_the_server_tells_both_sides_the_version_of_the_schema(served, jobs):
    """Rules, *Jobs*: old pending tasks keep their version; the claim names it."""
    jobs.submit(NAME, angle=1)
    new = served.connect()
    new.register(create_model("Rotate", axis=(str, ...)), room="r1", replace=True)
    jobs.submit(NAME, axis="z")
    first, second = next(jobs.listen(1.0)), next(new.listen(1.0))
    assert (first.schema_version, second.schema_version) == (1, 2)
    versions = [one.worker.jobs[NAME].schema_version for one in (jobs, new)]
    assert versions == [1, 2]


def test_what_the_server_refuses_is_raised(served, jobs):
    with pytest.raises(SchemaConflict):
        served.connect().register(create_model("Rotate", angle=(str, ...)), room="r1")
    with pytest.raises(Forbidden):
        served.connect().register(Rotate)
    with pytest.raises(PayloadInvalid) as refusal:
        jobs.submit(NAME, angle="ninety")
    assert [fault.pointer for fault in refusal.value.errors] == ["/payload/angle"]


@pytest.mark.parametrize("name", AWKWARD)
def test_a_name_that_is_accepted_round_trips(jobs, name):  # C20
    jobs.register(create_model(name, angle=(float, 0.0)), room=name)
    full_name = f"{name}:modifiers:{name}"
    assert jobs.submit(full_name, {"angle": 3})["job_name"] == full_name
    assert jobs.worker.api.job(name, full_name)["name"] == name
    assert next(jobs.listen(1.0)).job_name == full_name


@pytest.mark.parametrize("name", REFUSED)
def test_a_name_that_is_refused_is_a_clear_error(jobs, name):  # C20
    for room, cls in ((name, Rotate), ("r1", create_model(name))):
        # A slash in a room makes the address another one, where there is nothing.
        with pytest.raises((InvalidInput, NotFound)):
            jobs.register(cls, room=room)


class TestLosing:
    def test_a_zombies_report_is_refused_and_changes_nothing(self, served, jobs, caplog):  # C01
        jobs.submit(NAME, angle=1)
        lost = []

        def freeze(_extension):
            jobs.worker._heart.stop(timeout=UPPER_BOUND_SECONDS)
            served.lose_workers()
            lost.append(jobs.wait(current_task().id, timeout=0))
            return "too late"

        task = run_one(jobs, freeze)
        assert lost[0]["status"] == "failed"
        assert "Worker disconnected" in lost[0]["error"]
        assert task == lost[0]
        refusals = [one.getMessage() for one in caplog.records if "report." in one.getMessage()]
        assert len(refusals) == 1
        assert refusals[0].startswith(f"report.refused task={task['id']} status=completed")

    def test_a_swept_worker_comes_back_by_itself_and_goes_on(self, served, jobs):  # C10
        stream = jobs.listen(1.0)
        old = stream.worker_id
        served.lose_workers()
        task = jobs.submit(NAME, angle=1)
        assert next(stream).id == task["id"]
        assert stream.worker_id != old
        assert jobs.worker.api.job("r1", NAME)["workers"] == [stream.worker_id]

    @pytest.mark.parametrize("busy", [False, True])
    def test_a_task_longer_than_the_worker_timeout_is_not_lost(self, serve, busy):  # C06
        served = serve(worker_timeout_seconds=1, sweeper_interval_seconds=0.2)
        jobs = served.connect()
        jobs.register(Rotate, room="r1")
        jobs.submit(NAME, angle=1)

        def work(_extension):
            until = time.monotonic() + 2.5
            while time.monotonic() < until:
                if not busy:
                    threading.Event().wait(0.1)

        task = run_one(jobs, work)
        assert (task["status"], task["attempt"]) == ("completed", 1)

    def test_what_was_claimed_and_not_started_is_not_charged(self, jobs):  # C08
        jobs.submit(NAME, angle=1)
        claimed = next(jobs.listen(1.0))
        jobs.disconnect()
        task = jobs.wait(claimed.id, timeout=0)
        assert (task["status"], task["starts"], task["attempt"]) == ("pending", 0, 1)

    def test_the_cancel_of_a_running_task_reaches_its_worker(self, jobs):  # C23
        jobs.submit(NAME, angle=1)
        seen = []

        def work(_extension):
            task = current_task()
            jobs.worker.api.report(task.id, {"status": "cancelled"})
            jobs.heartbeat()
            seen.append(task.cancelled)

        assert run_one(jobs, work)["status"] == "cancelled"
        assert seen == [True]

    @pytest.mark.parametrize(("policy", "status"), [("requeue", "pending"), ("fail", "failed")])
    def test_an_interrupt_follows_the_jobs_policy(self, jobs, policy, status):
        jobs.register(Rotate, room="r1", on_worker_lost=policy)
        task = jobs.submit(NAME, angle=1)

        def work(_extension):
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            run_one(jobs, work)
        assert jobs.wait(task["id"], timeout=0)["status"] == status


class TestLeaving:
    def test_the_job_has_no_worker_at_once(self, served, jobs):  # C17
        assert len(jobs.worker.api.job("r1", NAME)["workers"]) == 1
        jobs.close()
        assert served.connect().worker.api.job("r1", NAME)["workers"] == []

    def test_another_worker_on_the_same_token_is_not_disturbed(self, served, jobs):  # C14
        other = served.connect()
        other.register(Rotate, room="r1")
        for _ in range(2):
            jobs.submit(NAME, angle=1)
        mine, theirs = next(jobs.listen(1.0)), next(other.listen(1.0))
        mine.start()
        theirs.start()
        jobs.close()
        assert other.wait(mine.id, timeout=0)["status"] == "failed"
        theirs.complete("done")
        assert other.wait(theirs.id, timeout=0)["result"] == "done"
        assert other.worker.api.job("r1", NAME)["workers"] == [other.worker.id]

    def test_a_stop_is_prompt_and_what_still_comes_is_handed_back(self, served, jobs):
        stream = jobs.listen(10.0)
        thread = threading.Thread(target=lambda: list(stream))
        thread.start()
        began = time.monotonic()
        stream.stop()
        thread.join(UPPER_BOUND_SECONDS)
        assert time.monotonic() - began < 5
        task = served.connect().submit(NAME, angle=1)
        jobs.close()
        after = served.connect().wait(task["id"], timeout=0)
        assert (after["status"], after["starts"]) == ("pending", 0)


class Lossy(httpx.BaseTransport):
    """Loses the answers to some requests, after the server has done what they ask."""

    def __init__(self, method, path, times=1):
        self.inner = httpx.HTTPTransport(verify=False)
        self.method, self.path, self.times = method, path, times

    def handle_request(self, request):
        response = self.inner.handle_request(request)
        if self.times and request.method == self.method and self.path in request.url.path:
            self.times -= 1
            response.read()
            response.close()
            raise httpx.ReadTimeout("lost", request=request)
        return response

    def close(self):
        self.inner.close()


class TestLostAnswers:
    def test_a_submit_makes_one_task(self, served, jobs):  # C22
        submitter = served.connect(transport=Lossy("POST", "/tasks/r1:"))
        task = submitter.submit(NAME, angle=1)
        stream = jobs.listen(1.0)
        assert next(stream).id == task["id"]
        assert jobs.worker.claim(request_id="x", wait=0, patience=BRIEF) == []

    def test_a_claim_gives_the_same_task_again(self, served):  # C11
        jobs = served.connect(transport=Lossy("POST", "/tasks/claim"))
        jobs.register(Rotate, room="r1")
        task = jobs.submit(NAME, angle=1)
        claimed = next(jobs.listen(1.0))
        assert (claimed.id, claimed.attempt) == (task["id"], 1)

    @pytest.mark.parametrize("times", [1, 2, 3])
    def test_a_report_is_made_once(self, served, times):
        jobs = served.connect(transport=Lossy("PATCH", "/tasks/", times=times))
        jobs.register(Rotate, room="r1")
        jobs.submit(NAME, angle=1)
        task = run_one(jobs, lambda self: self.angle)
        assert (task["status"], task["result"], task["starts"]) == ("completed", 1.0, 1)


def test_the_seeds_sweeper_sweeps_with_an_admins_token(served, jobs, caplog):
    jobs.listen()
    served.queue.clock_offset += 10 * SECOND
    token = tokens.issue_token(SECRET, sub="root", is_admin=True)

    async def main():
        done = asyncio.Event()
        loop = asyncio.get_running_loop()
        handler = logging.Handler()
        handler.emit = lambda _record: loop.call_soon_threadsafe(done.set)
        logger = logging.getLogger("jobroom.client")
        with caplog.at_level(logging.INFO, logger="jobroom.client"):
            logger.addHandler(handler)
            task = asyncio.create_task(run_cleanup_sweeper(served.url, 0.05, token))
            try:
                async with asyncio.timeout(UPPER_BOUND_SECONDS):
                    await done.wait()
            finally:
                logger.removeHandler(handler)
                task.cancel()

    asyncio.run(main())
    assert "sweep.done" in caplog.text
    assert "lost_workers=1" in caplog.text


def test_a_report_by_hand_on_a_lost_task_raises(served, jobs):
    jobs.submit(NAME, angle=1)
    task = next(jobs.listen(1.0))
    task.start()
    jobs.worker._heart.stop(timeout=UPPER_BOUND_SECONDS)
    served.lose_workers()
    with pytest.raises(InvalidTaskTransition):
        task.complete()


class TestTasksThatWaitForOthers:
    """Issue 4, point 2, by the SDK."""

    def test_a_plan_is_done_in_its_order(self, jobs):
        plan = jobs.plan(room="r1")
        first = plan.add(Rotate(angle=1))
        middle = [plan.add(Rotate(angle=angle), depends_on=[first]) for angle in (2, 3)]
        plan.add(Rotate(angle=4), depends_on=middle)
        tasks = plan.submit()
        done = []
        while len(done) < len(tasks):
            done.append(run_one(jobs, lambda one: one.angle)["result"])
        assert done == [1, 2, 3, 4]

    def test_a_condition_may_name_a_key_of_the_plan(self, jobs):
        plan = jobs.plan(room="r1")
        plan.add(Rotate(angle=1), key="first")
        plan.add(Rotate(angle=2), depends_on=[when("first", "afternotok")])
        first, second = plan.submit()
        assert run_one(jobs, lambda one: 1 / 0)["status"] == "failed"
        assert jobs.wait(second["id"], timeout=0)["status"] == "pending"
        assert first["key"] == "first"

    def test_a_child_holds_up_who_waits_for_its_parent(self, jobs):
        parent = jobs.submit(Rotate(angle=1), room="r1")
        after = jobs.submit(Rotate(angle=2), room="r1", depends_on=[parent])
        children = []

        def work(_one):
            children.append(jobs.submit(Rotate(angle=3), room="r1", parent=parent))

        run_one(jobs, work)
        waiting = jobs.wait(after["id"], timeout=0)
        assert (waiting["status"], [each["id"] for each in waiting["waiting_on"]]) == (
            "blocked",
            [children[0]["id"]],
        )
        assert [run_one(jobs, lambda one: one.angle)["result"] for _ in range(2)] == [3, 2]

    def test_a_retry_takes_along_what_failed_because_of_it(self, jobs):
        first = jobs.submit(Rotate(angle=1), room="r1")
        second = jobs.submit(Rotate(angle=2), room="r1", depends_on=[first["id"]])
        run_one(jobs, lambda one: 1 / 0)
        assert jobs.wait(second["id"])["failed_by"] == first["id"]
        both = [first["id"], second["id"]]
        assert jobs.retry(first["id"], dry_run=True)["tasks"] == both
        jobs.retry(first["id"])
        assert [run_one(jobs, lambda one: one.angle)["id"] for _ in range(2)] == both

    def test_a_graph_shows_all_that_is_connected(self, jobs):
        first = jobs.submit(Rotate(angle=1), room="r1")
        second = jobs.submit(Rotate(angle=2), room="r1", depends_on=[first])
        jobs.submit(Rotate(angle=3), room="r1")
        graph = jobs.graph(second["id"])
        assert [node["id"] for node in graph["items"]] == [first["id"], second["id"]]
        assert [(edge["from"], edge["to"]) for edge in graph["edges"]] == [
            (first["id"], second["id"])
        ]
        assert graph["progress"]["blocked"] == 1
