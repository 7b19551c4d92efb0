"""What a person sees who types the verbs in a terminal, and what Ctrl-C does."""

from __future__ import annotations

import re
import signal
import subprocess
import sys

import pytest
import verbs_room
from verbs_room import ENOUGH_SECONDS, JOB, Terminal, typed

from jobroom.cli import exits

COLOUR = re.compile(rb"\x1b\[[0-9;]*m")
HIDDEN_CURSOR, SHOWN_CURSOR = b"\x1b[?25l", b"\x1b[?25h"


def test_run_shows_a_bar_that_moves_and_then_the_result(room):
    with Terminal(room.environment(), "run", JOB, "angle=90", "gate=bar") as terminal:
        screen = terminal.until(r"^Rotate \w{12} running +\S+ +50 % +\d:\d\d half way$")
        assert "rotated" not in screen
        verbs_room.gate("bar").set()
        lines = terminal.end().splitlines()
    assert re.fullmatch(r"Rotate \w{12} completed ━+ 100 % +\d:\d\d half way", lines[0])
    assert lines[1:] == ['{"rotated":90.0,"by":null}']
    assert terminal.code == 0


def test_the_cursor_comes_back_when_a_bar_ends(room):
    with Terminal(room.environment(), "run", JOB, "angle=90") as terminal:
        terminal.end()
    assert terminal.raw.rindex(SHOWN_CURSOR) > terminal.raw.rindex(HIDDEN_CURSOR)


def test_ctrl_c_ends_the_watching_with_130_and_says_that_the_task_goes_on(room):
    with Terminal(room.environment(), "run", JOB, "angle=90", "gate=stop") as terminal:
        terminal.until("half way")
        terminal.press(b"\x03")
        screen = terminal.end()
    assert terminal.code == exits.Code.INTERRUPTED
    found = re.search(r"stopped watching, the task (\S+) goes on: jobroom watch", screen)
    assert room.task(found[1])["status"] == "running"
    assert "Traceback" not in screen
    assert terminal.raw.rindex(SHOWN_CURSOR) > terminal.raw.rindex(HIDDEN_CURSOR)
    verbs_room.gate("stop").set()
    assert room.ended(found[1])["status"] == "completed"


def test_watch_shows_a_bar_for_each_task(room):
    ids = [room.submit(angle=1, gate="one"), room.submit(angle=1, gate="two")]
    never = room.submit(room.unserved("Never"))
    with Terminal(room.environment(), "watch", *ids, never) as terminal:
        terminal.until(r"running.*half way(.|\n)*running.*half way")
        terminal.until(r"^Never \w+ +pending +━* +1 in line$")
        verbs_room.gate("one").set()
        terminal.until("completed")
        verbs_room.gate("two").set()
        room.cancel(never)
        screen = terminal.end()
    assert screen.count("completed") == 2
    assert screen.count("cancelled") == 1
    assert terminal.code == exits.Code.FAILED


def test_watch_of_a_room_shows_what_runs_and_leaves_a_line_for_what_has_ended(room):
    task_id = room.running(room.submit(angle=1, gate="room"))
    with Terminal(room.environment(), "watch", "r1", columns=90) as terminal:
        terminal.until(r"^r1: .*1 running.*; \d+ workers alive$")
        terminal.until(rf"^Rotate {task_id[-12:]} running ")
        verbs_room.gate("room").set()
        terminal.until(rf"^{task_id}  {JOB}  completed")
        terminal.press(b"\x03")
        screen = terminal.end()
    assert f"Rotate {task_id[-12:]}" not in screen
    assert terminal.code == exits.Code.INTERRUPTED
    assert "the room's tasks go on" in screen


def test_tables_are_in_colour_in_a_terminal_and_cut_at_its_edge(room):
    room.ended(room.submit(angle=1, wrong="a reason that is much too long for a line " * 4))
    with Terminal(room.environment(), "list", "r1", "--job", JOB, columns=150) as terminal:
        screen = terminal.end()
    assert COLOUR.search(terminal.raw)
    assert screen.splitlines()[1].endswith("…")


@pytest.mark.parametrize("more", [{"NO_COLOR": "1"}, {"TERM": "dumb"}], ids=str)
def test_no_colours_where_they_are_not_wanted(room, more):
    task_id = room.ended(room.submit(angle=1))["id"]
    with Terminal(room.environment(**more), "watch", task_id) as terminal:
        terminal.end()
    assert b"\x1b[3" not in terminal.raw
    assert b"completed" in terminal.raw


def test_a_log_cannot_steer_the_terminal(room):
    task_id, report = room.held("Steers")
    log = "\x1b[31mred\x1b[0m \x1b[2J\x1b]0;title\x07 end\n"
    report(log=log, log_offset=0, status="completed")
    with Terminal(room.environment(), "log", task_id) as terminal:
        assert terminal.end() == "red �[2J�]0;title� end"
    assert b"\x1b[31mred\x1b[0m" in terminal.raw
    assert typed(room.environment(), "log", task_id).stdout == log


def test_a_token_is_pasted_into_a_terminal(room, tmp_path):
    where = {"XDG_CONFIG_HOME": str(tmp_path)}
    words = ("profile", "set", "default", "--url", room.url, "--token-stdin")
    with Terminal(room.environment(**where), *words) as terminal:
        terminal.until("Paste the token")
        terminal.press(f"{room.token}\n".encode())
        screen = terminal.end()
    assert terminal.code == 0
    assert "the profile default is in" in screen
    assert room.token[:40] not in screen


def test_ctrl_c_where_no_terminal_is_ends_with_130_too(room):
    task_id = room.running(room.submit(angle=1, gate="signal"))
    command = [sys.executable, "-m", "jobroom.cli.main", "watch", task_id]
    waiting = subprocess.Popen(
        command, env=room.environment(), stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert "half way" in waiting.stdout.readline()
    waiting.send_signal(signal.SIGINT)
    _, err = waiting.communicate(timeout=ENOUGH_SECONDS)
    verbs_room.gate("signal").set()
    assert waiting.returncode == exits.Code.INTERRUPTED
    assert f"the task {task_id} goes on" in err
    assert err.count("\n") == 1


def test_a_reader_that_goes_away_is_no_error(room):
    command = f"{sys.executable} -m jobroom.cli.main list r1 --limit 500 | true"
    done = subprocess.run(
        ["bash", "-c", command],
        env=room.environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=ENOUGH_SECONDS,
    )
    assert done.stderr == ""
