"""Rows that no transition leaves behind: they end as failed, and hold up nobody."""

from __future__ import annotations

import sqlite3

import crew
import pytest

from jobroom.domain import damage
from jobroom.domain.records import Caller, Task
from jobroom.service import claiming
from jobroom.store import overdue
from jobroom.wire.answers import TaskBody

# What is wrong -> how it is written over a pending task.
PENDING = {
    "started as often as it may be": "starts = max_attempts, attempt = max_attempts",
    "started more often": "starts = max_attempts + 1, attempt = max_attempts + 1",
    "started more often than claimed": "starts = 2, attempt = 0, max_attempts = 3",
    "starts negative": "starts = -1",
    "starts no number": "starts = 'many'",
    "may never start": "max_attempts = 0",
    "max_attempts negative": "max_attempts = -3",
    "max_attempts no number": "max_attempts = 'some'",
    "max_attempts a blob": "max_attempts = x'00ff'",
    "attempt negative": "attempt = -7",
    "attempt at the end of integers": "attempt = 9223372036854775807",
    "attempt a fraction": "attempt = 0.5",
    "payload cut off": """payload = '{"angle": 9'""",
    "payload empty": "payload = ''",
    "payload no object": "payload = '[90]'",
    "payload NaN": """payload = '{"angle": NaN}'""",
    "payload in single quotes": """payload = '{''angle'': 90}'""",
    "payload with something behind it": """payload = '{"angle": 90}, "more": {}'""",
    "payload with a NUL behind it": """payload = '{"angle": 90}' || char(0) || 'x'""",
    "payload a blob": """payload = CAST('{"angle": 90}' AS BLOB)""",
    "payload large and cut off": """payload = '{"a": "' || hex(zeroblob(100000))""",
    "payload no UTF-8": """payload = CAST(x'7b2261223a22ff227d' AS TEXT)""",
    "room no UTF-8": "room_id = CAST(x'ff' AS TEXT)",
    "schema_version unknown": "schema_version = 99",
    "schema_version 0": "schema_version = 0",
    "schema_version no number": "schema_version = 'first'",
    "priority no number": "priority = 'urgent'",
    "turn negative": "turn = -1",
    "turn no number": "turn = 'mine'",
    "created_at no time": "created_at = 'yesterday'",
    "created_at beyond all calendars": "created_at = 9000000000000000000",
    "created_at negative": "created_at = -1",
    "expires_at no time": "expires_at = 'soon'",
    "run_at no time": "run_at = 'soon'",
    "timeout_seconds no number": "timeout_seconds = 'long'",
    "has ended already": "completed_at = 1, priority = 9",
    "id a blob": "id = CAST(id AS BLOB)",
    "room a blob": "room_id = x'7231'",
    "creator a blob": "created_by_id = x'ff'",
    "status unknown": "status = 'lost'",
    "status in capitals": "status = 'PENDING'",
    "status empty": "status = ''",
    "status a blob": "status = CAST('pending' AS BLOB)",
    "job unknown": "job_seq = 4711",
}
# What is odd but harms nothing: it runs.
HARMLESS = {
    "claimed more often than it may start": "attempt = max_attempts + 1",
    "sequence negative": "seq = -5",
    "sequence at the end of integers": "seq = 9223372036854775807",
    "error a blob": "error = x'ff00'",
    "message a blob": "message = x'ff00'",
    "message no UTF-8": "message = CAST(x'61ff' AS TEXT)",
    "result of another kind": "result = 'no JSON'",
    "result a blob": "result = x'ff00'",
    "version no number": "version = 'newest'",
    "progress beyond 1": "progress = 7.5",
}
# What is wrong with a task that a worker holds, or that has ended.
HELD = {
    "held by nobody": "worker_id = NULL",
    "held by a blob": "worker_id = x'ff'",
    "message no UTF-8": "message = CAST(x'61ff' AS TEXT)",
    "started more often than it may be": "starts = 9",
    "starts no number": "starts = 'many'",
    "max_attempts no number": "max_attempts = 'some'",
    "idle_claims no number": "idle_claims = 'none'",
    "expires_at no time": "expires_at = 'soon'",
    "has ended already": "completed_at = 1",
    "payload no JSON": "payload = 'oh'",
    "due at no time": "due_at = 'soon'",
    "status unknown": "status = 'lost'",
    "job unknown": "job_seq = 4711",
}
ENDED = {
    "result no JSON": """result = '{"a": '""",
    "result empty": "result = ''",
    "result a blob": "result = x'ff00'",
    "result large and cut off": "result = '[' || hex(zeroblob(100000))",
    "result no UTF-8": "result = CAST(x'22ff22' AS TEXT)",
    "ended at no time": "completed_at = 'today'",
    "error a blob": "error = x'ff00'",
    "worker a blob": "worker_id = x'ff'",
}


@pytest.fixture(scope="module")
def served(tmp_path_factory, empty_database):
    with crew.serving(tmp_path_factory.mktemp("damaged"), empty_database) as one:
        yield one


@pytest.fixture(scope="module")
def alice(served):
    return served.person("alice", is_admin=True)


@pytest.fixture(scope="module")
def worker(served):
    worker = served.person("wanda")
    worker.register(on_worker_lost="requeue", max_attempts=3, schema=crew.ANGLE)
    return worker


@pytest.fixture
def wanda(served, worker):
    """The worker, alive; nothing is left to be claimed when a test begins."""
    wanda = worker
    with write(served) as store:
        store.execute("DELETE FROM task")
    store.close()
    wanda.beat("wanda")
    return wanda


def write(served):
    """A connection that keeps no rule."""
    store = sqlite3.connect(served.queue.database.location, timeout=30)
    store.execute("PRAGMA ignore_check_constraints = ON")
    store.execute("PRAGMA foreign_keys = OFF")
    return store


def spoil(served, task_id, how):
    with write(served) as store:
        assert store.execute(f"UPDATE task SET {how} WHERE id = ?", (task_id,)).rowcount == 1  # noqa: S608
    store.close()


def stored(served, task_id):
    """Status and error of a row, however its id is kept."""
    store = write(served)
    query = "SELECT status, error FROM task WHERE CAST(id AS TEXT) = ?"
    [row] = store.execute(query, (task_id,)).fetchall()
    store.close()
    return row


def look_everywhere(alice, task_id):
    """Whatever shows or touches the row answers, and with JSON; how often it was found."""
    shown = alice.send("GET", f"/tasks/{task_id}", headers={"prefer": "wait=0"})
    if shown.is_success:
        TaskBody.model_validate(shown.json())
    items = []
    for path in ("/rooms/r1/tasks", f"/rooms/r1/jobs/{crew.ROTATE}/tasks", "/rooms/r1/jobs"):
        items += alice.ask("GET", path, params={"limit": 500})["items"]
    for item in items:
        if "payload" in item:
            TaskBody.model_validate(item)
    alice.ask("GET", "/workers")
    return items


def settle(served, wanda):
    """Claim until there is nothing left; the ids in their order."""
    found = []
    while claimed := wanda.claim():
        found += [task["id"] for task in claimed]
        for task in claimed:
            assert isinstance(task["payload"], dict)
    return found


@pytest.mark.parametrize("how", PENDING.values(), ids=PENDING)
def test_a_damaged_row_fails_and_those_behind_it_are_claimed(served, alice, wanda, how):
    """Acceptance C09: the bad row goes to failed with a reason, the three good ones are claimed."""
    bad, *good = (alice.submit() for _ in range(4))
    spoil(served, bad, how)
    look_everywhere(alice, bad)
    assert settle(served, wanda) == good
    served.queue.sweep()
    status, error = stored(served, bad)
    assert status == "failed"
    assert error.startswith("The stored task is damaged (")
    assert error.endswith("Submit it again.")
    look_everywhere(alice, bad)
    alice.send("PATCH", f"/tasks/{bad}", {"status": "cancelled"})
    # Who retries it is told the same again.
    if alice.send("POST", f"/tasks/{bad}/retry").is_success:
        assert settle(served, wanda) in ([], [bad])
        look_everywhere(alice, bad)


@pytest.mark.parametrize("how", HARMLESS.values(), ids=HARMLESS)
def test_what_is_only_odd_is_shown_and_run(served, alice, wanda, how):
    """Acceptance C09: attempt beyond max_attempts is no fault here, starts is what is limited."""
    odd, *good = (alice.submit() for _ in range(4))
    spoil(served, odd, how)
    look_everywhere(alice, odd)
    assert sorted(settle(served, wanda)) == sorted([odd, *good])
    assert wanda.report(odd, "running").status_code == 200
    assert wanda.report(odd, "completed", result=1).status_code == 200
    assert alice.show(odd)["result"] == 1
    served.queue.sweep()


@pytest.mark.parametrize("held", ["claimed", "running"])
@pytest.mark.parametrize("how", HELD.values(), ids=HELD)
def test_a_damaged_row_that_is_held_does_not_stop_the_sweep(served, alice, wanda, held, how):
    """Acceptance C09: it fails, or goes back if it can; its worker's other task goes back."""
    bad, good = alice.submit(), alice.submit()
    wanda.claim(limit=2, start=held == "running")
    spoil(served, bad, how)
    look_everywhere(alice, bad)
    served.let_pass(crew.TIMEOUT + 1)
    report = served.queue.sweep()
    assert report.judged
    assert report.requeued_tasks + report.failed_tasks >= 2
    assert stored(served, good)[0] == "pending"
    wanda.beat("wanda")
    assert good in settle(served, wanda)
    status, error = stored(served, bad)
    assert status in {"failed", "claimed"}
    assert error or status == "claimed"
    look_everywhere(alice, bad)
    wanda.report(bad, "failed", error="late")
    served.queue.sweep()


@pytest.mark.parametrize("how", ENDED.values(), ids=ENDED)
def test_a_damaged_row_that_has_ended_is_shown_without_its_fault(served, alice, wanda, how):
    """Acceptance C09: what is spliced into an answer is JSON, or left out."""
    task_id = alice.submit()
    wanda.claim(start=True)
    wanda.report(task_id, "completed", result={"turned": 90})
    spoil(served, task_id, how)
    assert task_id in [item["id"] for item in look_everywhere(alice, task_id) if "payload" in item]
    result = alice.send("GET", f"/tasks/{task_id}/result")
    assert result.status_code in {200, 404}
    # Of so long a text only the ends are looked at, so it may be cut off as it was stored.
    if "large" not in how and result.status_code == 200:
        assert result.json() == {"turned": 90}
    served.queue.sweep()


@pytest.mark.parametrize("way", ["many at once", "started", "after a report", "waiting", "core"])
def test_every_way_to_claim_steps_over_damaged_rows(served, alice, wanda, way):
    """Acceptance C09: five kinds of damage between good tasks, whichever way they are claimed."""
    kinds = [PENDING[kind] for kind in list(PENDING) if "cut off" in kind or "started" in kind]
    running = alice.submit()
    wanda.claim(start=True)
    good = []
    if way == "waiting":
        # One transaction makes all of them claimable, and hands the good one over.
        bad = [alice.submit(run_at="2999-01-01T00:00:00Z", priority=9) for _ in kinds]
        for task_id, how in zip(bad, kinds, strict=True):
            spoil(served, task_id, f"{how}, run_at = NULL, ready = 1")
    else:
        bad = [alice.submit() for _ in kinds]
        for task_id, how in zip(bad, kinds, strict=True):
            spoil(served, task_id, how)
    good.append(alice.submit())
    if way == "many at once":
        claimed = wanda.claim(limit=10)
    elif way == "started":
        claimed = wanda.claim(start=True)
    elif way == "after a report":
        answer = wanda.report(running, "completed", attempt=1, claim_next=True)
        claimed = [answer.json()["next_task"]]
    elif way == "waiting":
        claimed = wanda.ask("POST", "/tasks/claim", {}, headers={"prefer": "wait=5"})["tasks"]
    else:
        caller = Caller("wanda")
        views = served.queue.run(claiming.claim_tasks, caller=caller)
        claimed = [{"id": view.task.id} for view in views]
    assert [task["id"] for task in claimed] == good
    assert {stored(served, task_id)[0] for task_id in bad} == {"failed"}


def test_a_backlog_of_damaged_rows_is_cleared_in_bounded_steps(served, alice, wanda):
    """Acceptance C09: a claim ends a bounded number of them and then asks to be repeated."""
    with write(served) as store:
        one = alice.submit()
        columns = [name for name in Task._fields if name not in ("seq", "id")]
        for _ in range(2500):
            store.execute(
                f"INSERT INTO task (id, {', '.join(columns)})"  # noqa: S608
                f" SELECT lower(hex(randomblob(16))), {', '.join(columns)} FROM task WHERE id = ?",
                (one,),
            )
        store.execute("UPDATE task SET payload = 'x'")
    store.close()
    good = alice.submit()
    answers = []
    while True:
        answer = wanda.http.post("/tasks/claim", json={})
        answers.append(answer.status_code)
        if answer.is_success:
            break
        assert answer.headers["retry-after"]
    assert answers == [503, 503, 200]
    assert answer.json()["task"]["id"] == good


def test_a_sweep_ends_all_rows_in_states_that_there_are_not(served, alice, wanda):
    """Acceptance C09: in every gap between two states, more of them than one batch."""
    for name in ("First", "Second"):
        wanda.register(name)
    ids = [alice.submit(f"r1:modifiers:{name}") for name in ("First", "Second") for _ in range(70)]
    words = ("a", "bz", "cb", "clb", "d", "g", "q", "z")
    with write(served) as store:
        for number, task_id in enumerate(ids):
            word = words[number % len(words)]
            store.execute("UPDATE task SET status = ? WHERE id = ?", (word, task_id))
    store.close()
    assert served.queue.sweep().failed_tasks == len(ids)
    assert {stored(served, task_id)[0] for task_id in ids} == {"failed"}
    assert served.queue.sweep().failed_tasks == 0


def test_the_sweep_looks_for_them_without_reading_the_tasks(served):
    """Acceptance C09: what is done for rows that there should not be costs little."""
    text = overdue._NOWHERE.compiled(served.queue.database.spelling).text
    store = write(served)
    plan = [row[3] for row in store.execute(f"EXPLAIN QUERY PLAN {text}", (1,))]
    store.close()
    searches = [step for step in plan if "lost" in step]
    assert len(searches) == 9
    assert all(step.startswith("SEARCH lost") and "(job_seq=?" in step for step in searches)


def test_a_sound_row_is_left_as_it_is_and_has_no_flaw_but_in_its_text(served, alice, wanda):
    task_id = alice.submit()
    view = served.queue.run(claiming.claim_tasks, caller=Caller("wanda"))[0]
    assert view.task.id == task_id
    assert damage.is_sound(view.task)
    assert damage.mended(view.task)._replace(error=None) == view.task
    assert damage.flaw(view.task).startswith("payload is no JSON object")
