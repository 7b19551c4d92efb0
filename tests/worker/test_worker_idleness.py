"""What a worker says of itself, and how a program serves without the command line."""

from __future__ import annotations

import itertools
import signal
import threading
from types import SimpleNamespace

import live_server
import pytest
from worker_shop import ADD, SOON, until

from jobroom.client.connection import Connection
from jobroom.client.worker import ProcessWorker
from jobroom.errors import ConfigurationError
from jobroom.worker import functions
from jobroom.worker import serving as serving_module
from jobroom.worker.functions import job
from jobroom.worker.serve import Runners, serving_of


def test_sigusr1_says_why_it_is_idle(room):
    worker = room.worker(ADD, "--slots", "4")
    worker.until_told("serves")
    until(lambda: worker.send(signal.SIGUSR1) or worker.lines("idle for"))
    line = worker.lines("idle for")[0]
    assert f"no task for {room.name}:modifiers:add; 4 of 4 slots free; server answered" in line


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


@pytest.mark.parametrize("enough", range(6))
def test_a_machine_with_too_few_threads_serves_nothing(worker, monkeypatch, enough):
    """Three slots, what sends their news, and the claimer and the heart that come later."""
    serving, before = serving_of(worker, slots=3), threading.active_count()
    begun, start = itertools.count(), threading.Thread.start

    def start_if_enough(thread):
        if next(begun) >= enough:
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(worker, "arrive", None)  # not reached
    monkeypatch.setattr(threading.Thread, "start", start_if_enough)
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
