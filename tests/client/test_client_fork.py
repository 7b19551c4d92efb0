"""A forked child never speaks for its parent: neither for its tasks nor as its worker."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest
from program import run_program
from pydantic import BaseModel

NAME = "r1:modifiers:Rotate"


def statuses(server):
    (task,) = server.tasks.values()
    return [report["status"] for report in task["reports"]]


def test_it_is_a_worker_of_its_own(server):
    server.add_task(NAME)
    done = run_program(
        server,
        """
        mine = jobs.listen()
        parent = jobs.worker.id
        child = os.fork()
        if child == 0:
            assert list(mine) == []
            task = next(jobs.listen())
            assert jobs.worker.id not in {None, parent}
            task.start(); task.complete()
            jobs.close()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        assert jobs.worker.id == parent
        """,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert len(server.asked("POST", "/workers$")) == 2
    assert len(server.asked("DELETE", "/workers/")) == 2
    assert statuses(server) == ["running", "completed"]


@pytest.mark.parametrize(
    ("how", "code"),
    [("return 'the child'", 0), ("sys.exit(3)", 3), ("raise KeyboardInterrupt", None)],
)
def test_one_that_comes_out_of_run_reports_nothing(server, how, code):
    """Its exit must not hand back, fail or complete what the parent goes on with."""
    server.add_task(NAME)
    done = run_program(
        server,
        f"""
        def work(self):
            child = os.fork()
            if child == 0:
                {how}
            status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            return ["the parent", status]
        stream = jobs.listen()
        for task in stream:
            task.run()
            stream.stop()
        """,
    )
    assert done.returncode == 0
    assert statuses(server) == ["running", "completed"]
    (task,) = server.tasks.values()
    assert task["result"][0] == "the parent"
    assert code is None or task["result"][1] == code
    assert len(server.asked("DELETE", "/workers/")) == len(server.asked("POST", "/workers$")) == 1


def test_an_exception_in_one_goes_its_way(server):
    server.add_task(NAME)
    done = run_program(
        server,
        """
        def work(self):
            child = os.fork()
            if child == 0:
                raise LookupError("in the child")
            return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        stream = jobs.listen()
        for task in stream:
            task.run()
            stream.stop()
        """,
    )
    assert done.stderr.endswith("LookupError: in the child\n")
    (task,) = server.tasks.values()
    assert (task["status"], task["result"]) == ("completed", 1)


class Rotate(BaseModel):
    pass


def test_a_report_by_hand_from_one_says_whose_it_is(server, jobs):
    jobs.register(Rotate, room="r1")
    server.add_task(NAME)
    claimed = next(jobs.listen(0.05))
    claimed._hold = replace(claimed._hold, pid=os.getpid() + 1)
    for report in (claimed.start, claimed.complete, claimed.release, claimed.run):
        with pytest.raises(RuntimeError, match="Another process claimed"):
            report()
    with pytest.raises(RuntimeError, match="Another process claimed"):
        claimed.fail("x")
    assert claimed.progress(0.5) is False
    assert server.asked("PATCH", "/tasks/") == []
