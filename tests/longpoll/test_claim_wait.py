"""Claims that wait: contract, ``POST /tasks/claim`` with ``Prefer: wait=N``; rules, *Claim*."""

from __future__ import annotations

import asyncio
import time
from contextlib import nullcontext

import pytest

from jobroom.domain.records import Caller
from jobroom.domain.timetext import format_time, parse_time
from jobroom.service import reporting
from jobroom.service.queue import JobQueue

pytestmark = pytest.mark.anyio

LONG = 60
SOON = 30.0  # far under LONG: what ends by then was not ended by the deadline
CLAIM = ("POST", "/tasks/claim")


@pytest.fixture
async def nobody_looks(api):
    """The thread that looks for work at intervals is off: only a hand-off serves who waits."""
    api.door.queue._watcher.stop()


async def workers(api, count, **policy):
    """The ids of so many instance workers of the job."""
    ids = []
    for _ in range(count):
        made = await api.send("POST", "/workers", {})
        ids.append(made.json()["id"])
        await api.register(worker_id=ids[-1], **policy)
    return ids


@pytest.mark.usefixtures("nobody_looks")
async def test_a_hand_off_carries_the_task(api):
    """Rules: the hand-off is the claim itself."""
    claim = api.sending(*CLAIM, wait=LONG)
    await api.claims_wait(1)
    started = time.monotonic()
    task = await api.submit({"angle": 90})
    answer = await claim
    got = answer.json()["task"]
    assert (got["id"], got["status"], got["payload"]) == (task["id"], "claimed", {"angle": 90})
    assert (got["worker_id"], got["attempt"], got["starts"]) == ("w", 1, 0)
    assert answer.json()["tasks"] == [got]
    assert answer.headers["preference-applied"] == f"wait={LONG}"
    assert time.monotonic() - started < SOON
    assert (await api.send("GET", f"/tasks/{task['id']}")).json()["status"] == "claimed"


@pytest.mark.usefixtures("nobody_looks")
async def test_a_claim_that_starts_is_handed_a_running_task(api):
    """Contract: start, straight to running."""
    claim = api.sending(*CLAIM, {"start": True}, wait=LONG)
    await api.claims_wait(1)
    await api.submit()
    got = (await claim).json()["task"]
    assert (got["status"], got["starts"]) == ("running", 1)


async def test_what_is_claimable_is_given_at_once(api):
    """Contract: Preference-Applied only when it waited."""
    task = await api.submit()
    answer = await api.send(*CLAIM, wait=LONG)
    assert answer.json()["task"]["id"] == task["id"]
    assert "preference-applied" not in answer.headers


async def test_a_wait_that_ends_without_a_task_says_null(api):
    """Contract: null only if nothing was claimable."""
    answer = await api.send(*CLAIM, wait=1)
    assert answer.json() == {"task": None, "tasks": []}
    assert answer.headers["preference-applied"] == "wait=1"
    assert (api.parked, api.door.waiters) == (0, 0)


async def test_a_wait_that_has_ended_takes_nothing_any_more(api):
    """Never a task to nobody: a claim that was answered null is out of the queue."""
    await api.send(*CLAIM, wait=1)
    task = await api.submit()
    shown = await api.send("GET", f"/tasks/{task['id']}")
    assert shown.json()["status"] == "pending"


@pytest.mark.usefixtures("nobody_looks")
async def test_who_waits_longest_is_served_first(api):
    """Rules: waiting claimers are served first come, first served per job."""
    ids = await workers(api, 8)
    claims = []
    for worker_id in ids:
        claims.append(api.sending(*CLAIM, {"worker_id": worker_id}, wait=LONG))
        await api.claims_wait(len(claims))
    submitted = [await api.submit() for _ in ids]
    got = [(await claim).json()["task"] for claim in claims]
    assert [task["id"] for task in got] == [task["id"] for task in submitted]
    assert [task["worker_id"] for task in got] == ids


@pytest.mark.usefixtures("nobody_looks")
async def test_one_task_is_handed_to_one_of_many(api):
    """Contract: never the same task to two claims."""
    ids = await workers(api, 5)
    claims = [api.sending(*CLAIM, {"worker_id": worker_id}, wait=LONG) for worker_id in ids]
    await api.claims_wait(5)
    task = await api.submit()
    done, _ = await asyncio.wait(claims, return_when=asyncio.FIRST_COMPLETED)
    assert [claim.result().json()["task"]["id"] for claim in done] == [task["id"]]
    assert api.parked == 4
    api.door.stop_waiting()
    answers = [claim.result().json()["task"] for claim in (await asyncio.wait(claims))[0]]
    assert answers.count(None) == 4


@pytest.mark.usefixtures("nobody_looks")
async def test_a_limit_is_not_waited_to_be_filled(api):
    """Rules: limit returns what is there, never waits to fill."""
    claim = api.sending(*CLAIM, {"limit": 3}, wait=LONG)
    await api.claims_wait(1)
    task = await api.submit()
    assert [got["id"] for got in (await claim).json()["tasks"]] == [task["id"]]
    submitted = [(await api.submit())["id"] for _ in range(4)]
    answer = await api.send(*CLAIM, {"limit": 3}, wait=LONG)
    assert [got["id"] for got in answer.json()["tasks"]] == submitted[:3]


@pytest.mark.usefixtures("nobody_looks")
async def test_a_job_registered_while_waiting_counts(api):
    """A worker's waiting claim covers all its jobs, those it takes on meanwhile too."""
    claim = api.sending(*CLAIM, wait=LONG)
    await api.claims_wait(1)
    await api.register("Scale")
    task = await api.submit(job="r1:modifiers:Scale")
    assert (await claim).json()["task"]["id"] == task["id"]


@pytest.mark.usefixtures("nobody_looks")
async def test_a_job_taken_on_while_waiting_may_have_tasks_already(api):
    await api.register("Scale", sub="other")
    task = await api.submit(job="r1:modifiers:Scale")
    claim = api.sending(*CLAIM, wait=LONG)
    await api.claims_wait(1)
    await api.register("Scale")
    assert (await claim).json()["task"]["id"] == task["id"]


async def test_a_worker_deleted_while_waiting_is_404(open_api):
    """Contract: after a DELETE by its owner a claim is 404; it is seen with the next beat."""
    async with open_api(worker_timeout_seconds=0.3) as api:
        await api.register()
        claim = api.sending(*CLAIM, wait=LONG)
        await api.claims_wait(1)
        assert (await api.send("DELETE", "/workers/w")).status_code == 204
        answer = await claim
        assert answer.status_code == 404
        assert answer.json()["type"] == "/v1/problems/worker-not-found"
        assert (api.parked, api.door.waiters) == (0, 0)


@pytest.mark.usefixtures("nobody_looks")
async def test_a_deleted_worker_is_handed_nothing(api):
    """Nor does it keep the task from those behind it."""
    first, second = await workers(api, 2)
    leaving = api.sending(*CLAIM, {"worker_id": first}, wait=LONG)
    await api.claims_wait(1)
    staying = api.sending(*CLAIM, {"worker_id": second}, wait=LONG)
    await api.claims_wait(2)
    await api.send("DELETE", f"/workers/{first}")
    task = await api.submit()
    assert (await leaving).status_code == 404
    assert (await staying).json()["task"]["id"] == task["id"]


async def test_a_waiting_claim_is_a_sign_of_life(open_api):
    """A wait longer than the worker timeout loses no worker (contract, *Losing a worker*)."""
    async with open_api(worker_timeout_seconds=2) as api:
        await api.register()
        first = await beat(api)
        claim = api.sending(*CLAIM, wait=LONG)
        while (last := await beat(api)) - first < 3_000_000:
            swept = await api.send("POST", "/sweep")
            assert swept.json()["lost_workers"] == 0
            await asyncio.sleep(0.05)
        assert last > first
        task = await api.submit()
        assert (await claim).json()["task"]["id"] == task["id"]


async def beat(api):
    """The last heartbeat of ``w``, which is alive."""
    (worker,) = (await api.send("GET", "/workers")).json()["items"]
    assert worker["alive"]
    return parse_time(worker["last_heartbeat"])


@pytest.mark.usefixtures("nobody_looks")
async def test_a_worker_swept_asleep_while_waiting_is_served_all_the_same(api):
    """Contract: an identity worker's links sleep until its next claim, and a wait is one."""
    claim = api.sending(*CLAIM, wait=LONG)
    await api.claims_wait(1)
    api.door.queue.clock_offset += 3600 * 1_000_000
    assert (await api.send("POST", "/sweep")).json()["lost_workers"] == 1
    task = await api.submit()
    assert (await claim).json()["task"]["id"] == task["id"]


async def test_a_task_that_becomes_due_is_handed_to_a_claim_that_waits(api):
    """Rules, *Time fields*: run_at reads pending, claimable from then on."""
    (registered,) = (await api.send("GET", "/workers")).json()["items"]
    due = parse_time(registered["last_heartbeat"]) + 600_000
    task = await api.submit(run_at=format_time(due))
    claim = api.sending(*CLAIM, wait=LONG)
    await api.claims_wait(1)
    started = time.monotonic()
    got = (await claim).json()["task"]
    assert got["id"] == task["id"]
    assert parse_time(got["claimed_at"]) >= due
    assert time.monotonic() - started < SOON


class NoSigns:
    """A watched file that is never seen to be written to."""

    def wait(self, seconds):
        time.sleep(seconds)
        return False


class EndlessSigns:
    """A watched file that is written to all the time."""

    def wait(self, seconds):
        time.sleep(0.001)
        return True


async def test_a_due_task_is_noticed_however_much_is_written(api):
    """The time is looked at at each tick, not only where nothing else happens."""
    api.door.queue.database.watch_commits = lambda: nullcontext(EndlessSigns())
    (registered,) = (await api.send("GET", "/workers")).json()["items"]
    due = parse_time(registered["last_heartbeat"]) + 400_000
    task = await api.submit(run_at=format_time(due))
    claim = api.sending(*CLAIM, wait=LONG)
    await api.claims_wait(1)
    started = time.monotonic()
    assert (await claim).json()["task"]["id"] == task["id"]
    assert time.monotonic() - started < SOON


async def test_a_commit_by_another_process_is_noticed_without_a_sign(api):
    """A commit is signalled before it can be seen, so no sign may be the last look."""
    api.door.queue.database.watch_commits = lambda: nullcontext(NoSigns())
    task = await api.running()
    waiting = api.sending("GET", f"/tasks/{task['id']}", wait=LONG)
    await api.watching(task)
    started = time.monotonic()
    with JobQueue.open(api.door.settings) as other:
        done = reporting.Report(status="completed")
        other.run(reporting.report, caller=Caller("w"), task_id=task["id"], report=done)
        assert (await waiting).json()["status"] == "completed"
    assert time.monotonic() - started < SOON


async def test_a_retry_delay_that_ends_wakes_a_claim_that_waits(api):
    """Contract, *Failing with attempts left*: claimable after retry_delay_seconds."""
    await api.register(max_attempts=2, retry_delay_seconds=0.5)
    task = await api.running()
    assert (await api.report(task, status="failed", error="once"))["status"] == "pending"
    claim = api.sending(*CLAIM, wait=LONG)
    await api.claims_wait(1)
    started = time.monotonic()
    got = (await claim).json()["task"]
    assert (got["id"], got["attempt"]) == (task["id"], 2)
    assert time.monotonic() - started < SOON


@pytest.mark.usefixtures("nobody_looks")
async def test_what_a_lost_worker_held_is_handed_to_a_claim_that_waits(api):
    """Contract, *Losing a worker*: back to pending is claimable at once."""
    (other,) = await workers(api, 1, on_worker_lost="requeue")
    task = await api.running()
    claim = api.sending(*CLAIM, {"worker_id": other}, wait=LONG)
    await api.claims_wait(1)
    await api.send("DELETE", "/workers/w")
    got = (await claim).json()["task"]
    assert (got["id"], got["worker_id"], got["attempt"]) == (task["id"], other, 2)


@pytest.mark.usefixtures("nobody_looks")
async def test_what_is_handed_back_is_handed_to_a_claim_that_waits(api):
    """Contract, *Handing back*: claimed -> pending at once."""
    task = await api.submit()
    await api.send(*CLAIM)
    (other,) = await workers(api, 1)
    claim = api.sending(*CLAIM, {"worker_id": other}, wait=LONG)
    await api.claims_wait(1)
    await api.report(task, status="pending")
    assert (await claim).json()["task"]["id"] == task["id"]


@pytest.mark.usefixtures("nobody_looks")
async def test_a_retried_task_is_handed_to_a_claim_that_waits(api):
    """Contract: POST /tasks/{id}/retry, failed -> pending again."""
    task = await api.running()
    await api.report(task, status="failed", error="no")
    claim = api.sending(*CLAIM, wait=LONG)
    await api.claims_wait(1)
    await api.send("POST", f"/tasks/{task['id']}/retry", sub="user")
    assert (await claim).json()["task"]["id"] == task["id"]


async def test_a_repeated_request_id_gives_the_same_task_without_waiting(api):
    """Contract: repeating the request after a lost answer gives the same task again."""
    wish = {"request_id": "r-1"}
    claim = api.sending(*CLAIM, wish, wait=LONG)
    await api.claims_wait(1)
    await api.submit()
    first = (await claim).json()["task"]
    await api.submit()
    again = await api.send(*CLAIM, wish, wait=LONG)
    assert again.json()["task"]["id"] == first["id"]
    assert again.json()["task"]["attempt"] == 1
    assert "preference-applied" not in again.headers


async def test_beyond_the_most_waiters_a_request_is_429(open_api):
    """Contract, *Errors*: too-many-requests 429, with Retry-After; what does not wait goes on."""
    async with open_api(max_waiters=1) as api:
        await api.register()
        claim = api.sending(*CLAIM, wait=LONG)
        await api.claims_wait(1)
        refused = await api.send(*CLAIM, wait=LONG)
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
        assert refused.json()["type"] == "/v1/problems/too-many-requests"
        assert (await api.send(*CLAIM)).json()["task"] is None
        await api.submit()
        assert (await claim).json()["task"] is not None
        assert api.door.waiters == 0


async def test_a_token_that_expires_ends_the_wait_of_a_claim(api):
    """Rules, *Who sees what*: while waiting only exp is looked at again."""
    answer = await api.send(*CLAIM, wait=LONG, token=api.token(hours=1.5 / 3600))
    assert (answer.status_code, api.parked) == (401, 0)
    task = await api.submit()
    assert (await api.send("GET", f"/tasks/{task['id']}")).json()["status"] == "pending"


async def test_a_submit_that_is_rolled_back_wakes_nobody(api):
    """A hand-off happens inside the transaction that makes the task: no commit, no task."""
    claim = api.sending(*CLAIM, wait=LONG)
    await api.claims_wait(1)

    def submit_and_break(tx):
        tx.claimable[1] = None
        tx.dirty += 1
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        api.door.queue.run(submit_and_break)
    refused = await api.send("POST", "/rooms/r1/tasks/r1:modifiers:Rotate", {"payload": 1})
    assert refused.status_code == 422
    assert not claim.done()
    task = await api.submit()
    assert (await claim).json()["task"]["id"] == task["id"]
