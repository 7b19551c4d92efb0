"""Addresses and profile files that cannot be: one sentence, no hang, and no password shown."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import live_server
import pytest

from jobroom import AsyncClient, Client
from jobroom.client import address, profile
from jobroom.errors import ConfigurationError

ROOT = Path(__file__).parents[2]
PASSWORD = "pass-word"
BAD = [
    ("localhost:8000", "must begin with http:// or https://"),
    ("//host", "must begin with http:// or https://"),
    ("ftp://host", "must begin with http:// or https://"),
    ("http://", "names no host"),
    ("http://:8000", "names no host"),
    ("http:///v1", "names no host"),
    ("http://host:99999", "has a port that cannot be (1 to 65535)"),
    ("http://host:0", "has a port that cannot be"),
    ("http://host:-1", "that cannot be"),
    ("http://host:", "has a port that cannot be"),
    ("http://host:port", "that cannot be"),
    ("http://[::1]:99999", "has a port that cannot be"),
    ("http://[::1", "has a host or a port that cannot be"),
    ("http://☃.example", "has a host or a port that cannot be"),
    ("http://ho st:8000", "holds a space or a line end"),
    ("http://host:8000 ", "holds a space or a line end"),
    ("http://host:8000\n", "holds a space or a line end"),
    ("http://host/\x00", "holds a space or a line end"),
    ("http://host:8000/?a=b", "holds a ? or a #"),
    ("http://host:8000/#a", "holds a ? or a #"),
    (f"http://user:{PASSWORD}@host:8000", "names a user or a password"),
    (f"http://{PASSWORD}@host", "names a user or a password"),
    (f"http://user:{PASSWORD}@host:99999", "names a user"),
    (f"http://user:{PASSWORD}@ho st", "holds a space"),
    (f"user:{PASSWORD}@host", "must begin with http:// or https://"),
]
GOOD = [
    "http://127.0.0.1:8000",
    "https://jobs.example.org",
    "https://jobs.example.org/",
    "https://example.org/some/where",
    "http://[::1]:8000",
    "http://[::1]",
    "http://host:65535",
    "http://größe.example",
    "http://a_b:1",
]


pytestmark = pytest.mark.usefixtures("home")


@pytest.fixture
def file(home):
    """Where the profiles would be."""
    found = home / "jobroom" / "profiles.toml"
    found.parent.mkdir()
    return found


def typed(*words, **more):
    """The exit code and the stderr of a command, typed with a short patience."""
    done = subprocess.run(
        [sys.executable, "-m", "jobroom.cli.main", *words],
        env={**live_server.environment(), "PYTHONPATH": f"{ROOT / 'joblib'}", **more},
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
        timeout=60,
    )
    return done.returncode, done.stderr


@pytest.mark.parametrize("url", GOOD)
def test_an_address_that_can_be_is_taken(url):
    assert profile.place_of(url, None, None).url == url


@pytest.mark.parametrize(("url", "said"), BAD)
def test_an_address_that_cannot_be_is_refused_in_one_sentence(url, said):
    with pytest.raises(ConfigurationError) as refused:
        address.check(url)
    assert said in str(refused.value)
    assert PASSWORD not in str(refused.value)
    assert "\n" not in str(refused.value)
    assert refused.value.__cause__ is None


@pytest.mark.parametrize("client", [Client, AsyncClient])
def test_clients_refuse_it_before_anything_is_asked(client):
    with pytest.raises(ConfigurationError, match="names a user or a password"):
        client(f"http://user:{PASSWORD}@host")


def test_what_the_environment_and_a_profile_say_is_looked_at_too(monkeypatch, file):
    file.write_text('[default]\nurl = "http://host:99999"\n')
    file.chmod(0o600)
    with pytest.raises(ConfigurationError, match="has a port that cannot be"):
        profile.place_of(None, None, None)
    monkeypatch.setenv("JOBROOM_URL", "http://ho st")
    with pytest.raises(ConfigurationError, match="holds a space"):
        profile.place_of(None, None, None)


@pytest.mark.parametrize(
    "words", [["rooms"], ["check"], ["run", "r1:modifiers:a"], ["worker", "json"]]
)
def test_a_verb_says_it_at_once_and_ends_with_2(words, tmp_path):
    code, err = typed(*words, JOBROOM_URL=f"http://user:{PASSWORD}@host", HOME=str(tmp_path))
    assert (code, err.count("\n"), PASSWORD in err) == (2, 1, False), err


def test_a_profile_is_not_set_to_an_address_that_cannot_be(home):
    words = ["profile", "set", "a", "--url", f"http://user:{PASSWORD}@host"]
    code, err = typed(*words, XDG_CONFIG_HOME=str(home))
    assert (code, err.count("\n"), PASSWORD in err) == (2, 1, False), err
    assert not (home / "jobroom").exists()


# The profile file


def fifo(file):
    os.mkfifo(file, 0o600)


def folder(file):
    file.mkdir()


def loop(file):
    file.symlink_to(file)


def device(file):
    file.symlink_to("/dev/zero")


def unreadable(file):
    file.write_text(f'[default]\nurl = "http://h"\ntoken = "{PASSWORD}"\n')
    file.chmod(0)


@pytest.mark.parametrize("make", [fifo, folder, loop, device])
def test_a_profile_file_that_is_none_is_one_sentence_at_once(file, make):
    make(file)
    with pytest.raises(ConfigurationError) as refused:
        profile.place_of(None, None, "default")
    assert str(refused.value).startswith(f"{file} cannot be read: ")
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("make", [fifo, folder, loop, device])
def test_a_verb_says_of_such_a_file_what_it_is(file, home, make):
    make(file)
    for words in (["rooms"], ["profile", "set", "a", "--url", "http://h"]):
        code, err = typed(*words, XDG_CONFIG_HOME=str(home))
        assert (code, err.count("\n")) == (2, 1), err
        assert str(file) in err


def test_a_file_that_may_not_be_read_is_one_sentence(file, monkeypatch):
    unreadable(file)

    def refuse(path, *_):
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr(os, "open", refuse)  # a test may be root's
    with pytest.raises(ConfigurationError, match=r"cannot be read: Permission denied\."):
        profile.place_of(None, None, "default")


def test_a_folder_that_may_not_be_looked_into_is_one_sentence(file, monkeypatch):
    def refuse(path, *_, **__):
        raise PermissionError(13, "Permission denied", path)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "stat", refuse)
        patch.setattr(os, "open", refuse)
        with pytest.raises(ConfigurationError, match="cannot be read: Permission denied"):
            profile.place_of(None, None, None)
    assert not file.exists()


def test_without_a_home_one_sentence_says_what_to_set(monkeypatch):
    def homeless():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.setattr(Path, "home", homeless)
    with pytest.raises(ConfigurationError, match="set HOME, or JOBROOM_URL"):
        profile.place_of(None, None, None)
    assert profile.place_of("http://h", None, None).url == "http://h"
