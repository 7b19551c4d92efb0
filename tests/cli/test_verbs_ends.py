"""How a verb ends when it cannot do what was asked: one sentence and a code of its own."""

from __future__ import annotations

import live_server
import pytest
from verbs_room import JOB, NOBODY

from jobroom import __version__
from jobroom.cli import exits


def test_the_server_away_is_5(typed, monkeypatch):
    port = live_server.free_port()
    monkeypatch.setattr("jobroom.cli.server.BRIEF_SECONDS", 0.2)
    monkeypatch.setenv("JOBROOM_URL", f"http://127.0.0.1:{port}")
    code, out, err = typed("list", "r1")
    assert (code, out) == (exits.Code.AWAY, "")
    told, end = err.splitlines()
    assert told.startswith("jobroom: the server does not answer (ConnectError")
    assert "check that it runs there" in end


def test_somebody_elses_server_is_5(typed, room, monkeypatch):
    monkeypatch.setenv("JOBROOM_URL", f"{room.url}/v1/problems/unauthorized?")
    code, _, err = typed("list", "r1")
    assert code == exits.Code.AWAY
    assert "check the server's address" in err


ENDS = [
    (["show", NOBODY], {}, exits.Code.NOT_FOUND, "There is no task"),
    (["show", "no-id"], {}, exits.Code.NOT_FOUND, "There is no task"),
    (["watch", NOBODY], {}, exits.Code.NOT_FOUND, "There is no task"),
    (["wait", NOBODY], {}, exits.Code.NOT_FOUND, "There is no task"),
    (["log", NOBODY], {}, exits.Code.NOT_FOUND, "There is no task"),
    (["cancel", NOBODY], {}, exits.Code.NOT_FOUND, "There is no task"),
    (["jobs", "r1:modifiers:Nothing"], {}, exits.Code.NOT_FOUND, "jobroom jobs r1"),
    (["jobs", "@nonsense"], {}, exits.Code.USAGE, "@nonsense"),
    (["rooms"], {"JOBROOM_TOKEN": "abc"}, exits.Code.REFUSED, "token"),
    (["rooms"], {"JOBROOM_TOKEN": ""}, exits.Code.REFUSED, "token"),
    (["list", "@global"], {}, exits.Code.REFUSED, "admin"),
    (["rooms"], {"JOBROOM_URL": ""}, exits.Code.USAGE, "set JOBROOM_URL"),
    (["rooms"], {"JOBROOM_URL": "localhost"}, exits.Code.USAGE, "begin with http"),
    (["rooms"], {"JOBROOM_TOKEN": "a b"}, exits.Code.USAGE, "copy it again"),
    (["--token-file", "missing", "rooms"], {}, exits.Code.USAGE, "token file missing"),
    (["--profile", "nobody", "rooms"], {}, exits.Code.USAGE, "profiles.toml"),
    (["nonsense"], {}, exits.Code.USAGE, "nonsense"),
    (["list", "r1", "--nonsense"], {}, exits.Code.USAGE, "list --help"),
    (["list", "r1", "--url", "x"], {}, exits.Code.USAGE, "stands before the verb"),
    (["list"], {}, exits.Code.USAGE, "ROOM"),
    (["list", "r1", "--limit", "501"], {}, exits.Code.USAGE, "--limit"),
    (["submit", JOB, "angle"], {}, exits.Code.USAGE, "write name=value"),
]


@pytest.mark.parametrize("case", ENDS, ids=lambda case: f"{' '.join(case[0])} {case[3]}"[:40])
def test_each_error_is_one_sentence_and_has_its_code(typed, monkeypatch, case):
    words, more, code, said = case
    for name, value in more.items():
        monkeypatch.setenv(name, value)
    ended, out, err = typed(*words)
    assert (ended, out) == (code, "")
    assert err.startswith("jobroom: ")
    assert err.count("\n") == 1, err
    assert said in err


def test_no_token_is_ever_printed(typed, monkeypatch):
    monkeypatch.setenv("JOBROOM_TOKEN", "secret-token")
    _, out, err = typed("rooms")
    assert "secret-token" not in out + err


def test_a_token_from_a_file_is_used(room, good, monkeypatch, tmp_path):
    (tmp_path / "token").write_text(f"{room.token}\n")
    monkeypatch.setenv("JOBROOM_TOKEN", "no good")
    assert good("--token-file", tmp_path / "token", "rooms")


@pytest.mark.parametrize(("content", "said"), [(b"", "is empty"), (b"\xff", "it is no text")])
def test_a_token_file_without_a_token_is_told(typed, tmp_path, content, said):
    (tmp_path / "token").write_bytes(content)
    code, _, err = typed("--token-file", tmp_path / "token", "rooms")
    assert code == exits.Code.USAGE
    assert said in err


def test_the_version_is_told(good):
    assert good("--version") == f"jobroom {__version__}\n"


def test_without_a_verb_the_help_is_printed(typed):
    code, out, _ = typed()
    assert code == exits.Code.USAGE
    assert "submit" in out
