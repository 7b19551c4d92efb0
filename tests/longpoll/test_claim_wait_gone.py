"""Claims whose client goes away: no task is lost with it."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing

import pytest

from jobroom.domain.records import Caller
from jobroom.service import registration, submission

pytestmark = pytest.mark.anyio

LONG = 60
CLAIM = ("POST", "/tasks/claim")


def submit_at_once(api):
    """Submit on this very thread: the loop hears of it only after what the test does next."""
    queue, user = api.door.queue, Caller("user")
    job = queue.run(
        registration.find_job, caller=user, room_id="r1", full_name="r1:modifiers:Rotate"
    )
    submitted = queue.run(
        submission.submit_task,
        caller=user,
        room_id="r1",
        job=job,
        new=submission.NewTask("{}"),
    )
    return submitted.view.task.id


async def test_a_client_that_went_away_is_skipped(api):
    """Rules, *Claim*: one that went away is skipped."""
    gone = api.by_hand(*CLAIM)
    await api.claims_wait(1)
    staying = api.sending(*CLAIM, wait=LONG)
    await api.claims_wait(2)
    gone.go_away()
    await gone.done
    task = await api.submit()
    got = (await staying).json()["task"]
    assert (got["id"], got["attempt"], gone.sent) == (task["id"], 1, [])
    assert (api.parked, api.door.waiters) == (0, 0)


async def test_a_client_that_goes_between_hand_off_and_answer_loses_no_task(api):
    """Rules, *Claim*: what was claimed for it is claimable again, and nothing is charged."""
    gone = api.by_hand(*CLAIM)
    await api.claims_wait(1)
    task_id = submit_at_once(api)
    gone.go_away()
    await gone.done
    assert gone.sent == []
    got = (await api.send(*CLAIM)).json()["task"]
    assert (got["id"], got["attempt"], got["starts"]) == (task_id, 2, 0)


async def test_what_a_vanished_client_got_goes_to_the_next_that_waits(api):
    """Rules, *Claim*: one that went away is skipped, even this late."""
    gone = api.by_hand(*CLAIM)
    await api.claims_wait(1)
    staying = api.sending(*CLAIM, wait=LONG)
    await api.claims_wait(2)
    task_id = submit_at_once(api)
    gone.go_away()
    await gone.done
    assert (await staying).json()["task"]["id"] == task_id


async def test_a_started_task_of_a_vanished_client_is_not_charged(api):
    """Contract, *Losing a worker*: what limits is starts, and nobody ran this one."""
    gone = api.by_hand(*CLAIM, body={"start": True})
    await api.claims_wait(1)
    task_id = submit_at_once(api)
    gone.go_away()
    await gone.done
    got = (await api.send(*CLAIM, {"start": True})).json()["task"]
    assert (got["id"], got["status"], got["starts"]) == (task_id, "running", 1)


async def test_the_repeated_request_of_a_vanished_client_gets_the_task(api):
    """Contract: repeating the request after a lost answer gives the same task again."""
    gone = api.by_hand(*CLAIM, body={"request_id": "r-1"})
    await api.claims_wait(1)
    task_id = submit_at_once(api)
    gone.go_away()
    await gone.done
    again = await api.send(*CLAIM, {"request_id": "r-1"}, wait=LONG)
    assert again.json()["task"]["id"] == task_id


async def test_what_the_store_is_too_busy_to_take_back_is_given_back_later(open_api, settings):
    """Nothing held by a beating worker expires (rules, *Claim*): it would stay there for ever."""
    path = settings.database_url.removeprefix("sqlite:///")
    async with open_api(database_busy_seconds=0.2) as api:
        await api.register()
        gone = api.by_hand(*CLAIM)
        await api.claims_wait(1)
        task_id = submit_at_once(api)
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            gone.go_away()
            await gone.done
            assert (await api.send("GET", f"/tasks/{task_id}")).json()["status"] == "claimed"
            other.execute("ROLLBACK")
        got = (await api.send(*CLAIM, wait=LONG)).json()["task"]
    assert gone.sent == []
    assert (got["id"], got["attempt"], got["starts"]) == (task_id, 2, 0)


async def test_a_request_cancelled_by_its_server_loses_no_task(api):
    """A server that is made to stop cancels its requests: that is a client gone, too."""
    gone = api.by_hand(*CLAIM)
    await api.claims_wait(1)
    task_id = submit_at_once(api)
    gone.done.cancel()
    with pytest.raises(asyncio.CancelledError):
        await gone.done
    assert (await api.send(*CLAIM)).json()["task"]["id"] == task_id
    assert (api.parked, api.door.waiters) == (0, 0)
