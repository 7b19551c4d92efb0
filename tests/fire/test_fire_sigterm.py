"""SIGTERM and leaving, with the server there and with the server away: a bounded time."""

from __future__ import annotations

import signal
import time

import faultproxy as fp
import pytest
from workshop import until

LONG_ENOUGH_SECONDS = 25
"""Batch systems kill 30 seconds after SIGTERM."""
SOONER = "ending.LAST_CHANCE_SECONDS = 1.0"
BODY = """\
def work(self):
    tell(f"begun {self.number}")
    hear()
    return self.number
for task in jobs.listen(1.0):
    task.run(None)
tell("after the loop")
"""
AWAY = [fp.RESET_BEFORE, fp.STALL]


def test_the_running_task_is_finished_and_what_has_not_started_is_handed_back(shop):
    """C08: the first task was claimed ahead by another stream of the same program."""
    program = shop.run("ahead = jobs.listen(1.0)\nheld = next(ahead)\n" + BODY)
    first, second, third = (shop.submit(number) for number in range(3))
    program.until_told("begun 1")
    assert shop.task(first)["status"] == "claimed"
    program.signal(signal.SIGTERM)
    time.sleep(0.3)
    assert shop.task(second)["status"] == "running"
    program.say("go on")
    assert program.wait() == 0
    assert program.out[-1] == "after the loop"
    assert program.err == []
    statuses = [shop.task(one) for one in (first, second, third)]
    assert [one["status"] for one in statuses] == ["pending", "completed", "pending"]
    assert [one["starts"] for one in statuses] == [0, 1, 0]
    assert shop.workers() == []


def test_a_second_one_ends_it_at_once_and_the_task_is_lost_by_the_rule(shop):
    program = shop.run(BODY)
    task_id = shop.submit(1)
    program.until_told("begun 1")
    program.signal(signal.SIGTERM)
    time.sleep(0.3)
    assert program.process.poll() is None
    program.signal(signal.SIGTERM)
    assert program.wait() == -signal.SIGTERM
    assert "Worker disconnected" in shop.until_status(task_id, "failed")["error"]


def test_a_claim_whose_answer_was_lost_just_before_it_is_handed_back(patient_shop):
    """Nothing lost: nobody knows of the task but the store, until the claim is made again."""
    shop = patient_shop
    program = shop.run("""
        def claim_seconds():
            from jobroom.client import search
            search.LONGEST_CLAIM_DELAY_SECONDS = 60
            from jobroom.client import transport
            transport.FIRST_DELAY_SECONDS = 60
        claim_seconds()
        for task in jobs.listen(1.0):
            task.run(None)
        """)
    until(lambda: shop.proxy.asked("POST", "/claim"))
    shop.proxy.fail_next(fp.SWALLOW, only=lambda one: one.path.endswith("/claim"))
    until(lambda: [one for one in shop.proxy.seen if one.fault])
    task_id = shop.submit(1)
    swallowed = until(lambda: [one for one in shop.proxy.seen if one.fault and one.status])
    assert len(swallowed) == 1
    until(lambda: shop.task(task_id)["status"] == "claimed")
    program.signal(signal.SIGTERM)
    assert program.wait() == 0
    task = shop.task(task_id)
    assert (task["status"], task["starts"]) == ("pending", 0)


@pytest.mark.parametrize("kind", AWAY, ids=repr)
def test_in_an_outage_a_worker_that_waits_ends_soon(shop, kind):
    program = shop.run()
    until(lambda: shop.proxy.asked("POST", "/claim"))
    with shop.proxy.failing(kind):
        shop.proxy.reset_all()
        until(lambda: [one for one in shop.proxy.asked("POST", "/claim") if one.fault])
        began = time.monotonic()
        program.signal(signal.SIGTERM)
        assert program.wait(LONG_ENOUGH_SECONDS) == 0
    assert time.monotonic() - began < LONG_ENOUGH_SECONDS
    assert program.out == ["after the loop"]
    events = [line.split()[0] for line in program.err]
    assert events in (["server.away", "worker.not_signed_off"], ["worker.not_signed_off"])


def test_in_an_outage_a_worker_that_reports_gives_up_and_ends(shop):
    """The report would be tried for an hour; a program that is to end cannot wait for that."""
    program = shop.run(f"from jobroom.client import ending\n{SOONER}\n{BODY}")
    task_id = shop.submit(1)
    program.until_told("begun 1")
    with shop.proxy.failing(fp.page(502)):
        program.say("go on")
        until(lambda: len([one for one in shop.proxy.asked("PATCH", task_id) if one.fault]) >= 2)
        program.signal(signal.SIGTERM)
        assert program.wait(LONG_ENOUGH_SECONDS) == 0
    events = [line.split()[0] for line in program.err]
    assert events.count("report.given_up") == 1
    assert "Traceback" not in "".join(program.err)
    assert shop.until_status(task_id, "failed")["starts"] == 1


def test_a_report_that_the_server_hears_just_after_sigterm_still_counts(patient_shop):
    """The last tries come soon after each other, not when a growing pause is over."""
    shop = patient_shop
    program = shop.run(BODY)
    task_id = shop.submit(1)
    program.until_told("begun 1")
    with shop.proxy.failing(fp.page(503, retry_after="60")):
        program.say("go on")
        until(lambda: len([one for one in shop.proxy.asked("PATCH", task_id) if one.fault]) >= 1)
        program.signal(signal.SIGTERM)
        time.sleep(0.3)
    assert program.wait(LONG_ENOUGH_SECONDS) == 0
    assert shop.task(task_id)["status"] == "completed"


def test_leaving_a_with_block_in_an_outage_takes_a_bounded_time(shop, told):
    worker = shop.hire()
    with shop.proxy.failing(fp.page(504)):
        shop.proxy.reset_all()
        until(lambda: [one for one in shop.proxy.asked("POST", "/claim") if one.fault])
        began = time.monotonic()
        with worker.jobs:
            pass
        assert time.monotonic() - began < LONG_ENOUGH_SECONDS
    assert told.events.count("worker.not_signed_off") == 1
