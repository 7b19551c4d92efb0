"""The verbs that look, and those that change: tables for people, documents for programs."""

from __future__ import annotations

import json
import re

import live_server
import pytest
from verbs_room import JOB

from jobroom.cli import exits


def test_list_shows_a_rooms_tasks_newest_first(room, good):
    ids = [room.submit(angle=1), room.submit(angle=1, wrong="two\nlines")]
    for task_id in ids:
        room.ended(task_id)
    head, second, first, *_ = good("list", "r1", "--job", JOB).splitlines()
    assert head.split() == ["ID", "STATUS", "DONE", "JOB", "CREATED", "BY", "MESSAGE"]
    assert (first.split()[:2], second.split()[:2]) == ([ids[0], "completed"], [ids[1], "failed"])
    assert "ValueError: two" in second


def test_list_shows_where_the_next_page_begins(room, good, typed):
    for _ in range(2):
        room.ended(room.submit(angle=1))
    code, out, err = typed("list", "r1", "--limit", "1", "--status", "completed")
    cursor = re.search(r"--cursor (\S+)", err)[1]
    rest = good("list", "r1", "--status", "completed", "--cursor", cursor)
    assert (code, len(out.splitlines())) == (0, 2)
    assert out.splitlines()[1] not in rest


def test_show_prints_a_task_with_its_payload_and_result(room, good):
    task_id = room.ended(room.submit(angle=90, name="x"))["id"]
    out = good("show", task_id)
    assert re.search(r"^status +completed$", out, re.MULTILINE)
    assert '"angle": 90' in out
    assert '"rotated": 90.0' in out


def test_show_prints_what_a_task_failed_of(room, good):
    task_id = room.ended(room.submit(angle=90, wrong="it is \x1b[2J bent"))["id"]
    out = good("show", task_id)
    assert "error:\nValueError: it is \ufffd[2J bent" in out
    assert "\x1b" not in out


def test_show_prints_the_result_alone(room, good):
    task_id = room.ended(room.submit(angle=90, name="ü"))["id"]
    assert good("show", task_id, "--result") == '{"rotated":90.0,"by":"ü"}\n'


def test_a_task_without_a_result_says_so(room, typed):
    task_id = room.submit(room.unserved("Never"))
    code, out, err = typed("show", task_id, "--result")
    assert (code, out) == (exits.Code.FAILED, "")
    assert "it is pending" in err


def test_why_says_what_a_task_waits_for(room, good):
    task_id = room.submit(room.unserved("Never"))
    assert good("why", task_id).startswith("pending: ")


def test_jobs_lists_the_jobs_of_a_room(good):
    lines = good("jobs", "r1").splitlines()
    assert lines[0].split() == ["JOB", "WORKERS", "DESCRIPTION"]
    assert re.search(rf"^{JOB} +2 +Rotate the molecule\.$", "\n".join(lines), re.MULTILINE)


def test_jobs_shows_the_fields_of_one(good):
    out = good("jobs", JOB)
    assert out.startswith(f"{JOB}: Rotate the molecule.\n2 workers alive\nFIELD ")
    assert re.search(r"^angle +number +required +Degrees\.$", out, re.MULTILINE)
    assert re.search(r"^cell\.a +number +required +Length of the edge\.$", out, re.MULTILINE)


def test_a_job_that_names_no_fields_says_so(room, good):
    assert "any payload is taken" in good("jobs", room.unserved("Open"))


def test_workers_rooms_and_stats_are_tables(good):
    assert len(good("workers").splitlines()) >= 3
    assert len(good("workers", "r1").splitlines()) >= 3
    assert re.search(r"^r1 +\d+ +\d+ ", good("rooms"), re.MULTILINE)
    stats = good("stats", "r1")
    assert re.match(r"r1: \d workers alive, the oldest task waits for ", stats)
    assert re.search(rf"^{JOB} +2 ", stats, re.MULTILINE)


def test_cancel_cancels_and_says_so(room, good):
    task_id = room.submit(room.unserved("Never"))
    assert good("cancel", task_id) == f"{task_id} is cancelled\n"
    assert room.task(task_id)["status"] == "cancelled"


def test_cancel_goes_on_after_one_that_it_cannot_cancel(room, typed):
    done = room.ended(room.submit(angle=1))["id"]
    task_id = room.submit(room.unserved("Never"))
    code, out, err = typed("cancel", done, task_id)
    assert code == exits.Code.FAILED
    assert out == f"{task_id} is cancelled\n"
    assert "has ended as completed" in err


def test_retry_names_the_tasks_first_and_then_puts_them_back(room, good):
    task_id = room.submit(room.unserved("Never"))
    good("cancel", task_id)
    assert good("retry", task_id, "--dry-run") == f"{task_id}\n"
    assert room.task(task_id)["status"] == "cancelled"
    assert good("retry", task_id) == f"{task_id} is pending again\n"


PAGES = [["list", "r1"], ["jobs", "r1"], ["workers"], ["workers", "r1"], ["rooms"]]


@pytest.mark.parametrize("verb", PAGES, ids=" ".join)
def test_a_list_with_json_is_a_page_as_the_api_gives_it(good, verb):
    page = json.loads(good(*verb, "--json", "--limit", "2"))
    assert {"items", "total", "limit", "offset", "next_cursor"} <= page.keys()
    assert page["limit"] == 2


def test_each_document_is_the_apis_own(room, good):
    task_id = room.submit(room.unserved("Document"))
    path = f"{live_server.BASE}/tasks/{task_id}"
    assert json.loads(good("show", task_id, "--json")) == room.http.get(path).json()
    assert json.loads(good("why", task_id, "--json"))["status"] == "pending"
    job = room.http.get(f"{live_server.BASE}/rooms/r1/jobs/{JOB}").json()
    assert json.loads(good("jobs", JOB, "--json"))["schema"] == job["schema"]
    assert json.loads(good("stats", "r1", "--json"))["room_id"] == "r1"
    cancelled = json.loads(good("cancel", task_id, "--json"))
    assert (cancelled["id"], cancelled["status"]) == (task_id, "cancelled")
    assert json.loads(good("retry", task_id, "--dry-run", "--json")) == {
        "tasks": [task_id],
        "hidden": 0,
    }
    assert json.loads(good("retry", task_id, "--json"))["status"] == "pending"
