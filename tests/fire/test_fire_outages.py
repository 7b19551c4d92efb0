"""The server is away for a while, in every way there is: what the log says, and what goes on."""

from __future__ import annotations

import contextlib
import sqlite3
import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor

import faultproxy as fp
import httpx
import pytest
from workshop import BASE, DEEP, Work, Workshop, until

from jobroom.client.manager import JobManager
from jobroom.client.problems import Barred, UnexpectedAnswer
from jobroom.client.task import current_task
from jobroom.errors import JobroomError

OUTAGE_SECONDS = 30 if DEEP else 3
SHORT_SECONDS = 5 if DEEP else 0.3
KINDS = [
    *(fp.RESET_BEFORE, fp.RESET_AMID, fp.RESET_AFTER, fp.SWALLOW, fp.CUT, fp.GARBAGE),
    *(fp.NO_HTTP, fp.STRANGE, fp.page(502), fp.page(503, html=False), fp.page(504)),
    *(fp.page(500), fp.page(404), fp.page(301, location="https://login.example/?to=1")),
    fp.page(403),
    fp.page(503, retry_after="0.2"),
]
COMMITTING = [fp.RESET_AFTER, fp.SWALLOW, fp.CUT, fp.GARBAGE]
"""Faults in which a heartbeat reaches the server all the same."""
OF_ANOTHER_ADDRESS = [
    *(fp.GARBAGE, fp.STRANGE, fp.page(500), fp.page(404), fp.page(403)),
    fp.page(301, location="https://login.example/?to=1"),
]
MIXTURE = [one for one in KINDS if one not in [*COMMITTING, fp.page(403)]]
AWAY_AND_BACK = ["server.away", "server.back"]


def busy_threads(shop, api, stopped):
    """Two more threads that use the same connection for all that an application does."""
    jobs = JobManager(api)

    def ask():
        while not stopped.is_set():
            with contextlib.suppress(JobroomError):
                jobs.submit(shop.job, {"number": 1})
            stopped.wait(0.05)

    threads = [threading.Thread(target=ask, daemon=True) for _ in range(2)]
    for thread in threads:
        thread.start()
    return threads


def test_each_kind_of_outage_is_one_line_and_its_end_another(patient_server, told):
    """Working, beating and submitting in four threads; several such programs at once."""
    with ThreadPoolExecutor(len(KINDS) // 2) as pool:
        for kind, lines in pool.map(lambda kind: live_through(patient_server, told, kind), KINDS):
            pair = ["token.refused", "token.accepted"] if kind == fp.page(403) else AWAY_AND_BACK
            assert [line.split()[0] for line in lines] == pair, (kind, lines)


def live_through(server, told, kind):
    """The kind of outage, and what the log has of it."""
    stopped = threading.Event()
    with fp.Proxy(server.port) as proxy, Workshop(server, proxy, f"of-{KINDS.index(kind)}") as shop:

        def lines(*events):
            mine = [line for line in told.lines if proxy.url in line]
            return [line for line in mine if line.startswith(events)] if events else mine

        worker = shop.hire()
        threads = busy_threads(shop, worker.api, stopped)
        until(lambda: worker.runs)
        with proxy.failing(kind):
            proxy.reset_all()
            until(lambda: lines("server.away", "token.refused"))
            time.sleep(SHORT_SECONDS)
        until(lambda: lines("server.back", "token.accepted"))
        stopped.set()
        for thread in threads:
            thread.join(10)
        assert worker.error is None
        return kind, lines()


def test_a_server_that_takes_requests_and_never_answers_is_one_line_too(shop, told):
    worker = shop.hire()
    with shop.proxy.failing([fp.STALL, fp.SWALLOW_AND_STALL]):
        until(lambda: told.of("server.away"))
        time.sleep(OUTAGE_SECONDS - 2)
    until(lambda: told.of("server.back"))
    task_id = shop.submit(5)
    assert shop.until_status(task_id, "completed")["result"] == 5
    assert told.of("server.") == AWAY_AND_BACK, told.lines
    assert worker.error is None


def test_in_an_outage_longer_than_the_timeout_the_task_is_lost_by_the_rule(shop, told):
    """C01: failed, and never rewritten; the class is told; the next tasks are done."""
    release = threading.Event()
    heard = []

    def work(one):
        if one.number == 1:
            release.wait(60)
            heard.append(until(lambda: current_task().cancelled))
        return one.number

    worker = shop.hire(work)
    lost = shop.submit(1)
    shop.until_status(lost, "running")
    shop.proxy.refuse()
    time.sleep(OUTAGE_SECONDS)
    shop.proxy.accept()
    failed = shop.until_status(lost, "failed")
    release.set()
    following = shop.submit(2)
    shop.until_status(following, "completed")
    until(lambda: "report.refused" in told.events)
    assert "Worker disconnected" in failed["error"]
    assert shop.task(lost) == failed
    assert heard == [True]
    assert worker.runs == [lost, following]
    assert sorted(told.events) == sorted([*AWAY_AND_BACK, "worker.lost", "report.refused"])


def test_in_an_outage_longer_than_the_timeout_a_task_that_requeues_is_done_again(shop, told):
    """C02 from the client's side: the second attempt counts, the first is refused."""
    release = threading.Event()
    worker = shop.hire(lambda one: release.wait(60) and len(worker.runs), on_worker_lost="requeue")
    task_id = shop.submit()
    shop.until_status(task_id, "running")
    with shop.proxy.failing(MIXTURE):
        time.sleep(OUTAGE_SECONDS)
    shop.until_status(task_id, "pending")
    release.set()
    done = shop.until_status(task_id, "completed")
    assert (done["attempt"], done["starts"], done["result"]) == (2, 2, 2)
    assert told.of("server.", "report.") == ["server.away", "server.back", "report.refused"]


@pytest.fixture(scope="module")
def steady(patient_server):
    """One worker for many short faults; each test gives it its work."""
    with (
        fp.Proxy(patient_server.port) as proxy,
        Workshop(patient_server, proxy, "steady") as shop,
    ):
        shop.worker = shop.hire()
        yield shop


@pytest.fixture(autouse=True)
def end_of_faults(request):
    yield
    if "steady" in request.fixturenames:
        shop = request.getfixturevalue("steady")
        shop.proxy.choose = lambda _request: None
        shop.worker.work = lambda one: one.number
        assert shop.worker.error is None


@pytest.mark.parametrize("kind", KINDS, ids=repr)
def test_a_result_outlives_an_outage_of_any_kind(steady, kind):
    """Nothing reported twice, nothing lost: the report is repeated and counts once."""

    def work(one):
        steady.proxy.fail_next(kind, times=2, only=lambda asked: asked.method == "PATCH")
        return {"number": one.number}

    steady.worker.work = work
    task_id = steady.submit(7)
    done = steady.until_status(task_id, "completed")
    assert (done["result"], done["attempt"], done["starts"]) == ({"number": 7}, 1, 1)
    assert steady.worker.runs.count(task_id) == 1
    until(lambda: len(steady.proxy.asked("PATCH", task_id)) == 4)


@pytest.mark.parametrize("kind", KINDS, ids=repr)
def test_one_submit_is_one_task_whatever_happens_to_it(steady, kind):
    """C22: the answer is lost, or a gateway's; the SDK asks again with its idempotency key.

    What cannot be the answer of a gateway that is about to come back is told at once, as the
    address may be wrong; saying it again with the same key makes no second task either.
    """
    before = len(steady.tasks())
    steady.proxy.fail_next(kind, only=lambda one: one.method == "POST" and "/rooms/" in one.path)
    jobs, key = steady.worker.jobs, uuid.uuid4().hex
    if kind in OF_ANOTHER_ADDRESS:
        with pytest.raises((UnexpectedAnswer, Barred), match="was answered"):
            jobs.submit(Work(number=3), room=steady.room, idempotency_key=key)
    task = jobs.submit(Work(number=3), room=steady.room, idempotency_key=key)
    assert steady.until_status(task["id"], "completed")["result"] == 3
    assert len(steady.tasks()) == before + 1


@pytest.mark.parametrize("kind", KINDS, ids=repr)
def test_a_claim_whose_answer_is_lost_brings_its_task_all_the_same(steady, kind):
    """C11: the same claim again gives the same task; none stays claimed for ever."""
    steady.proxy.fail_next(kind, times=2, only=lambda one: one.path.endswith("/claim"))
    # The first one goes to the claim that waits already.
    task_ids = [steady.submit(number) for number in range(3)]
    assert [steady.until_status(one, "completed")["starts"] for one in task_ids] == [1, 1, 1]
    assert steady.worker.runs[-3:] == task_ids


@contextlib.contextmanager
def locked(server):
    """Another process (this one) holds the write lock of the server's store."""
    with contextlib.closing(
        sqlite3.connect(server.folder / "jobroom.db", timeout=60, isolation_level=None)
    ) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")


def test_claims_that_reach_the_server_and_nobody_else_cost_a_task_nothing(steady, patient_server):
    """Contract, *Losing a worker*: 10 claims without a start fail a task; these were none's.

    The store is kept busy until the server has seen the client go: it can hand out the task only
    after that. (A client that goes when its answer is on the way repeats its ``request_id``.)
    """
    room = f"unheard-{uuid.uuid4().hex}"
    claim = {"worker_id": steady.direct.post(f"{BASE}/workers").json()["id"]}
    put = {"category": "modifiers", "name": "Unheard", **claim}
    steady.direct.put(f"{BASE}/rooms/{room}/jobs", json=put)
    path = f"{BASE}/rooms/{room}/tasks/{room}:modifiers:Unheard"
    task_id = steady.direct.post(path, json={}).json()["id"]

    def is_of_nobody(request):
        return claim["worker_id"].encode() in request.body

    def handed_back(attempt):
        task = steady.task(task_id)
        return task["attempt"] == attempt and task["status"] == "pending"

    with (
        steady.proxy.failing(fp.LEAVE, only=is_of_nobody),
        httpx.Client(base_url=steady.proxy.url, headers=steady.direct.headers) as http,
    ):
        for attempt in range(1, 14):
            with locked(patient_server), pytest.raises(httpx.ReadError):
                http.post(f"{BASE}/tasks/claim", json=claim, headers={"prefer": "wait=5"})
            until(lambda attempt=attempt: handed_back(attempt))
    answers = [one.status for one in steady.proxy.asked("POST", "/claim") if is_of_nobody(one)]
    assert answers == [None] * 13
