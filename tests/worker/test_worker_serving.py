"""``jobroom worker`` against a real server: tasks from their claim to their end."""

from __future__ import annotations

import live_server
import pytest
from worker_shop import ADD, BASE, LAUNCHER, SPIN, spinning, until


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


def test_nothing_to_serve_is_one_sentence(room):
    module = room.folder / "empty.py"
    module.write_text("x = 1\n")
    worker = room.start(module)
    assert worker.wait() == 2
    assert worker.output.startswith(f"jobroom: {module} defines no job: write a function")
    assert worker.output.count("\n") == 1


def test_more_slots_than_there_are_threads_is_one_sentence_and_nothing_is_registered(room):
    """A thread takes 8 MiB of addresses, as many as ``ulimit -s`` says."""
    limited = "import resource\nresource.setrlimit(resource.RLIMIT_AS, (2**30, 2**30))\n"
    command = ("-c", limited + LAUNCHER)
    worker = room.start(room.written(ADD), "--slots", "1000", command=command)
    assert worker.wait() == 2
    assert worker.output.startswith("jobroom: This machine, or its settings (ulimit -u), does not")
    assert worker.output.endswith("serve fewer slots than 1000.\n")
    assert worker.output.count("\n") == 1
    job = f"{BASE}/rooms/{room.name}/jobs/{room.name}:modifiers:add"
    assert room.http.get(job).status_code == 404


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


def test_a_refused_token_ends_it_with_one_sentence(room, monkeypatch):
    monkeypatch.setattr(live_server, "token_of", lambda *_args, **_claims: "no.token.atall")
    with pytest.raises(AssertionError) as ended:
        room.worker(ADD)
    assert "JOBROOM_TOKEN" in str(ended.value) or "token" in str(ended.value)
    assert "Traceback" not in str(ended.value)
    assert room.started[0].wait() == 4
