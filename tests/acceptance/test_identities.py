"""Several workers on one token: each is on its own."""

from __future__ import annotations

import signal
import statistics
import time

import crew
import pytest

LISTEN = """
    say("ready")
    task = next(jobs.listen(1.0))
    task.start()
    say(task.id)
    if hear() == "leave":
        jobs.close()
        say("left")
        hear()
    task.complete("done")
    jobs.close()
"""


@pytest.fixture(scope="module")
def served(tmp_path_factory, empty_database):
    with crew.serving(tmp_path_factory.mktemp("identities"), empty_database) as one:
        yield one


@pytest.mark.parametrize("kind", ["identity", "instance"])
def test_a_thousand_registrations_leave_one_worker(served, kind):
    """Acceptance C13: a crash-looping pod that registers on; the 1,000th costs what the first did.

    A registration without ``worker_id`` names the identity's one worker, one with it that one.
    """
    pod = served.person(f"pod of {kind}")
    name, room = f"Rotate-{kind}", f"room-of-{kind}"
    named = {"worker_id": pod.instance()} if kind == "instance" else {}
    took = []
    for _ in range(1000 if kind == "identity" else 200):
        began = time.perf_counter()
        made = pod.register(name, room=room, **named)
        took.append(time.perf_counter() - began)
    page = pod.ask("GET", f"/rooms/{room}/workers")
    assert (page["total"], [worker["id"] for worker in page["items"]]) == (1, made["workers"])
    assert made["workers"] == [made["worker_id"]]
    assert page["items"][0]["job_count"] == 1
    assert statistics.median(took[-100:]) < 0.05


def test_a_pod_that_crashes_with_a_new_worker_each_time_leaves_none(served):
    """Acceptance C13: instance workers are given up one by one; none is a ghost after the sweep."""
    pod = served.person("crashing pod")
    for number in range(150):
        pod.register("Looped", room="loop", worker_id=pod.instance())
        if number % 50 == 49:
            served.lose_workers()
            assert pod.ask("GET", "/rooms/loop/workers")["total"] == 0
            assert pod.ask("GET", "/workers")["total"] == 0
    job = pod.ask("GET", "/rooms/loop/jobs/loop:modifiers:Looped")
    assert (job["workers"], job["alive_workers"]) == ([], 0)
    assert pod.ask("GET", "/rooms/loop/jobs")["items"] == []


@pytest.mark.parametrize("policy", ["fail", "requeue"])
@pytest.mark.parametrize("end", ["leaves", "leaves without its task started", "is lost"])
@pytest.mark.parametrize(
    "kinds", ["two instances", "identity and instance", "instance and identity"]
)
def test_one_that_goes_disturbs_no_other_of_its_identity(served, kinds, end, policy):
    """Acceptance C14: each mixture of workers on one token, each way to go, both policies."""
    sub = f"{kinds} {end} {policy}"
    name = f"J{abs(hash(sub))}"
    pod, alice = served.person(sub), served.person("alice")
    ids = []
    for kind in kinds.replace("two instances", "instance and instance").split(" and "):
        named = {"worker_id": pod.instance()} if kind == "instance" else {}
        job = pod.register(name, on_worker_lost=policy, max_attempts=3, **named)
        ids.append(job["worker_id"])
    a, b = ids
    tasks = [alice.submit(f"r1:modifiers:{name}") for _ in range(2)]
    mine = pod.claim(a, start="started" not in end)
    theirs = pod.claim(b, start=True)
    assert [task["id"] for task in (*mine, *theirs)] == tasks
    before = alice.show(tasks[1])
    if end == "is lost":
        served.let_pass(1.5)
        pod.beat(b)
        served.let_pass(1)
        served.queue.sweep()
    else:
        pod.leave(a)
        assert alice.show(tasks[1]) == before
    assert alice.show(tasks[0])["status"] == ("failed" if policy == "fail" else "pending")
    assert pod.ask("GET", f"/rooms/r1/jobs/r1:modifiers:{name}")["workers"] == [b]
    assert f"r1:modifiers:{name}" in [
        job["full_name"] for job in pod.ask("GET", "/rooms/r1/jobs", params={"limit": 500})["items"]
    ]
    done = pod.report(tasks[1], "completed", attempt=1, worker_id=b, result="mine")
    assert done.status_code == 200
    assert alice.show(tasks[1])["attempt"] == 1
    if policy == "requeue":
        assert [task["id"] for task in pod.claim(b)] == [tasks[0]]
    pod.leave(b)


def test_of_two_processes_on_one_token_one_leaves(served):
    """Acceptance C14: two real processes of the SDK, each with a running task; A says good-bye."""
    alice = served.person("alice")
    twins = [served.start(LISTEN, sub="twins") for _ in range(2)]
    assert [twin.hear() for twin in twins] == ["ready", "ready"]
    for _ in range(2):
        alice.submit()
    one, two = (twin.hear() for twin in twins)
    twins[0].say("leave")
    assert twins[0].hear() == "left"
    assert alice.show(one)["status"] == "failed"
    assert alice.show(two)["status"] == "running"
    assert len(alice.ask("GET", f"/rooms/r1/jobs/{crew.ROTATE}")["workers"]) == 1
    twins[1].say("finish")
    code, errors = twins[1].end()
    assert code == 0, errors
    assert alice.show(two)["result"] == "done"
    twins[0].signal(signal.SIGKILL)
