"""What only a libSQL server does: it forgets streams, and tokens run out."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import live_server
import pytest
import servers
from outage_place import Place, migrate_store
from outage_scene import Scene, check_problem, sound, until_ready

STREAM_SECONDS = 10
"""So long sqld keeps a stream of which it hears nothing; a transaction half as long."""
SLEEPS_INSIDE = '''
import sys
from jobroom.domain.records import Caller
from jobroom.service import claiming
from jobroom.service.queue import JobQueue
from jobroom.service.use_case import writes
from jobroom.settings import read_settings
from jobroom.store import reports

runs = []

@writes
def claim_and_fail(tx):
    """Two writes that belong together, with a pause of the whole process between them."""
    runs.append(tx.is_repeat)
    claimed = claiming.take(tx, claiming.Wish(Caller("w"), "w", start=True, request_id="r"))
    if len(runs) == 1:
        print("inside", flush=True)
        sys.stdin.readline()
    [found] = claimed
    reports.fail(tx, found.task, error="both or none")
    return found.task.id

with JobQueue.open(read_settings()) as queue:
    print(queue.run(claim_and_fail), len(runs), flush=True)
'''


@pytest.fixture(scope="module", autouse=True)
def paused(tmp_path_factory):
    """A process that has been stopped in the middle; other tests run meanwhile."""
    with Place("libsql") as place:
        given = {"database_url": place.url, "sweeper_interval_seconds": 0}
        folder = tmp_path_factory.mktemp("server")
        started = live_server.Server(folder, jwt_secret=live_server.SECRET, **given)
        with started as server, server.until_ready().client() as client:
            live_server.register(client)
            task_id = live_server.submit(client)
        process = subprocess.Popen(
            [sys.executable, "-c", SLEEPS_INSIDE],
            env=live_server.environment(database_url=place.url, database_busy_seconds=60),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        with process:
            try:
                assert process.stdout.readline() == "inside\n"
                process.send_signal(signal.SIGSTOP)
                yield SimpleNamespace(
                    place=place, process=process, task_id=task_id, since=time.monotonic()
                )
            finally:
                process.kill()


def test_a_token_that_ran_out_is_renewed_in_its_file(tmp_path):
    """503 as long as the store refuses it; no restart of ours (design, *The write path*)."""
    path = tmp_path / "token"
    with servers.Sqld(auth=True).start() as store:
        path.write_text(store.token())
        token = {"database_auth_token_file": str(path)}
        migrate_store(store.url, **token)
        given = {"database_url": store.url, "sweeper_interval_seconds": 0, **token}
        started = live_server.Server(
            tmp_path, jwt_secret=live_server.SECRET, database_busy_seconds=1, **given
        )
        with started as server, Scene(server.until_ready()) as scene:
            sound(scene.register())
            path.write_text(store.token(expires_in=-90))
            check_problem(scene.submit())
            check_problem(scene.claim())
            assert scene.client.get("/healthz").status_code == 200
            until_ready(scene, 503)
            path.write_text(store.token())
            assert scene.submit().status_code == 202
            assert sound(scene.claim())["task"]["attempt"] == 1
            until_ready(scene)
            assert "ey" not in server.output


def test_a_stream_that_expires_in_the_middle_is_begun_again(paused):
    """C36: 12 s between BEGIN and COMMIT, the process stopped as by a debugger; done once."""
    [row] = paused.place.tasks().values()
    assert (row.status, row.attempt) == ("pending", 0), "nothing is seen of what is half done"
    time.sleep(max(0, paused.since + STREAM_SECONDS + 2 - time.monotonic()))
    paused.process.send_signal(signal.SIGCONT)
    done, _ = paused.process.communicate("go on\n", timeout=60)
    assert done.split() == [paused.task_id, "2"]
    [row] = paused.place.tasks().values()
    assert (row.status, row.attempt, row.starts, row.error) == ("failed", 1, 1, "both or none")
