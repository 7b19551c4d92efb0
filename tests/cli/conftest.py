"""What the tests of the verbs share: one server with workers, and commands typed in here."""

from __future__ import annotations

import logging
import sys

import pytest
import verbs_room

from jobroom.cli import main, outages


@pytest.fixture(scope="module")
def room(tmp_path_factory):
    """A server with two workers for ``r1:modifiers:Rotate``, whose threads end with it."""
    with verbs_room.Room(tmp_path_factory.mktemp("verbs")) as opened:
        yield opened


class Watched:
    """Stdout, with something to be done when a text is printed."""

    def __init__(self, stdout, text, then):
        self._stdout, self._text, self._then = stdout, text, then

    def __getattr__(self, name):
        return getattr(self._stdout, name)

    def write(self, text):
        self._stdout.write(text)
        if self._then is not None and self._text in text:
            then, self._then = self._then, None
            then()


@pytest.fixture
def typed(room, monkeypatch, capsys, tmp_path):
    """A function that types a command in this process; its exit code, stdout and stderr.

    ``when`` is a text and what to do when that is printed.
    """
    monkeypatch.setenv("JOBROOM_URL", room.url)
    monkeypatch.setenv("JOBROOM_TOKEN", room.token)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("JOBROOM_PROFILE", raising=False)
    log = logging.getLogger("jobroom.client")

    def run(*words, when=None):
        capsys.readouterr()
        if when is not None:
            monkeypatch.setattr(sys, "stdout", Watched(sys.stdout, *when))
        with pytest.raises(SystemExit) as ended:
            main.app([str(word) for word in words])
        out, err = capsys.readouterr()
        return ended.value.code, out, err

    yield run
    log.handlers = [one for one in log.handlers if not isinstance(one, outages.People)]
    log.propagate = True


@pytest.fixture
def good(typed):
    """A function that types a command that must end well and say nothing else; its stdout."""

    def run(*words, when=None):
        code, out, err = typed(*words, when=when)
        assert (code, err) == (0, "")
        return out

    return run
