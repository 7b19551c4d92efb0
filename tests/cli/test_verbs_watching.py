"""``jobroom run, watch, wait, log``: they follow tasks of real workers, and end as those do."""

from __future__ import annotations

import json
import re

import live_server
import verbs_room
from verbs_room import JOB, NOBODY

from jobroom.cli import exits


def test_run_prints_the_result_and_nothing_else_on_stdout(typed):
    code, out, err = typed("run", JOB, "angle=90", "name=x")
    assert (code, json.loads(out)) == (0, {"rotated": 90.0, "by": "x"})
    assert " completed" in err.splitlines()[-1]


def test_run_of_a_task_that_fails_ends_with_1_and_what_went_wrong(typed):
    code, out, err = typed("run", JOB, "angle=1", "wrong=the axis is bent")
    assert (code, out) == (exits.Code.FAILED, "")
    assert "failed after 1 attempt: ValueError: the axis is bent" in err
    assert re.search(r"^Its log: jobroom log \S+$", err, re.MULTILINE)


def test_run_with_json_prints_the_task_as_the_api_gives_it(room, typed):
    code, out, _ = typed("run", JOB, "angle=1", "wrong=bent", "--json")
    task = json.loads(out)
    assert (code, task["status"]) == (exits.Code.FAILED, "failed")
    assert task == {**room.task(task["id"]), "queue_position": task["queue_position"]}


def test_run_that_takes_too_long_ends_with_124_and_leaves_the_task(room, typed):
    job = room.unserved("Never")
    code, out, err = typed("run", job, "--timeout", "0.5")
    assert (code, out) == (exits.Code.TIMED_OUT, "")
    found = re.search(r"The task (\S+) has not ended within 0.5 s, it is pending", err)
    assert room.task(found[1])["status"] == "pending"


def test_a_result_too_long_for_the_task_is_fetched_by_itself(room, typed):
    name = "x" * 9000
    code, out, _ = typed("run", JOB, "angle=1", f"name={name}")
    assert (code, json.loads(out)["by"]) == (0, name)


def test_watch_prints_a_line_for_each_change(room, good):
    task_id = room.running(room.submit(angle=1, gate="lines"))
    opens = ("half way", verbs_room.gate("lines").set)
    lines = good("watch", task_id, when=opens).splitlines()
    assert lines[0] == f"{task_id}  {JOB}  running  50 %  half way"
    assert lines[-1] == f"{task_id}  {JOB}  completed  100 %  half way"
    assert len(lines) == len(set(lines))


def test_watch_with_json_prints_a_document_for_each_change(room, good):
    task_id = room.running(room.submit(angle=1, gate="documents"))
    opens = ("half way", verbs_room.gate("documents").set)
    lines = good("watch", task_id, "--json", when=opens).splitlines()
    tasks = [json.loads(line) for line in lines]
    assert (tasks[0]["status"], tasks[-1]["status"]) == ("running", "completed")
    assert tasks[-1]["result"] == {"rotated": 1.0, "by": None}


def test_watch_of_several_ends_with_1_if_one_has_failed(room, typed):
    ids = [room.submit(angle=1), room.submit(angle=1, wrong="bent")]
    code, out, _ = typed("watch", *ids, ids[0])
    assert code == exits.Code.FAILED
    ends = {line.split()[0]: line.split()[2] for line in out.splitlines()}
    assert ends == {ids[0]: "completed", ids[1]: "failed"}


def test_watch_of_a_room_ends_when_nothing_is_left_to_do(room, good):
    path = f"{live_server.BASE}/rooms/r2/jobs"
    assert room.http.put(path, json={"category": "modifiers", "name": "Hold"}).is_success
    task_id = room.submit("r2:modifiers:Hold")
    cancels = ("pending", lambda: room.cancel(task_id))
    out = good("watch", "r2", "--until-idle", when=cancels)
    assert f"{task_id}  r2:modifiers:Hold  pending  1 in line" in out
    assert f"{task_id}  r2:modifiers:Hold  cancelled" in out
    assert "r2: 1 cancelled; " in out


def test_watch_of_a_room_for_a_while_ends_with_124(typed):
    code, out, err = typed("watch", "r2", "--timeout", "0.2", "--json")
    assert (code, out) == (exits.Code.TIMED_OUT, "")
    assert "its tasks go on" in err


def test_watch_takes_ids_or_one_room(room, typed):
    code, _, err = typed("watch", NOBODY, "r1")
    assert code == exits.Code.USAGE
    assert "one room alone" in err


def test_more_tasks_than_can_be_followed_are_refused(typed):
    ids = [f"01970000-0000-7000-8000-{number:012}" for number in range(51)]
    code, _, err = typed("watch", *ids)
    assert code == exits.Code.USAGE
    assert "At most 50 tasks" in err


def test_wait_says_how_each_task_has_ended_and_no_more(room, good):
    ids = [room.submit(angle=1), room.submit(angle=2)]
    lines = good("wait", *ids).splitlines()
    assert {line.split()[0] for line in lines} == set(ids)
    assert len(lines) == 2


def test_wait_that_takes_too_long_ends_with_124(room, typed):
    ids = [room.submit(room.unserved("Never")) for _ in range(2)]
    code, _, err = typed("wait", *ids, "--timeout", "0")
    assert code == exits.Code.TIMED_OUT
    assert "and 1 more" in err


def test_log_prints_what_a_task_has_printed(room, good):
    task_id, report = room.held("Talks")
    report(log="one\ntwo\n", log_offset=0, status="completed")
    assert good("log", task_id) == "one\ntwo\n"
    (piece,) = [json.loads(line) for line in good("log", task_id, "--json").splitlines()]
    assert (piece["text"], piece["attempt"], piece["ended"]) == ("one\ntwo\n", 1, True)


def test_log_follows_to_the_end_of_the_task(room, good):
    task_id, report = room.held("Murmurs")
    report(log="one\n", log_offset=0)
    ends = ("one", lambda: report(log="two\n", status="completed"))
    out = good("log", "--follow", task_id, when=ends)
    assert out == "one\ntwo\n"


def test_an_empty_log_says_so(room, typed):
    code, out, err = typed("log", room.submit(room.unserved("Silent")))
    assert (code, out, err) == (0, "", "jobroom: the log is empty.\n")
