"""What a worker costs in requests, and what it does when their answers are lost."""

from __future__ import annotations

import signal

import pytest
from proxies import Proxy
from worker_shop import Shop, until


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    # The default worker timeout: heartbeats are not what is counted here.
    made = Shop(tmp_path_factory.mktemp("shop"), worker_timeout_seconds=60)
    yield made
    made.close()


@pytest.fixture
def proxy(shop):
    with Proxy(shop.server.port) as made:
        yield made


ADD = """
    @job
    def add(a: int) -> int:
        return a + 1

    @job
    def wait():
        began("waiting")
        while not pathlib.Path("go").exists():
            time.sleep(0.01)
"""


def begin_busy(room, proxy, *options, tasks):
    """Let tasks wait behind one that runs; returns the worker and the ids."""
    worker = room.worker(ADD, *options, url=proxy.url)
    room.submit("wait")
    until((room.folder / "waiting").exists)
    return worker, [room.submit("add", a=number) for number in range(tasks)]


def go_on(room):
    (room.folder / "go").touch()


def test_a_busy_slot_needs_one_request_a_task(room, proxy, record_property):
    _, tasks = begin_busy(room, proxy, tasks=30)
    before = proxy.requests
    go_on(room)
    assert room.until_completed(*tasks) == list(range(1, 31))
    spent = proxy.requests - before
    record_property("requests_for_31_tasks", spent)
    print(f"{spent} requests for 31 tasks")  # noqa: T201  # the count is what is to be seen
    assert spent <= 31 + 2  # a heartbeat, and the claim that finds nothing more


def is_last_report(text):
    return text.startswith(b"PATCH") and b'"claim_next":true' in text


def test_a_lost_answer_of_a_report_brings_the_same_next_task_again(room, proxy):
    _, tasks = begin_busy(room, proxy, tasks=3)
    proxy.cut_after_request(is_last_report, times=2)
    go_on(room)
    assert room.until_completed(*tasks) == [1, 2, 3]
    assert proxy.faults == 2
    assert [room.task(one)["attempt"] for one in tasks] == [1, 1, 1]


def test_a_lost_answer_of_a_claim_brings_the_same_tasks_again(room, proxy):  # C11
    proxy.cut_after_request(lambda text: b"/tasks/claim" in text, times=1)
    tasks = []
    worker = room.worker(ADD, "--slots", "2", url=proxy.url)
    proxy.until_faults()
    tasks = [room.submit("add", a=number) for number in range(3)]
    assert room.until_completed(*tasks) == [1, 2, 3]
    assert [room.task(one)["attempt"] for one in tasks] == [1, 1, 1]
    assert not worker.has_ended


def test_a_claim_asks_for_as_many_as_there_are_free_slots(room, proxy):
    asked = []

    def note(text):
        if b"/tasks/claim" in text:
            asked.append(text)
        return False

    proxy.cut_before_request(note, times=None)
    room.worker(ADD, "--slots", "3", url=proxy.url)
    until(lambda: asked)
    assert b'"limit":3' in asked[0]
    room.submit("wait")
    until(lambda: b'"limit":2' in asked[-1])
    go_on(room)


def test_what_a_claim_brings_after_sigterm_is_handed_back_uncharged(room, proxy):
    """Its answer is held on its way while the worker is told to stop."""
    worker = room.worker(ADD, "--slots", "2", url=proxy.url)
    proxy.stall(lambda text: b"/tasks/claim" in text, times=1)
    proxy.until_faults()
    tasks = [room.submit("add", a=number) for number in range(2)]
    worker.send(signal.SIGTERM)
    worker.until_told("worker.draining running=0")
    proxy.heal(deliver=True)
    assert worker.wait() == 0
    assert [room.task(one)["status"] for one in tasks] == ["pending"] * 2
    assert [room.task(one)["starts"] for one in tasks] == [0] * 2
    assert {room.task(one)["attempt"] for one in tasks} == {1}


def test_a_log_goes_with_the_last_report_of_a_short_task(room, proxy):
    room.worker(
        """
        @job
        def say(what: str):
            print(what)
        """,
        url=proxy.url,
    )
    task = room.submit("say", what="hello")
    room.until_completed(task)
    assert room.log(task) == "hello\n"


def test_a_running_task_shows_its_log_and_a_lost_answer_doubles_nothing(room, proxy):
    room.worker(
        """
        @job
        def say():
            current_task().log("one\\n")
            while not pathlib.Path("go").exists():
                time.sleep(0.01)
            current_task().log("two\\n")
        """,
        url=proxy.url,
    )
    proxy.cut_after_request(lambda text: b'"log":"one' in text, times=1)
    task = room.submit("say")
    until(lambda: room.log(task) == "one\n" and proxy.faults)
    (room.folder / "go").touch()
    room.until_completed(task)
    assert room.log(task) == "one\ntwo\n"


def test_sigterm_while_its_jobs_are_registered_signs_the_worker_off(room, proxy):
    """The answer to the second registration is held back; the first job has its worker by then."""
    proxy.stall(lambda text: text.startswith(b"PUT ") and b'"wait"' in text, times=1)
    worker = room.start(room.written(ADD), url=proxy.url)
    proxy.until_faults()
    assert room.workers()
    worker.send(signal.SIGTERM)
    assert worker.wait() == 128 + signal.SIGTERM
    assert not room.workers()
    assert "Traceback" not in worker.output
