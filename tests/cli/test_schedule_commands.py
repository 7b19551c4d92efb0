"""``jobroom schedule``: put, list, show, pause, resume, remove, against a real server."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator

import live_server
import pytest
from typer.testing import CliRunner, Result

from jobroom.cli.main import app

JOB = "r1:modifiers:Rotate"
ANGLE = {"type": "object", "properties": {"angle": {"type": "number"}}, "required": ["angle"]}

Typed = Callable[..., Result]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[live_server.Server]:
    """A server whose sweep comes often."""
    folder = tmp_path_factory.mktemp("schedules")
    with live_server.Server(
        folder, jwt_secret=live_server.SECRET, sweeper_interval_seconds=0.2
    ) as started:
        started.until_ready()
        with started.client(live_server.token_of("alice")) as client:
            live_server.register(client, schema=ANGLE)
        yield started
        started.stop()


@pytest.fixture
def typed(server: live_server.Server) -> Typed:
    """Type words behind ``jobroom schedule``."""
    env = {"JOBROOM_URL": server.url, "JOBROOM_TOKEN": live_server.token_of("alice")}

    def run(*words: str) -> Result:
        return CliRunner().invoke(app, ["schedule", *words], env=env)

    return run


def put(typed: Typed, name: str, *more: str) -> None:
    done = typed("put", name, JOB, "angle=90", "--cron", "0 3 * * *", *more)
    assert done.exit_code == 0, done.output


def test_a_schedule_is_put_and_told_in_words(typed: Typed) -> None:
    done = typed(
        *("put", "nightly", JOB, "angle=90", "--cron", "0 3 * * *"),
        *("--timezone", "Europe/Berlin"),
    )
    assert done.exit_code == 0, done.output
    assert done.output.startswith("nightly: Daily at 03:00 Europe/Berlin; next in ")
    assert "Daily at 03:00 Europe/Berlin" in typed("list", "r1").output


def test_a_schedule_is_shown_with_its_payload_and_its_next_times(typed: Typed) -> None:
    put(typed, "shown", "--priority", "3")
    output = typed("show", "r1", "shown").output
    assert '"angle": 90' in output
    assert "priority: 3" in output
    assert output.count("next: ") == 5
    document = json.loads(typed("show", "r1", "shown", "--json").output)
    assert (document["payload"], len(document["upcoming"])) == ({"angle": 90}, 5)


def test_a_schedule_is_paused_and_goes_on_with_all_that_it_says(typed: Typed) -> None:
    put(typed, "paused", "--max-attempts", "2", "--end-at", "2090-01-01T00:00:00Z")
    before = json.loads(typed("show", "r1", "paused", "--json").output)
    assert "; paused" in typed("pause", "r1", "paused").output
    between = json.loads(typed("show", "r1", "paused", "--json").output)
    assert (between["paused"], between["next_at"]) == (True, None)
    assert "next in" in typed("resume", "r1", "paused").output
    assert json.loads(typed("show", "r1", "paused", "--json").output) == before


def test_a_removed_schedule_is_not_there(typed: Typed) -> None:
    put(typed, "gone")
    assert typed("remove", "r1", "gone").exit_code == 0
    assert typed("show", "r1", "gone").exit_code == 3
    assert typed("remove", "r1", "gone").exit_code == 3


@pytest.mark.parametrize(
    "wrong",
    [
        ("angle=wide", "--cron", "0 3 * * *"),
        ("--cron", "0 3 * * *"),
        ("angle=1",),
        ("angle=1", "--cron", "0 3 * *"),
        ("angle=1", "--every", "5", "--timezone", "Mars/X"),
        ("angle=1", "--every", "0.5"),
    ],
)
def test_what_cannot_be_put_is_told_in_one_sentence(wrong: tuple[str, ...], typed: Typed) -> None:
    done = typed("put", "wrong", JOB, *wrong)
    assert done.exit_code == 2
    assert "Traceback" not in done.output
    assert "jobroom: " in done.output


def test_a_schedule_fires_by_the_sweep_of_the_server(typed: Typed) -> None:
    done = typed("put", "often", JOB, "angle=1", "--every", "1")
    assert done.exit_code == 0, done.output
    deadline = time.monotonic() + 30
    document: dict[str, object] = {}
    while document.get("last_task_id") is None and time.monotonic() < deadline:
        time.sleep(0.1)
        document = json.loads(typed("show", "r1", "often", "--json").output)
    assert document["last_task_id"] is not None
    assert typed("remove", "r1", "often").exit_code == 0
