"""``jobroom profile set``: a server and a token under a name, in a file for its owner alone."""

from __future__ import annotations

import io
import stat
import tomllib

import pytest

from jobroom.cli import exits


@pytest.fixture
def file(tmp_path):
    """Where the profiles are kept."""
    return tmp_path / "config" / "jobroom" / "profiles.toml"


@pytest.fixture
def keep(typed, monkeypatch):
    """A function that types a command with only a profile to go by."""
    monkeypatch.setenv("JOBROOM_URL", "")
    monkeypatch.setenv("JOBROOM_TOKEN", "")

    def run(*words, stdin=""):
        monkeypatch.setattr("sys.stdin", io.StringIO(stdin))
        return typed(*words)

    return run


def test_a_profile_is_kept_for_its_owner_alone_and_used(room, keep, file):
    words = ("profile", "set", "default", "--url", room.url, "--token-stdin")
    code, out, err = keep(*words, stdin=f"{room.token}\n")
    assert code == 0, err
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert tomllib.loads(file.read_text()) == {"default": {"url": room.url, "token": room.token}}
    assert room.token not in out + err
    assert keep("rooms")[0] == 0


def test_a_profile_is_written_anew_and_the_others_stay(keep, file):
    file.parent.mkdir(parents=True)
    file.write_text('# mine\n[a]\nurl = "http://old"\ntoken = "t"\n\n[b]\nurl = "http://b"\n')
    file.chmod(0o644)
    _, _, err = keep("profile", "set", "a", "--url", "http://new")
    assert err.endswith("use it with --profile a.\n")
    text = file.read_text()
    assert text.startswith("# mine\n")
    assert tomllib.loads(text) == {"a": {"url": "http://new"}, "b": {"url": "http://b"}}
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_profile_is_asked_for_by_name(room, keep):
    keep("profile", "set", "lab", "--url", room.url, "--token-stdin", stdin=room.token)
    assert keep("--profile", "lab", "rooms")[0] == 0


@pytest.mark.parametrize(
    ("words", "stdin", "said"),
    [
        (["a.b", "--url", "http://x"], "", "use letters, digits"),
        (["a", "--url", "localhost"], "", "must begin with http"),
        (["a", "--url", "http://x", "--token-stdin"], "", "no token on stdin"),
        (["a", "--url", "http://x", "--token-stdin"], "two words", "copy it again"),
        (["a"], "", "Missing option '--url'"),
    ],
)
def test_what_cannot_be_a_profile_is_refused(keep, file, words, stdin, said):
    code, _, err = keep("profile", "set", *words, stdin=stdin)
    assert code == exits.Code.USAGE
    assert said in err
    assert err.count("\n") == 1
    assert not file.exists()


def test_a_file_that_is_no_toml_is_left_alone(keep, file):
    file.parent.mkdir(parents=True)
    file.write_text("no toml")
    code, _, err = keep("profile", "set", "a", "--url", "http://x")
    assert code == exits.Code.USAGE
    assert "is no TOML" in err
    assert file.read_text() == "no toml"
