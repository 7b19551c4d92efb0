"""A worker that was declared lost while it works (C06, C10), and one that was suspended (C01)."""

from __future__ import annotations

import signal
import time

import pytest
from workshop import until

from jobroom.client.task import current_task

BODY = """
def work(self):
    tell(f"begun {self.number}")
    hear()
    tell(f"cancelled {current_task().cancelled}")
    return self.number
for task in jobs.listen(1.0):
    task.run(None)
"""


def take_worker_away(shop, worker):
    """As the sweep does with a lost one: its tasks are settled, and it is unknown."""
    answer = shop.direct.delete(f"/v1/joblib/workers/{worker.jobs.worker.id}")
    assert answer.status_code == 204


def test_a_worker_that_was_declared_lost_registers_again_and_goes_on(shop, told):
    """C10. The lost task's report is a 409 and one line; its class is told, as it asks."""
    heard = []

    def work(one):
        if one.number == 1:
            take_worker_away(shop, worker)
            heard.append(until(lambda: current_task().cancelled))
        return one.number

    worker = shop.hire(work)
    worker_id = worker.jobs.worker.id
    lost, following = shop.submit(1), shop.submit(2)
    assert shop.until_status(following, "completed")["worker_id"] != worker_id
    failed = shop.task(lost)
    assert (failed["status"], failed["result"]) == ("failed", None)
    assert heard == [True]
    (refused,) = [line for line in told.lines if line.startswith("report.refused")]
    assert f"task={lost}" in refused
    assert told.events == ["worker.lost", "report.refused"]
    assert [one["id"] for one in shop.workers()] == [worker.jobs.worker.id]
    assert worker.error is None


def test_a_report_that_comes_before_the_heartbeat_notices_is_one_line_too(patient_shop, told):
    shop = patient_shop
    worker = shop.hire(lambda one: one.number == 1 and take_worker_away(shop, worker))
    lost, following = shop.submit(1), shop.submit(2)
    shop.until_status(following, "completed")
    assert shop.task(lost)["status"] == "failed"
    assert sorted(told.events) == ["report.refused", "worker.lost"]


@pytest.mark.parametrize("policy", ["fail", "requeue"])
def test_a_suspended_worker_comes_back_to_the_rule(shop, policy):
    """C01 and C02: SIGSTOP beyond the timeout, as a laptop that was closed; then SIGCONT."""
    program = shop.run(BODY, on_worker_lost=policy)
    task_id = shop.submit(1)
    program.until_told("begun 1")
    program.signal(signal.SIGSTOP)
    lost = shop.until_status(task_id, "failed" if policy == "fail" else "pending")
    program.say("go on")
    program.signal(signal.SIGCONT)
    if policy == "fail":
        following = shop.submit(2)
        program.until_told("begun 2")
        program.say("go on")
        assert shop.until_status(following, "completed")["result"] == 2
        assert shop.task(task_id) == lost
        assert "Worker disconnected" in lost["error"]
    else:
        until(lambda: program.out.count("begun 1") == 2)
        program.say("go on")
        done = shop.until_status(task_id, "completed")
        assert (done["attempt"], done["starts"], done["result"]) == (2, 2, 1)
    assert [line.split()[0] for line in program.err].count("report.refused") == 1
    assert "Traceback" not in "".join(program.err)


def test_the_clock_of_the_workers_host_does_not_matter(shop):
    """C05 from the client's side: what is alive is decided by the store's clock."""
    programs = [
        shop.run(f"""
            now = time.time
            time.time = lambda: now() + {seconds}
            def work(self):
                time.sleep(1.5)
                return {seconds}
            for task in jobs.listen(1.0):
                task.run(None)
            """)
        for seconds in (-86400, 86400)
    ]
    task_ids = [shop.submit(number) for number in range(2)]
    done = [shop.until_status(one, "completed", "failed") for one in task_ids]
    assert {one["status"] for one in done} == {"completed"}
    assert [one["starts"] for one in done] == [1, 1]
    assert [program.err for program in programs] == [[], []]


def test_code_that_holds_the_interpreter_longer_than_the_timeout_is_lost_by_the_rule(shop):
    """C06, the third case: the report gets C01's 409 and a clear line, and the loop goes on."""
    body = """
        import ctypes
        def work(self):
            if self.number == 1:
                for _ in range(4):
                    ctypes.PyDLL(None).usleep(500_000)
            return self.number
        sys.setswitchinterval(100)
        for task in jobs.listen(1.0):
            task.run(None)
        """
    program = shop.run(body)
    lost, following = shop.submit(1), shop.submit(2)
    failed = shop.until_status(lost, "failed")
    shop.until_status(following, "completed")
    assert shop.task(lost) == failed
    assert [line.split()[0] for line in program.err].count("report.refused") == 1


def test_a_sleep_and_a_busy_loop_longer_than_the_timeout_survive(shop, told):
    """C06, the first two cases."""

    def work(one):
        if one.number == 1:
            time.sleep(2)
        end = time.monotonic() + 2
        while one.number == 2 and time.monotonic() < end:
            pass
        return one.number

    workers = [shop.hire(work) for _ in range(2)]
    task_ids = [shop.submit(number) for number in (1, 2)]
    assert [shop.until_status(one, "completed")["result"] for one in task_ids] == [1, 2]
    assert told.events == []
    assert [worker.error for worker in workers] == [None, None]
