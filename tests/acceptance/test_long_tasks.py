"""Tasks that take longer than the worker timeout, swept all the while."""

from __future__ import annotations

import time

import crew
import live_server
import pytest

TIMEOUT = 2
TASK_SECONDS = 4
SWEEP_SECONDS = 0.5
RUN = """
    import logging
    logging.basicConfig(level=logging.INFO)
    class Vis:
        pass
    vis = Vis()
    vis.jobs = jobs
    jobs.worker.arrive()
    say(jobs.worker.id)
    for task in jobs.listen(1.0):
        task.run(vis)
        say("reported")
"""
SLEEPING = """
    def work(_rotate):
        time.sleep({seconds})
        return "slept"
"""
COUNTING = """
    def work(_rotate):
        until = time.monotonic() + {seconds}
        while time.monotonic() < until:
            pass
        return "counted"
"""
UPLOADING = """
    import httpx

    class Slow(httpx.HTTPTransport):
        def handle_request(self, request):
            if int(request.headers.get("content-length", 0)) > 1_000_000:
                time.sleep({seconds})  # a line on which the result takes so long
            return super().handle_request(request)

    jobs.close()
    connection = Connection(
        os.environ["JOBROOM_URL"],
        os.environ["JOBROOM_TOKEN"],
        http=httpx.Client(transport=Slow(), timeout=30),
    )
    jobs = JobManager(connection)
    jobs.register(Rotate, room="r1")

    def work(_rotate):
        return "x" * 5_000_000
"""
# As a catastrophic regular expression does, but for a known time: C code that keeps the lock.
HOLDING = """
    import ctypes

    def work(rotate):
        if rotate.angle == 1:
            ctypes.PyDLL(None).usleep({seconds} * 1_000_000)
        return "held"
"""


@pytest.fixture
def server(tmp_path):
    settings = {
        "jwt_secret": live_server.SECRET,
        "worker_timeout_seconds": TIMEOUT,
        "sweeper_interval_seconds": SWEEP_SECONDS,
    }
    with live_server.Server(tmp_path, **settings) as one:
        yield one.until_ready()


@pytest.fixture
def start(server):
    started = []

    def begin(body):
        """A worker that serves a room of its own."""
        room = f"room{len(started)}"
        head = crew.HEAD.replace("r1", room)
        text = (body + RUN).format(seconds=TASK_SECONDS).replace("r1", room)
        program = crew.Program(server.url, live_server.token_of("w"), text, head=head)
        started.append(program)
        return program, f"{room}:modifiers:Rotate"

    yield begin
    for program in started:
        program.kill()


def submit(alice, full_name, angle):
    path = f"/rooms/{full_name.partition(':')[0]}/tasks/{full_name}"
    return alice.ask("POST", path, {"payload": {"angle": angle}})["id"]


def test_a_worker_beats_while_its_task_sleeps_counts_or_uploads(server, start):
    """Acceptance C06, and number 5: completed at attempt 1, and never absent from /workers.

    The fourth task keeps the interpreter's lock in C for longer than the timeout, which no thread
    of its process can do anything about: its worker is given up, its report gets 409 and one line
    in the log, and it goes on.
    """
    alice = crew.Person(server.url, live_server.token_of("w"))
    programs = [start(body) for body in (SLEEPING, COUNTING, UPLOADING, HOLDING)]
    workers = [program.hear() for program, _ in programs]
    tasks = [submit(alice, full_name, 1) for _, full_name in programs]
    looks = 0
    deadline = time.monotonic() + crew.UPPER_BOUND_SECONDS
    while any(alice.show(task_id)["status"] != "completed" for task_id in tasks[:3]):
        listed = {worker["id"]: worker["alive"] for worker in alice.ask("GET", "/workers")["items"]}
        assert [listed.get(worker) for worker in workers[:3]] == [True] * 3
        assert time.monotonic() < deadline
        looks += 1
        time.sleep(0.05)
    assert looks > 10
    done = [alice.show(task_id) for task_id in tasks[:3]]
    assert [task["attempt"] for task in done] == [1, 1, 1]
    assert (done[0]["result"], done[1]["result"]) == ("slept", "counted")
    assert len(done[2]["result"]) == 5_000_000
    check_the_one_that_was_lost(alice, programs[3], tasks[3])
    alice.http.close()


def check_the_one_that_was_lost(alice, held, task_id):
    program, full_name = held
    assert program.hear() == "reported"
    lost = alice.show(task_id)
    assert lost["status"] == "failed"
    assert "Worker disconnected" in lost["error"]
    following = submit(alice, full_name, 2)
    assert program.hear() == "reported"
    assert alice.show(following)["result"] == "held"
    program.process.terminate()
    code, log = program.end()
    assert code == 0, log
    refused = [line for line in log.splitlines() if "report.refused" in line]
    assert len(refused) == 1
    assert task_id in refused[0]
