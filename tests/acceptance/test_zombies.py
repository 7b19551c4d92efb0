"""Reports of workers that were given up: refused, and nothing is rewritten."""

from __future__ import annotations

import itertools
import signal

import crew
import pytest

from jobroom.domain.records import Caller
from jobroom.errors import Forbidden, InvalidTaskTransition
from jobroom.service import reading, reporting

REPORTS = [
    {"status": "completed"},
    {"status": "completed", "result": {"turned": 90}},
    {"status": "completed", "claim_next": True},
    {"status": "failed"},
    {"status": "failed", "error": "late", "final": True},
    {"status": "cancelled"},
    {"status": "running"},
    {"status": "pending"},
    {"progress": 0.5, "message": "still at it"},
]
LOSSES = ("silent", "deleted", "timed out")
STAGES = ("lost", "claimed again", "running again", "completed by another")


@pytest.fixture(scope="module")
def served(tmp_path_factory, empty_database):
    with crew.serving(tmp_path_factory.mktemp("zombies"), empty_database) as one:
        yield one


def over_http(_served, zombie, task_id, report):
    answer = zombie.send("PATCH", f"/tasks/{task_id}", report)
    return answer.status_code if answer.is_success else answer.json()["type"].rpartition("/")[2]


def in_the_core(served, _zombie, task_id, report):
    said = {**report}
    if "result" in said:
        said["result"] = '{"turned":90}'
    try:
        served.queue.run(
            reporting.report,
            caller=Caller("zombie"),
            task_id=task_id,
            report=reporting.Report(**said),
        )
    except (InvalidTaskTransition, Forbidden) as error:
        return error.slug
    return 200


def lose(served, zombie, worker_id, loss):
    """Take the task from its worker in one of the ways that there are."""
    if loss == "silent":
        served.lose_workers()
    elif loss == "deleted":
        zombie.leave(worker_id)
    else:
        served.let_pass(1.5)
        zombie.beat(worker_id)
        served.queue.sweep()


def take_up(served, task_id, stage):
    """Let another worker bring the task to this stage."""
    other = served.person("other")
    other.register()
    if stage == "lost":
        return
    [again] = other.claim(start=stage != "claimed again")
    assert (again["id"], again["attempt"]) == (task_id, 2)
    if stage == "completed by another":
        answer = other.report(task_id, "completed", attempt=2, result="of the second")
        assert answer.status_code == 200


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("kind", ["identity", "instance"])
def test_no_late_report_of_any_kind_changes_anything(served, kind, loss):
    """Acceptance C01, C02: every report x every way of losing x every later stage of the task.

    They come in turn over HTTP and to the core; nothing of the row changes, not even its version.
    """
    tells = itertools.cycle((over_http, in_the_core))
    zombie, alice = served.person("zombie"), served.person("alice")
    cases = [("fail", "lost"), *(("requeue", stage) for stage in STAGES)]
    for policy, stage in cases:
        worker_id = zombie.instance() if kind == "instance" else "zombie"
        named = {"worker_id": worker_id}
        zombie.register(on_worker_lost=policy, **(named if kind == "instance" else {}))
        task_id = alice.submit(timeout_seconds=1)
        [held] = zombie.claim(None if kind == "identity" else worker_id, start=True)
        lose(served, zombie, worker_id, loss)
        take_up(served, task_id, stage)
        before = row(served, task_id)
        assert (before.status == "failed") == (policy == "fail")
        for report in REPORTS:
            for fence in ({"attempt": held["attempt"]}, {}, named, named | {"attempt": 1}):
                said = next(tells)(served, zombie, task_id, {**report, **fence})
                # Who names no attempt, or cancels, may as well be told that it is not his.
                is_sure = "attempt" in fence and report.get("status") != "cancelled"
                allowed = {"invalid-task-transition", *(() if is_sure else ("forbidden",))}
                if report.get("status") == before.status:
                    allowed.add(200)  # handing back what lies there already is a repeat
                assert said in allowed, (policy, stage, report, fence)
                assert row(served, task_id) == before, (policy, stage, report, fence)
        end(served, alice, task_id)


def row(served, task_id):
    view = served.queue.run(reading.get_task, caller=Caller("alice"), task_id=task_id)
    return view.task


def end(served, alice, task_id):
    """Leave nothing to be claimed for the next case."""
    alice.report(task_id, "cancelled")
    served.queue.sweep()
    for sub in ("zombie", "other"):
        person = served.person(sub)
        for worker in person.ask("GET", "/workers")["items"]:
            person.leave(worker["id"])


def test_a_stopped_process_that_wakes_up_rewrites_nothing(served):
    """Acceptance C01: SIGSTOP for longer than the timeout, a sweep, SIGCONT, completed: 409."""
    alice = served.person("alice")
    worker = served.start("""
        import logging
        logging.basicConfig(level=logging.INFO)
        def work(rotate):
            say("running")
            return hear()
        class Vis:
            pass
        vis = Vis()
        vis.jobs = jobs
        say("ready")
        for task in jobs.listen(1.0):
            task.run(vis)
            say("told")
    """)
    assert worker.hear() == "ready"
    task_id = alice.submit()
    assert worker.hear() == "running"
    worker.signal(signal.SIGSTOP)
    served.lose_workers()
    lost = alice.show(task_id)
    assert lost["status"] == "failed"
    assert "Worker disconnected" in lost["error"]
    worker.signal(signal.SIGCONT)
    worker.say("too late")
    assert worker.hear() == "told"
    assert alice.show(task_id) == lost
    # It comes back by itself, and what it does now counts.
    following = alice.submit()
    assert worker.hear() == "running"
    worker.say("in time")
    assert worker.hear() == "told"
    done = alice.show(following)
    assert (done["status"], done["result"]) == ("completed", "in time")
    worker.signal(signal.SIGTERM)
    code, log = worker.end()
    assert code == 0, log
    assert log.count("report.refused") == 1
    assert f"report.refused task={task_id}" in log


@pytest.mark.parametrize("kind", ["identity", "instance"])
def test_of_two_attempts_the_second_counts(served, kind):
    """Acceptance C02: as C01 with requeue, the task claimed again before the first one reports."""
    alice = served.person("alice")
    one, two = served.person("one"), served.person("two")
    ids = {}
    for person, sub in ((one, "one"), (two, "two")):
        ids[sub] = person.instance() if kind == "instance" else None
        more = {"worker_id": ids[sub]} if ids[sub] else {}
        person.register(on_worker_lost="requeue", max_attempts=3, **more)
    task_id = alice.submit()
    [first] = one.claim(ids["one"])
    assert one.report(task_id, "running", attempt=first["attempt"]).status_code == 200
    served.let_pass(3)
    two.beat(ids["two"] or "two")
    served.queue.sweep()
    [second] = two.claim(ids["two"], start=True)
    refused = one.report(task_id, "completed", attempt=first["attempt"], result="first")
    assert refused.status_code == 409
    assert two.report(task_id, "completed", attempt=2, result="second").status_code == 200
    done = alice.show(task_id)
    assert (second["attempt"], done["status"], done["result"]) == (2, "completed", "second")
    assert (done["attempt"], done["starts"], done["error"]) == (2, 2, None)
    again = one.report(task_id, "completed", attempt=first["attempt"], result="first")
    assert again.status_code == 409
    assert alice.show(task_id) == done


def test_history_ends_once(served):
    """Acceptance C01, as number 1 of the ten: the terminal state is written once, then never."""
    zombie, alice = served.person("zombie"), served.person("alice")
    zombie.register()
    task_id = alice.submit()
    zombie.claim()
    zombie.report(task_id, "running")
    rows = set()
    served.let_pass(3)
    for _ in range(3):
        served.queue.sweep()
        zombie.report(task_id, "completed", attempt=1)
        rows.add(row(served, task_id))
    assert [found.status for found in rows] == ["failed"]
