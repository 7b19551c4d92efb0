"""``jobroom worker`` against a real server: what it bears, and how it leaves."""

from __future__ import annotations

import signal
import threading
from types import SimpleNamespace

import live_server
import pytest
from worker_shop import BASE, SOON, TIMEOUT_SECONDS, Room, Shop, until

from jobroom.client.connection import Connection
from jobroom.client.worker import ProcessWorker
from jobroom.errors import ConfigurationError
from jobroom.worker import functions
from jobroom.worker import serving as serving_module
from jobroom.worker.functions import job
from jobroom.worker.serve import Runners, serving_of

ADD = """
    @job
    def add(a: int, b: int = 1) -> int:
        return a + b
"""
SPIN = """
    @job
    def spin(seconds: float, name: str = "spinning") -> str:
        began(name)
        busy(seconds)
        return "spun"
"""


def spinning(room, name="spinning"):
    until((room.folder / name).exists)


def test_functions_run_with_their_defaults(room):
    room.worker(ADD)
    tasks = [room.submit("add", a=1), room.submit("add", a=1, b=5)]
    assert room.until_completed(*tasks) == [2, 6]


def test_it_says_who_and_where_it_is_and_what_it_serves(room):
    worker = room.worker(ADD, "--slots", "3")
    (line,) = worker.lines("serves")
    assert worker.id in room.workers()
    for part in (str(worker.process.pid), room.shop.server.url, f"{room.name}:modifiers:add"):
        assert part in line
    assert "3 tasks at once, in threads" in line


def test_slots_run_tasks_at_the_same_time(room):
    room.worker(
        """
        @job
        def meet(name: str, other: str) -> bool:
            began(name)
            while not pathlib.Path(other).exists():
                time.sleep(0.01)
            return True
        """,
        *("--slots", "2"),
    )
    tasks = [
        room.submit("meet", name="one", other="two"),
        room.submit("meet", name="two", other="one"),
    ]
    assert room.until_completed(*tasks) == [True, True]


def test_it_never_claims_more_than_it_has_slots_for(room):
    """C08: what is claimed and not started is nothing, whatever waits."""
    room.worker(SPIN, "--slots", "2")
    tasks = [room.submit("spin", seconds=60, name=str(number)) for number in range(5)]
    for name in ("0", "1"):
        spinning(room, name)
    statuses = [room.task(one)["status"] for one in tasks]
    assert statuses == ["running"] * 2 + ["pending"] * 3


def test_the_first_sigterm_finishes_what_runs_and_takes_nothing_more(room):
    worker = room.worker(SPIN)
    running, waiting = room.submit("spin", seconds=1), room.submit("spin", seconds=1)
    spinning(room)
    worker.send(signal.SIGTERM)
    assert worker.wait() == 0
    assert room.task(running)["status"] == "completed"
    assert (room.task(waiting)["status"], room.task(waiting)["starts"]) == ("pending", 0)
    assert worker.id not in room.workers()


def test_a_job_is_gone_as_soon_as_its_worker_has_left(room):  # C17
    worker = room.worker(ADD)
    worker.send(signal.SIGINT)
    assert worker.wait() == 0
    assert room.http.get(f"{BASE}/rooms/{room.name}/jobs").json()["items"] == []


def test_a_killed_worker_is_seen_to_be_gone(room):  # C17
    worker = room.worker(ADD)
    worker.kill()
    until(lambda: worker.id not in room.workers())
    found = room.http.get(f"{BASE}/rooms/{room.name}/jobs/{room.name}:modifiers:add").json()
    assert (found["workers"], bool(found["last_seen"])) == ([], True)


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)], ids=["SIGTERM", "Ctrl-C"]
)
def test_the_second_signal_fails_what_may_not_be_handed_back(room, number, code):
    worker = room.worker(SPIN)
    task = room.submit("spin", seconds=60)
    spinning(room)
    worker.send(signal.SIGTERM)
    worker.until_told("worker.draining running=1")
    worker.send(number)
    assert worker.wait() == code
    assert room.task(task)["error"] == "The worker was stopped while it ran this task."
    assert len(worker.lines("task.failed")) == 1
    assert worker.lines("task.handed_back") == []


def test_the_second_signal_hands_back_what_its_job_requeues(room):
    worker = room.worker(SPIN.replace("@job", '@job(on_worker_lost="requeue")'))
    task = room.submit("spin", seconds=60)
    spinning(room)
    worker.send(signal.SIGTERM)
    worker.until_told("worker.draining running=1")
    worker.send(signal.SIGTERM)
    assert worker.wait() == 143
    assert (room.task(task)["status"], room.task(task)["starts"]) == ("pending", 1)


def test_what_cannot_be_interrupted_does_not_keep_it(room):
    """A thread in C comes to no next step of Python: its task is handed back all the same."""
    worker = room.worker("""
        @job(on_worker_lost="requeue")
        def sleep():
            began("sleeping")
            time.sleep(600)
        """)
    task = room.submit("sleep")
    spinning(room, "sleeping")
    worker.send(signal.SIGTERM)
    worker.until_told("worker.draining running=1")
    worker.send(signal.SIGTERM)
    assert worker.wait() == 143
    assert room.task(task)["status"] == "pending"


def test_a_busy_loop_of_four_worker_timeouts_is_no_loss(room):  # C06
    room.worker(SPIN)
    task = room.submit("spin", seconds=4 * TIMEOUT_SECONDS)
    assert (room.until_completed(task), room.task(task)["attempt"]) == (["spun"], 1)


def test_a_cancel_is_raised_inside_the_task(room):
    worker = room.worker("""
        @job
        def wait():
            began("waiting")
            try:
                while True:
                    try:
                        time.sleep(0.01)
                    except Exception:
                        pass
            finally:
                began("cleaned")

        @job
        async def sleep():
            began("asleep")
            try:
                await asyncio.sleep(600)
            finally:
                began("woken")
        """)
    for name, start, end in (("wait", "waiting", "cleaned"), ("sleep", "asleep", "woken")):
        task = room.submit(name)
        spinning(room, start)
        room.cancel(task)
        spinning(room, end)
        assert room.task(task)["status"] == "cancelled"
    worker.until_told("task.cancelled", 2)


@pytest.mark.parametrize(
    ("payload", "named"), [({"a": "x"}, "a: "), ({}, "a: "), ({"a": 1, "c": 2}, "c: ")]
)
def test_a_payload_that_does_not_fit_fails_its_task_and_names_the_field(room, payload, named):
    worker = room.worker(ADD.replace("@job", "@job(validate=False)"))
    bad, good = room.submit("add", **payload), room.submit("add", a=1)
    room.until_completed(good)
    assert room.task(bad)["status"] == "failed"
    assert f"The payload does not fit the class: {named}" in room.task(bad)["error"]
    assert not worker.has_ended


def test_a_result_that_is_no_json_fails_its_task_and_names_the_place(room):
    room.worker("""
        @job
        def measure(what: str):
            return {"seen": {"nan": float("nan"), "set": {1}, "exit": None}[what]}

        @job
        def leave():
            raise SystemExit(3)
        """)
    errors = {
        room.submit("measure", what="nan"): "float at /seen is not finite",
        room.submit("measure", what="set"): "set at /seen is no JSON type",
        room.submit("leave"): "SystemExit: 3",
    }
    for task, error in errors.items():
        assert error in room.until_status(task, "failed")["error"]


def test_the_error_of_a_task_shows_the_users_own_lines_alone(room):
    room.worker("""
        @job
        async def divide(a: int) -> float:
            return a / 0
        """)
    error = room.until_status(room.submit("divide", a=1), "failed")["error"].splitlines()
    assert error[0] == "ZeroDivisionError: division by zero"
    assert [line.split(", in ")[1] for line in error if line.startswith("  File")] == ["divide"]


def test_a_worker_that_was_swept_while_it_was_stopped_goes_on_as_a_new_one(room):
    """C01, C10: its late report is refused, in one line, and the next task is its own."""
    worker = room.worker(SPIN)
    task = room.submit("spin", seconds=1)
    spinning(room)
    worker.send(signal.SIGSTOP)
    error = room.until_status(task, "failed")["error"]
    assert "Worker disconnected" in error
    worker.send(signal.SIGCONT)
    again = room.submit("spin", seconds=0)
    room.until_completed(again)
    assert room.task(task)["error"] == error
    assert len(worker.lines("report.refused")) == 1
    assert len(worker.lines("worker.lost")) == 1
    assert room.task(again)["worker_id"] != worker.id


def test_a_task_whose_worker_is_killed_at_each_run_fails_after_its_attempts(room):  # C07
    dying = """
        import os

        @job(on_worker_lost="requeue", max_attempts=2)
        def die():
            os._exit(9)
    """
    first = room.worker(dying)
    task = room.submit("die")
    assert first.wait() == 9
    room.until_status(task, "pending")
    assert room.start(room.written(dying)).wait() == 9
    assert "start 2 of 2" in room.until_status(task, "failed")["error"]


def test_two_workers_with_one_token_do_not_disturb_each_other(room):  # C14
    first, second = room.worker(SPIN), room.worker(SPIN)
    tasks = [room.submit("spin", seconds=2, name=name) for name in ("one", "two")]
    for name in ("one", "two"):
        spinning(room, name)
    first.send(signal.SIGTERM)
    first.until_told("worker.draining running=1")
    first.send(signal.SIGTERM)
    assert first.wait() == 143
    by_worker = {room.task(one)["worker_id"]: one for one in tasks}
    assert room.until_completed(by_worker[second.id]) == ["spun"]
    assert second.id in room.workers()


def test_drain_ends_when_nothing_is_left(room):
    parent = """
        from jobroom.client.connection import Connection
        from jobroom.client.manager import JobManager

        @job
        def grow(depth: int):
            if depth:
                with Connection.from_env() as here:
                    name = current_task().job_name
                    JobManager(here).submit(name, room=name.split(":")[0], depth=depth - 1)
    """
    first = room.worker(parent)
    first.kill()
    task = room.submit("grow", depth=2)
    worker = room.worker(parent, "--drain", jobs=None)
    assert worker.wait() == 0
    assert room.task(task)["status"] == "completed"
    assert len(worker.lines("task.completed")) == 3


def test_sigusr1_says_why_it_is_idle(room):
    worker = room.worker(ADD, "--slots", "4")
    worker.until_told("serves")
    until(lambda: worker.send(signal.SIGUSR1) or worker.lines("idle for"))
    line = worker.lines("idle for")[0]
    assert f"no task for {room.name}:modifiers:add; 4 of 4 slots free; server answered" in line


def test_progress_of_a_running_task_is_seen_and_the_last_of_it_kept(room):
    room.worker("""
        @job
        def walk():
            for step in range(4):
                current_task().progress(step / 4, f"step {step}")
            while not pathlib.Path("go").exists():
                time.sleep(0.01)
            current_task().progress(2.0, "done")
        """)
    task = room.submit("walk")
    until(lambda: room.task(task)["progress"] == 0.75)
    (room.folder / "go").touch()
    room.until_completed(task)
    assert (room.task(task)["progress"], room.task(task)["message"]) == (1.0, "done")


def test_an_end_of_a_task_is_one_line(room):
    worker = room.worker(ADD)
    task = room.submit("add", a=1)
    room.until_completed(task)
    worker.until_told(task)
    (line,) = worker.lines(task)
    assert f"task.completed task={task} job={room.name}:modifiers:add attempt=1 seconds=" in line


def test_a_payload_of_another_version_is_handed_back_though_it_came_with_a_report(room):
    """What comes with a report has started; from then on it claims without starting."""
    old = room.worker("""
        @job(on_worker_lost="requeue", max_attempts=3)
        def turn(angle: float) -> str:
            began("turning")
            while not pathlib.Path("go").exists():
                time.sleep(0.01)
            return "old"
        """)
    first = room.submit("turn", angle=1)
    spinning(room, "turning")
    new = """
        @job(on_worker_lost="requeue", max_attempts=3, replace=True)
        def turn(axis: str) -> str:
            return "new"
    """
    room.worker(new).kill()
    second = room.submit("turn", axis="x")
    (room.folder / "go").touch()
    assert room.until_completed(first) == ["old"]
    old.until_told("task.handed_back")
    room.worker(new)
    assert room.until_completed(second) == ["new"]
    assert not old.has_ended


def test_a_program_serves_the_classes_that_it_registered(room):
    program = room.program("""
        import sys
        from jobroom.client.connection import Connection
        from jobroom.client.extension import Extension
        from jobroom.client.manager import JobManager

        with Connection.from_env() as connection, JobManager(connection) as jobs:

            @jobs.register(room=sys.argv[2])
            class Fit(Extension):
                points: int

                def run(self, vis, **kwargs):
                    began("fitting")
                    while not pathlib.Path("go").exists():
                        time.sleep(0.01)
                    return [vis, self.points]

            jobs.serve(slots=2, vis="the host")
            print("left in good order", file=sys.stderr)
        """)
    task = room.submit("Fit", points=3)
    spinning(room, "fitting")
    program.send(signal.SIGTERM)
    (room.folder / "go").touch()
    assert program.wait() == 0
    assert room.task(task)["result"] == ["the host", 3]
    assert program.lines("left in good order")


@pytest.fixture
def worker(shop):
    """A worker in this process, with a job of a room of its own."""
    with Connection(shop.server.url, live_server.token_of("w", is_admin=True)) as connection:
        made = ProcessWorker(connection)

        @job(room=f"inside{id(made)}")
        def nothing():
            """Do nothing."""

        made.register(functions.registration_of(functions.job_of(nothing)))
        yield made
        made.leave()


def serving_in_a_thread(serving):
    codes = []
    thread = threading.Thread(target=lambda: codes.append(serving.run()))
    thread.start()
    return thread, codes


def test_it_may_serve_in_any_thread_and_be_stopped_from_another(worker):
    begun = threading.Event()
    serving = serving_of(worker, announce=begun.set)
    thread, codes = serving_in_a_thread(serving)
    assert begun.wait(SOON)
    serving.stop()
    thread.join(SOON)
    assert codes == [0]
    assert worker.id is None


def test_idleness_is_told_less_and_less_often(worker, monkeypatch, caplog):
    monkeypatch.setattr(serving_module, "FIRST_IDLE_SECONDS", 0.1)
    caplog.set_level("INFO", "jobroom.worker")
    serving = serving_of(worker, slots=2)
    thread, _ = serving_in_a_thread(serving)
    until(lambda: sum("worker.idle" in line for line in caplog.messages) >= 2)
    serving.stop()
    thread.join(SOON)
    assert serving._next_idle >= 0.4
    (line, *_) = (line for line in caplog.messages if "worker.idle" in line)
    assert line.startswith("worker.idle idle for 0 s: no task for inside")
    assert "2 of 2 slots free" in line


@pytest.mark.parametrize("how", [{"slots": 0}, {"slots": 1001}, {"isolate": "fibre"}])
def test_what_cannot_be_served_so_is_refused_at_once(worker, how):
    with pytest.raises(ValueError, match="what was given is"):
        serving_of(worker, **how)


def test_a_machine_with_too_few_threads_serves_nothing(worker, monkeypatch):
    serving, before = serving_of(worker, slots=3), threading.active_count()

    def start():
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(worker, "arrive", None)  # not reached
    monkeypatch.setattr(serving.slots._threads[-1], "start", start)
    with pytest.raises(ConfigurationError, match="serve fewer slots than 3"):
        serving.run()
    until(lambda: threading.active_count() <= before)


def test_a_limit_of_memory_is_kept_in_a_process_whatever_the_worker_does(worker):
    @job(memory_mb=500)
    def limited():
        pass

    worker.register(functions.registration_of(functions.job_of(limited), "inside"))
    runners = Runners(worker, "thread")
    of = {
        name.rpartition(":")[2]: runners.of(SimpleNamespace(job_name=name)) for name in worker.jobs
    }
    runners.close()
    assert of == {"nothing": runners._threads, "limited": runners._processes}


def test_nothing_to_serve_is_one_sentence(room):
    module = room.folder / "empty.py"
    module.write_text("x = 1\n")
    worker = room.start(module)
    assert worker.wait() == 2
    assert worker.output.startswith(f"jobroom: {module} defines no job: write a function")
    assert worker.output.count("\n") == 1


def test_code_that_fails_at_import_is_a_sentence_and_its_own_lines(room):
    module = room.folder / "broken.py"
    module.write_text("def load():\n    return 1 / 0\n\n\nload()\n")
    worker = room.start(module)
    assert worker.wait() == 2
    lines = worker.output.splitlines()
    assert lines[0] == f"jobroom: {module} cannot be imported: ZeroDivisionError: division by zero"
    assert [line.split(", line ")[1] for line in lines if "File" in line] == [
        "5, in <module>",
        "2, in load",
    ]


class TestOutages:
    """The server goes away, and all of these have another one than the others."""

    @pytest.fixture(scope="class")
    @classmethod
    def frail_shop(cls, tmp_path_factory):
        made = Shop(tmp_path_factory.mktemp("frail"))
        yield made
        made.close()

    @pytest.fixture
    def room(self, frail_shop, tmp_path):
        made = Room(frail_shop, tmp_path)
        yield made
        made.close()
        if frail_shop.server.process.poll() is not None:
            frail_shop.server.start().until_ready()

    def test_a_restart_is_survived(self, room):
        worker = room.worker(SPIN)
        task = room.submit("spin", seconds=1)
        spinning(room)
        room.shop.server.kill()
        room.shop.server.start().until_ready()
        assert room.until_completed(task, room.submit("spin", seconds=0)) == ["spun", "spun"]
        assert not worker.has_ended

    def test_an_outage_of_several_worker_timeouts_is_two_lines(self, room):
        """The report of what ended meanwhile comes when the server is back (C12)."""
        worker = room.worker(SPIN, "--slots", "2")
        task = room.submit("spin", seconds=0.5)
        spinning(room)
        room.shop.server.kill()
        worker.until_told("server.away")
        # The time of an outage is what this is about.
        threading.Event().wait(3 * TIMEOUT_SECONDS)
        room.shop.server.start().until_ready()
        assert room.until_completed(task, room.submit("spin", seconds=0)) == ["spun", "spun"]
        worker.until_told("server.back")
        assert room.task(task)["attempt"] == 1
        assert len(worker.lines("server.")) == 2
        assert worker.lines("WARNING") == worker.lines("server.")

    def test_it_leaves_while_the_server_is_away(self, room):
        worker = room.worker(ADD)
        room.shop.server.kill()
        worker.until_told("server.away")
        worker.send(signal.SIGTERM)
        assert worker.wait() == 0


def test_a_refused_token_ends_it_with_one_sentence(room, monkeypatch):
    monkeypatch.setattr(live_server, "token_of", lambda *_args, **_claims: "no.token.atall")
    with pytest.raises(AssertionError) as ended:
        room.worker(ADD)
    assert "JOBROOM_TOKEN" in str(ended.value) or "token" in str(ended.value)
    assert "Traceback" not in str(ended.value)
    assert room.started[0].wait() == 4
