"""A task's log over HTTP: sent with reports, read in parts, followed by long-poll."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
import tables
from contract_api import Api, Json, Person, pointers, refused, taken

from jobroom.service.queue import JobQueue

WAIT = {"prefer": "wait=20"}


def log_of(person: Person, task: Json, query: str = "", **headers: str) -> Json:
    return taken(person.get(f"/tasks/{task['id']}/log{query}", headers=headers))


@pytest.fixture
def running(wanda: Person, alice: Person) -> Json:
    """A task that wanda runs."""
    alice.submit()
    return wanda.start()


def test_a_log_is_sent_with_reports_and_read_in_parts(wanda: Person, alice: Person, running: Json):
    """Log: appended with progress and with the end; log_bytes tells how far it reaches."""
    first = taken(wanda.report(running, log="één\n", log_offset=0, attempt=1, progress=0.5))
    assert (first["log_bytes"], first["progress"]) == (6, 0.5)
    assert log_of(alice, running) == {
        "attempt": 1,
        "offset": 0,
        "text": "één\n",
        "next_offset": 6,
        "ended": False,
    }
    for _ in range(2):  # the same report again: 200, and nothing twice
        last = taken(wanda.report(running, "completed", log="two\n", log_offset=6, attempt=1))
        assert (last["log_bytes"], last["status"]) == (10, "completed")
    part = log_of(alice, running, "?offset=6&attempt=1")
    assert (part["text"], part["next_offset"], part["ended"]) == ("two\n", 10, True)
    assert log_of(alice, running, "?offset=3")["offset"] == 2  # not inside the second é


def test_only_a_report_with_a_log_is_answered_with_its_reach(wanda: Person, running: Json):
    assert "log_bytes" not in taken(wanda.report(running, progress=0.1))
    assert taken(wanda.report(running, log=""))["log_bytes"] == 0
    assert "log_bytes" not in taken(wanda.report(running, "completed", claim_next=True))


def test_the_next_task_and_the_reach_come_in_one_answer(
    wanda: Person, alice: Person, running: Json
):
    waiting = alice.submit()
    for _ in range(2):
        done = taken(wanda.report(running, "completed", log="bye", attempt=1, claim_next=True))
        assert (done["next_task"]["id"], done["log_bytes"]) == (waiting["id"], 3)


def test_a_log_does_not_raise_the_entity_tag_of_its_task(
    wanda: Person, alice: Person, running: Json
):
    """Log, *ETag*: who waits for the task to change is not woken by each line."""
    tag = alice.get(f"/tasks/{running['id']}").headers["etag"]
    taken(wanda.report(running, log="line\n"))
    assert alice.get(f"/tasks/{running['id']}").headers["etag"] == tag


def test_a_refused_report_appends_nothing(wanda: Person, alice: Person, running: Json):
    """Log: a report that gets 409 appends nothing; neither does a stranger's."""
    refused(wanda.report(running, log="late", attempt=7), "invalid-task-transition")
    refused(alice.report(running, log="not mine"), "forbidden")
    taken(wanda.report(running, "completed"))
    refused(wanda.report(running, log="too late", attempt=1), "invalid-task-transition")
    assert log_of(alice, running)["text"] == ""


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"log": 7}, "/log"),
        ({"log": "x", "log_offset": -1}, "/log_offset"),
        ({"log": "x", "log_offset": 1.5}, "/log_offset"),
        ({"log": "x", "log_offset": 2**53}, "/log_offset"),
    ],
    ids=str,
)
def test_a_log_of_another_kind_is_422(
    wanda: Person, running: Json, body: Json, pointer: str
) -> None:
    assert pointers(refused(wanda.report(running, **body), "validation-error")) == [pointer]


@pytest.mark.parametrize("query", ["offset=-1", "offset=x", "offset=9007199254740992", "attempt=a"])
def test_a_place_that_is_no_number_is_422(alice: Person, running: Json, query: str) -> None:
    refused(alice.get(f"/tasks/{running['id']}/log?{query}"), "validation-error")


def test_a_log_in_a_room_that_is_not_seen_is_404(api: Api, running: Json) -> None:
    """Log: who sees the task sees its log."""
    stranger = api.by("eve", rooms=["r9"])
    refused(stranger.get(f"/tasks/{running['id']}/log", headers=WAIT), "task-not-found")
    refused(stranger.get("/tasks/no-uuid/log"), "task-not-found")


def test_a_follower_has_every_line_and_learns_of_the_end(api: Api, wanda: Person, alice: Person):
    """Log, *long-poll*: from before the first claim until the attempt has ended."""
    task = alice.submit()
    lines = ["one\n", "zwei ü\n", "three\n"]
    heard: list[str] = []
    arrived = asyncio.Event()

    async def follow() -> str:
        offset, attempt = 0, ""
        while True:
            path = f"/tasks/{task['id']}/log?offset={offset}{attempt}"
            part = taken(await alice.send("GET", path, headers=WAIT))
            heard.append(part["text"])
            arrived.set()
            offset, attempt = part["next_offset"], f"&attempt={part['attempt']}"
            if part["ended"]:
                return "".join(heard)

    async def work() -> None:
        taken(await wanda.send("POST", "/tasks/claim", {"start": True}))
        sent = 0
        for line in lines:
            arrived.clear()
            said = {"log": line, "log_offset": sent, "attempt": 1}
            sent = taken(await wanda.send("PATCH", f"/tasks/{task['id']}", said))["log_bytes"]
            await asyncio.wait_for(arrived.wait(), 20)
        end = {"status": "completed", "log": "bye\n", "log_offset": sent, "attempt": 1}
        taken(await wanda.send("PATCH", f"/tasks/{task['id']}", end))

    async def both() -> str:
        followed, _ = await asyncio.gather(follow(), work())
        return followed

    assert api.run(both()) == "".join(lines) + "bye\n"


def test_a_follower_of_what_is_there_does_not_wait(wanda: Person, alice: Person, running: Json):
    taken(wanda.report(running, log="there"))
    answer = alice.get(f"/tasks/{running['id']}/log", headers=WAIT)
    assert "preference-applied" not in answer.headers
    answer = alice.get(f"/tasks/{running['id']}/log?offset=5", headers={"prefer": "wait=1"})
    assert answer.headers["preference-applied"] == "wait=1"
    assert (taken(answer)["text"], answer.json()["ended"]) == ("", False)


def test_a_task_that_ended_unclaimed_has_an_empty_log(alice: Person, wanda: Person) -> None:
    task = alice.submit()
    assert log_of(alice, task)["ended"] is False
    alice.report(task, "cancelled")
    part = log_of(alice, task, **WAIT)
    assert (part["attempt"], part["text"], part["ended"]) == (0, "", True)


@pytest.mark.parametrize("character", ["x", "\x1b"], ids=["plain", "escaped"])
def test_an_answer_is_bounded_and_the_parts_are_the_whole(
    make_api: Callable[..., Api], character: str
) -> None:
    """Log: 256 KiB of text at most, and no more than MAX_ANSWER_BYTES, however JSON spells it."""
    api = make_api(max_answer_bytes=64 * 1024 if character == "\x1b" else 5_000_000)
    wanda = api.by("wanda")
    wanda.register()
    wanda.submit()
    task = wanda.start()
    size = 40_000 if character == "\x1b" else 300_000
    taken(wanda.report(task, "completed", log=character * size, attempt=1))
    found, ended = "", False
    while not ended:
        answer = wanda.get(f"/tasks/{task['id']}/log?offset={len(found)}")
        assert len(answer.content) <= 64 * 1024 or character == "x"
        part = taken(answer)
        assert 0 < len(part["text"]) <= 256 * 1024
        found, ended = found + part["text"], part["ended"]
    assert found == character * size


def test_a_log_is_bounded_by_the_setting(make_api: Callable[..., Api]) -> None:
    """MAX_LOG_BYTES: what comes after is dropped, and one line says so."""
    wanda = make_api(max_log_bytes=1000).by("wanda")
    wanda.register()
    wanda.submit()
    task = wanda.start()
    reach = taken(wanda.report(task, log="x" * 2000, log_offset=0))["log_bytes"]
    assert taken(wanda.report(task, log="y" * 2000, log_offset=reach))["log_bytes"] == reach
    text = log_of(wanda, task)["text"]
    assert text == "x" * 1000 + "\n[The log is cut here: no more than 1000 bytes of it are kept.]\n"


@pytest.mark.in_process_only("it writes into the store's room for the embedded queue")
def test_the_log_of_a_local_task_is_an_admin_s_to_read(
    api: Api, wanda: Person, alice: Person, admin: Person, running: Json
) -> None:
    """Rules, *Who sees what*: @local too."""
    taken(wanda.report(running, "completed", log="of a process"))
    queue: JobQueue = api.app.state.door.queue
    tables.write(queue, "UPDATE task SET room_id = '@local'")
    assert log_of(admin, running)["text"] == "of a process"
    fenced = api.by("wanda", rooms=["r1"])
    refused(fenced.get(f"/tasks/{running['id']}/log"), "task-not-found")
