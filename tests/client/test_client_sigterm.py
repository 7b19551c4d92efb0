"""SIGTERM and Ctrl-C while listening: the task ends, the rest goes back, the worker signs off."""

from __future__ import annotations

import gc
import os
import signal
import threading

import pytest
from program import run_program
from pydantic import BaseModel

NAME = "r1:modifiers:Rotate"
LOOP = """
for task in jobs.listen(1.0):
    task.run()
print("after the loop")
"""


class Rotate(BaseModel):
    pass


@pytest.fixture
def listen(server, jobs):
    jobs.register(Rotate, room="r1")
    return lambda: jobs.listen(0.05)


@pytest.fixture(autouse=True)
def default_handler():
    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGTERM, before)


def handler():
    return signal.getsignal(signal.SIGTERM)


def statuses(server):
    return [[one["status"] for one in task["reports"]] for task in server.tasks.values()]


def test_the_running_task_finishes_and_the_worker_signs_off(server):
    for _ in range(2):
        server.add_task(NAME)
    done = run_program(
        server,
        "def work(self):\n    os.kill(os.getpid(), signal.SIGTERM)\n    return 'done'\n" + LOOP,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "after the loop\n", "")
    assert statuses(server) == [["running", "completed"], []]
    assert server.workers == {}


def test_a_worker_that_waits_ends_at_once(server):
    done = run_program(server, LOOP, signal_at_claim=signal.SIGTERM)
    assert (done.returncode, done.stdout, done.stderr) == (0, "after the loop\n", "")
    assert server.workers == {}


def test_a_second_one_kills(server):
    server.add_task(NAME)
    done = run_program(
        server,
        "def work(self):\n"
        "    os.kill(os.getpid(), signal.SIGTERM)\n"
        "    os.kill(os.getpid(), signal.SIGTERM)\n" + LOOP,
    )
    assert (done.returncode, done.stdout) == (-signal.SIGTERM, "")


def test_a_forked_child_is_killed_by_the_first_one(server):
    server.add_task(NAME)
    done = run_program(
        server,
        """
        def work(self):
            child = os.fork()
            if child == 0:
                os.kill(os.getpid(), signal.SIGTERM)
                os._exit(9)
            stream.stop()
            return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        stream = jobs.listen()
        for task in stream:
            task.run()
        """,
    )
    assert done.stderr == ""
    (task,) = server.tasks.values()
    assert task["result"] == -signal.SIGTERM


def test_a_stream_that_another_thread_ended_leaves_nothing_to_stop(server):
    server.add_task(NAME)
    done = run_program(
        server,
        """
        import threading
        stream = jobs.listen()
        next(stream)
        closer = threading.Thread(target=stream.close)
        closer.start(); closer.join()
        os.kill(os.getpid(), signal.SIGTERM)
        """,
    )
    assert done.returncode == -signal.SIGTERM


def test_all_streams_of_the_manager_are_stopped(server, listen):
    server.add_task(NAME)
    first, second = listen(), listen()
    next(first)
    os.kill(os.getpid(), signal.SIGTERM)
    assert (list(first), list(second)) == ([], [])


class TestRestored:
    def test_at_the_end_of_the_stream(self, server, listen):
        server.add_task(NAME)
        stream = listen()
        assert handler() is signal.SIG_DFL
        next(stream)
        assert handler() is not signal.SIG_DFL
        stream.stop()
        assert handler() is not signal.SIG_DFL  # the running task may still finish
        assert list(stream) == []
        assert handler() is signal.SIG_DFL

    def test_after_a_break(self, server, listen):
        server.add_task(NAME)
        for _task in listen():
            break
        gc.collect()
        assert handler() is signal.SIG_DFL

    def test_by_leaving(self, server, listen, jobs):
        server.add_task(NAME)
        stream = listen()
        next(stream)
        jobs.disconnect()
        assert handler() is signal.SIG_DFL

    def test_after_an_error(self, server, listen):
        stream = listen()
        server.refused_tokens.add("admin")
        with pytest.raises(Exception, match="token"):
            next(stream)
        assert handler() is signal.SIG_DFL


def test_a_handler_of_the_program_is_left_alone(server, listen):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    server.add_task(NAME)
    stream = listen()
    next(stream)
    assert handler() is signal.SIG_IGN
    stream.close()
    assert handler() is signal.SIG_IGN


def test_a_handler_that_the_program_sets_later_is_left_alone(server, listen):
    server.add_task(NAME)
    stream = listen()
    next(stream)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    stream.close()
    assert handler() is signal.SIG_IGN


def test_another_thread_sets_no_handler(server, listen):
    server.add_task(NAME)
    stream = listen()
    thread = threading.Thread(target=lambda: next(stream))
    thread.start()
    thread.join(10)
    assert handler() is signal.SIG_DFL


def test_ctrl_c_while_waiting_ends_the_program_with_a_short_trace(server):
    done = run_program(server, LOOP, signal_at_claim=signal.SIGINT)
    assert done.returncode == -signal.SIGINT
    assert done.stderr.count("  File ") == 2
    assert done.stderr.rstrip().endswith("KeyboardInterrupt")
    assert server.workers == {}
