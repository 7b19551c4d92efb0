"""The tour by curl against a real server, step for step."""

from __future__ import annotations

import json
import subprocess

import pytest
from example_stage import EXAMPLES, PATIENCE_SECONDS, environment, started_server
from live_server import BASE, token_of


@pytest.fixture(scope="module")
def tour(tmp_path_factory):
    """Taken twice, as people do: its first and second output, and the tasks it left."""
    folder = tmp_path_factory.mktemp("tour")
    with started_server(folder) as server:
        server.until_ready()
        said = [taken(server.url) for _ in range(2)]
        with server.client(token_of("worker")) as client:
            left = client.get(f"{BASE}/rooms/tour/tasks").json()["items"]
            jobs = client.get(f"{BASE}/rooms/tour/jobs").json()["items"]
    return said, left, jobs


def taken(url):
    done = subprocess.run(
        ["sh", EXAMPLES / "tour.sh"],
        env=environment(url),
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def steps_of(said):
    """The answers of each step, by its first word after the article."""
    steps = {}
    for line in said.splitlines():
        if line.startswith("== "):
            answers = steps[line.removeprefix("== ")] = []
        elif line:
            answers.append(json.loads(line))
    return list(steps.values())


def test_each_step_is_answered_as_it_says(tour):
    (first, _), _, _ = tour
    offered, refused, claimed, told, completed, cancelled, left = steps_of(first)
    assert offered[0]["full_name"] == "tour:modifiers:Rotate"
    assert refused[0]["type"].endswith("payload-invalid")
    assert refused[0]["errors"][0]["pointer"] == "/payload/angle"
    assert [claimed[0]["task"]["status"], claimed[1]["status"]] == ["claimed", "running"]
    assert (told[0]["progress"], told[0]["message"]) == (0.5, "half way")
    assert (completed[0]["status"], completed[0]["result"]) == ("completed", {"turned": 90})
    assert completed[1] == {"turned": 90}
    assert completed[2]["text"] == "turning\n"
    assert cancelled[0]["status"] == "cancelled"
    assert left == []


def test_a_second_tour_goes_as_the_first(tour):
    """Nothing of the first is in the way of the second, though the worker has left meanwhile."""
    (first, second), tasks, jobs = tour
    assert [line for line in first.splitlines() if line.startswith("==")] == [
        line for line in second.splitlines() if line.startswith("==")
    ]
    assert sorted(task["status"] for task in tasks) == ["cancelled"] * 2 + ["completed"] * 2
    assert jobs == []


def test_a_server_that_refuses_stops_the_tour(tmp_path):
    """No step goes on with the id of a task that was never made."""
    with started_server(tmp_path) as server:
        server.until_ready()
        done = subprocess.run(
            ["sh", EXAMPLES / "tour.sh"],
            env=environment(server.url, JOBROOM_TOKEN="wrong"),
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
    assert done.returncode != 0
    assert done.stdout.count("==") == 1
