"""Tasks that kill their workers, and what is charged for a worker that died."""

from __future__ import annotations

import itertools
import signal

import crew
import pytest

LOSSES = ("silent", "deleted", "timed out")
DEATHS = ("os._exit(9)", "os.kill(os.getpid(), signal.SIGKILL)", "os.abort()")
SERVE = """
    class Vis:
        pass
    vis = Vis()
    vis.jobs = jobs
    jobs.register(Rotate, room="r1", on_worker_lost="requeue", max_attempts=3)
    say("ready")
    for task in jobs.listen(1.0):
        task.run(vis)
        break
"""
PLAIN = """
import os, sys, httpx
url, head = os.environ["JOBROOM_URL"], {"authorization": "Bearer " + os.environ["JOBROOM_TOKEN"]}
api = httpx.Client(base_url=url + "/v1/joblib", headers=head)
"""


@pytest.fixture(scope="module")
def served(tmp_path_factory, empty_database):
    with crew.serving(tmp_path_factory.mktemp("poison"), empty_database) as one:
        yield one


def lose(served, person, worker_id, loss):
    if loss == "silent":
        served.let_pass(crew.TIMEOUT + 1)
        served.queue.sweep()
    elif loss == "deleted":
        person.leave(worker_id)
    else:
        served.let_pass(1.5)
        person.beat(worker_id)
        served.queue.sweep()


def test_a_task_that_kills_its_worker_three_times_is_given_up(served):
    """Acceptance C07: requeue, max_attempts 3, the process dies at every run, each in its way.

    After the third it is failed and says so, and no worker ever gets it again.
    """
    alice = served.person("alice")
    poison = None
    for lost, death in enumerate(DEATHS, start=1):
        worker = served.start(f"def work(_rotate):\n    {death}\n" + crew.dedented(SERVE))
        assert worker.hear() == "ready"
        poison = poison or alice.submit()
        code, errors = worker.end()
        assert code not in {0, 1}, errors
        served.lose_workers()
        task = alice.show(poison)
        assert (task["starts"], task["attempt"]) == (lost, lost)
    assert task["status"] == "failed"
    assert "Worker disconnected" in task["error"]
    assert "start 3 of 3" in task["error"]
    good = alice.submit()
    worker = served.start("def work(_rotate):\n    return 'fine'\n" + crew.dedented(SERVE))
    assert worker.end()[0] == 0
    assert alice.show(good)["result"] == "fine"
    assert alice.show(poison) == task


@pytest.mark.parametrize("kind", ["identity", "instance"])
@pytest.mark.parametrize("most", [1, 2, 3, 7])
def test_starts_are_limited_however_they_are_lost(served, kind, most):
    """Acceptance C07: each way to be lost in turn, in both kinds of worker, by job and by task."""
    alice, wanda = served.person("alice"), served.person(f"{kind} of {most}")
    name = f"{kind}{most}"
    for by_task in (False, True):
        limit = {} if by_task else {"max_attempts": most}
        wanda.register(name, on_worker_lost="requeue", **limit)
        more = {"max_attempts": most} if by_task else {}
        task_id = alice.submit(f"r1:modifiers:{name}", timeout_seconds=1, **more)
        losses = itertools.cycle(LOSSES)
        for start in range(1, most + 1):
            worker_id = come(wanda, kind, name, limit)
            at_once = start % 2 == 0
            [task] = wanda.claim(worker_id, start=at_once)
            assert (task["id"], task["attempt"]) == (task_id, start)
            if not at_once:
                assert wanda.report(task_id, "running", attempt=start).status_code == 200
            lose(served, wanda, worker_id, next(losses))
        ended = alice.show(task_id)
        assert (ended["status"], ended["starts"]) == ("failed", most)
        assert f"start {most} of {most}" in ended["error"]
        assert wanda.claim(come(wanda, kind, name, limit)) == []
        served.queue.sweep()
        assert alice.show(task_id) == ended


def come(person, kind, name, limit):
    """A worker that serves the job, new where the last one was deleted or swept."""
    worker_id = person.instance() if kind == "instance" else None
    named = {} if worker_id is None else {"worker_id": worker_id}
    return person.register(name, on_worker_lost="requeue", **limit, **named)["worker_id"]


@pytest.mark.parametrize("kind", ["identity", "instance"])
@pytest.mark.parametrize("policy", ["fail", "requeue"])
def test_a_killed_process_is_charged_for_what_it_ran_alone(served, policy, kind):
    """Acceptance C08: 1 running and 9 claimed tasks, kill -9: one is charged, nine are not."""
    sub = f"{policy} {kind}"
    alice, owner = served.person("alice"), served.person(sub)
    name = f"{policy}-{kind}"
    worker_id = owner.instance() if kind == "instance" else sub
    named = {"worker_id": worker_id} if kind == "instance" else {}
    owner.register(name, on_worker_lost=policy, max_attempts=3, **named)
    ids = [alice.submit(f"r1:modifiers:{name}") for _ in range(10)]
    worker = served.start(
        f"""
        claim = {{"limit": 10, "worker_id": {worker_id!r}}}
        tasks = api.post("/tasks/claim", json=claim).json()["tasks"]
        api.patch("/tasks/" + tasks[0]["id"], json={{"status": "running"}}).raise_for_status()
        print(len(tasks), flush=True)
        sys.stdin.read()
        """,
        sub=sub,
        head=PLAIN,
    )
    assert worker.hear() == "10"
    worker.signal(signal.SIGKILL)
    worker.end()
    served.lose_workers()
    after = [alice.show(task_id) for task_id in ids]
    assert [task["starts"] for task in after] == [1] + [0] * 9
    assert {task["attempt"] for task in after} == {1}
    if policy == "fail":
        assert {task["status"] for task in after} == {"failed"}
        assert "start 1 of 3" in after[0]["error"]
        assert all("never started" in task["error"] for task in after[1:])
        return
    assert {task["status"] for task in after} == {"pending"}
    named = {"worker_id": owner.instance()} if kind == "instance" else {}
    owner.register(name, on_worker_lost=policy, max_attempts=3, **named)
    again = owner.claim(named.get("worker_id"), limit=10, start=True)
    assert [task["id"] for task in again] == ids
    assert [task["starts"] for task in again] == [2] + [1] * 9


@pytest.mark.parametrize("loss", LOSSES)
def test_what_was_handed_out_and_never_started_is_not_charged(served, loss):
    """Acceptance C08: for every way of losing; after ten such claims it fails and says so."""
    alice, wanda = served.person("alice"), served.person(f"idler {loss}")
    name = f"idle-{loss.replace(' ', '-')}"
    come(wanda, "identity", name, {})
    task_id = alice.submit(f"r1:modifiers:{name}", timeout_seconds=1)
    for attempt in range(1, 11):
        come(wanda, "identity", name, {})
        [task] = wanda.claim()
        assert (task["attempt"], task["starts"]) == (attempt, 0)
        lose(served, wanda, f"idler {loss}", loss)
    ended = alice.show(task_id)
    assert (ended["status"], ended["starts"]) == ("failed", 0)
    assert "never started" in ended["error"]
