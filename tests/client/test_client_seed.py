"""The seed's *Usage Example* runs as it stands, and the client parts keep their names."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest
from seed_usage import USAGE

import jobroom
from jobroom.client.connection import Connection
from jobroom.client.manager import JobManager
from jobroom.client.stream import TaskStream
from jobroom.client.task import ClaimedTask


def test_the_usage_example_runs_with_its_text_unchanged(server, vis, capsys):
    task = server.add_task("@global:modifiers:Rotate", {"angle": 90})
    stop_when_settled(server, vis, task)
    exec(compile(USAGE, "usage_example", "exec"), {"vis": vis})  # noqa: S102
    assert capsys.readouterr().out == "2\n"
    assert list(vis.jobs) == ["@global:modifiers:Rotate", "room_123:modifiers:PrivateRotate"]
    # The example's class has no run: that fails its task, by name, and the loop goes on.
    assert "Rotate" in task["error"]
    assert server.asked("PATCH", "/workers/")


def stop_when_settled(server, vis, task):
    def on_request(seen):
        if task["status"] == "failed" and seen.path.endswith("/claim"):
            for stream in tuple(vis.jobs._streams):
                stream.stop()

    server.on_request = on_request


def test_the_package_offers_the_seeds_client_names():
    names = ("ApiManager", "Category", "ClaimedTask", "Extension", "JobManager", "TaskStream")
    assert all(getattr(jobroom, name) is not None for name in names)


def test_a_task_stream_is_built_as_in_the_seed(server):
    connection = Connection(server.url, "admin")
    answer = connection.http.post(
        f"{connection.base_url}/v1/joblib/workers", headers=connection.get_headers(), json={}
    )
    worker_id = answer.json()["id"]
    server.workers[worker_id]["jobs"].add("r1:modifiers:Rotate")
    task = server.add_task("r1:modifiers:Rotate", {"angle": 1})
    stream = TaskStream(connection, worker_id, 0.5)
    assert (stream.api, stream.worker_id, stream.interval) == (connection, worker_id, 0.5)
    assert next(iter(stream)).id == task["id"]
    stream.stop()
    assert list(stream) == []
    stream._worker.leave()
    assert worker_id in server.workers  # made by somebody else, so not taken away
    connection.close()


def test_a_claimed_task_is_built_from_the_claims_answer_as_in_the_seed(server, vis):
    ran = []

    @vis.jobs.register(room="r1")
    class Rotate(jobroom.Extension):
        angle: float

        def run(self, vis, **kwargs):
            ran.append(self.angle)

    task = server.add_task("r1:modifiers:Rotate", {"angle": 2})
    response = vis.jobs.api.http.post(
        f"{vis.jobs.api.base_url}/v1/joblib/tasks/claim",
        headers=vis.jobs.api.get_headers(),
        json={"worker_id": vis.jobs.worker.id, "request_id": "x"},
    )
    data = response.json()
    ClaimedTask.model_validate(data["task"]).run(vis)
    assert ran == [2.0]
    assert task["status"] == "completed"


def test_any_object_with_the_protocols_three_parts_is_an_api_manager(server):
    class Host:
        def __init__(self):
            self.http = httpx.Client()
            self.base_url = server.url + "/"

        def get_headers(self):
            return {"Authorization": "Bearer admin"}

    host = Host()
    with host.http, JobManager(host) as jobs:
        jobs.register(jobroom.Extension, room="r1")
        assert "r1:modifiers:Extension" in server.jobs


@pytest.mark.parametrize("name", ["register", "listen", "heartbeat", "disconnect", "submit"])
def test_the_manager_has_the_methods_of_the_contract(jobs, name):
    assert callable(getattr(jobs, name))


def test_the_client_imports_nothing_of_the_server(tmp_path):
    folder = Path(jobroom.__file__).parent / "client"
    sources = "".join(path.read_text() for path in folder.glob("*.py"))
    for name in ("settings", "service", "store", "http", "tokens", "keys"):
        assert f"from jobroom.{name}" not in sources
        assert f"from jobroom import {name}" not in sources
