"""Which server a client speaks to: arguments, environment, profile file; both colours."""

from __future__ import annotations

import httpx
import pytest

from jobroom.client import profile
from jobroom.errors import ConfigurationError

KEPT = """
[default]
url = "http://default.example"
token = "secret-of-default"

[lab]
url = "http://lab.example"
token = "secret-of-lab"

[bare]
url = "http://bare.example"
"""


pytestmark = pytest.mark.usefixtures("home")


@pytest.fixture
def file(home):
    found = home / "jobroom" / "profiles.toml"
    found.parent.mkdir()
    found.write_text(KEPT)
    found.chmod(0o600)
    return found


@pytest.fixture
def asked(colour):
    """Where a client without further arguments asks, and with which token."""

    def ask(*args, **named):
        seen = []

        def answer(request):
            seen.append((request.url.host, request.headers.get("authorization")))
            return httpx.Response(200, json={})

        client = colour.client(*args, http=colour.http(httpx.MockTransport(answer)), **named)
        client.me()
        client.close()
        return seen[0]

    return ask


def test_arguments_come_first(monkeypatch, asked, file):
    assert file.exists()
    monkeypatch.setenv("JOBROOM_URL", "http://env.example")
    monkeypatch.setenv("JOBROOM_TOKEN", "env")
    assert asked("http://x.example", "t") == ("x.example", "Bearer t")
    assert asked("http://x.example", lambda: "made") == ("x.example", "Bearer made")
    assert asked("http://x.example") == ("x.example", "Bearer env")


def test_the_environment_comes_before_the_file(monkeypatch, asked, file):
    assert file.exists()
    monkeypatch.setenv("JOBROOM_URL", "http://env.example")
    assert asked() == ("env.example", None)
    monkeypatch.setenv("JOBROOM_TOKEN", "env")
    assert asked() == ("env.example", "Bearer env")
    assert asked(token="t") == ("env.example", "Bearer t")
    assert asked(profile="lab") == ("lab.example", "Bearer secret-of-lab")


def test_the_file_is_read_without_anything_else(monkeypatch, asked, file):
    assert file.exists()
    assert asked() == ("default.example", "Bearer secret-of-default")
    monkeypatch.setenv("JOBROOM_PROFILE", "lab")
    assert asked() == ("lab.example", "Bearer secret-of-lab")
    assert asked(token="t") == ("lab.example", "Bearer t")


def test_a_profile_without_a_token_takes_that_of_the_environment(monkeypatch, asked, file):
    assert file.exists()
    assert asked(profile="bare") == ("bare.example", None)
    monkeypatch.setenv("JOBROOM_TOKEN", "env")
    assert asked(profile="bare") == ("bare.example", "Bearer env")


def test_without_anything_it_says_what_to_set(colour, home):
    with pytest.raises(ConfigurationError) as raised:
        colour.client()
    assert str(raised.value) == (
        "There is no server to speak to: set JOBROOM_URL (and JOBROOM_TOKEN), or write the profile"
        f" [default] with url and token into {home}/jobroom/profiles.toml."
    )


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660])
def test_a_file_that_others_may_read_is_refused(file, mode):
    file.chmod(mode)
    with pytest.raises(ConfigurationError, match=rf"run  chmod 600 {file}$"):
        profile.place_of(None, None, None)


@pytest.mark.parametrize(
    ("text", "name", "said"),
    [
        (KEPT, "home", r"has no profile \[home\]: add it"),
        ("[default", None, "is no TOML"),
        (b"\xff", None, "is no TOML"),
        ("default = 1", None, r"has no profile \[default\]"),
        ("[default]\ntoken = 'secret'", None, "needs url and token as strings"),
        ("[default]\nurl = 'http://x'\ntoken = 5", None, "needs url and token as strings"),
    ],
)
def test_a_faulty_file_is_told_in_one_sentence_without_its_secrets(file, text, name, said):
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ConfigurationError, match=said) as raised:
        profile.place_of(None, None, name)
    assert "secret" not in str(raised.value)


def test_a_profile_without_a_file_says_so(home, monkeypatch):
    monkeypatch.setenv("JOBROOM_PROFILE", "lab")
    with pytest.raises(ConfigurationError, match="write it, mode 600"):
        profile.place_of(None, None, None)
    (home / "jobroom" / "profiles.toml").mkdir(parents=True)
    with pytest.raises(ConfigurationError, match="cannot be read"):
        profile.place_of(None, None, None)


def test_the_file_is_in_the_home_without_another_folder(monkeypatch, tmp_path):
    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert profile.path() == tmp_path / ".config" / "jobroom" / "profiles.toml"


@pytest.mark.parametrize("address", ["queue.example", "ftp://x", 5])
def test_an_address_of_another_kind_is_refused(colour, address):
    with pytest.raises(ConfigurationError, match="http://"):
        colour.client(address)


def test_an_environment_with_an_unusable_proxy_is_told_without_its_password(monkeypatch, colour):
    monkeypatch.setenv("HTTP_PROXY", "odd://user:secret@proxy")
    with pytest.raises(ConfigurationError, match="proxy") as raised:
        colour.client("http://x.example", "t").me()
    assert "secret" not in str(raised.value)


def test_no_file_is_read_where_it_is_not_needed(asked, file):
    file.chmod(0o644)
    assert asked("http://x.example", "t") == ("x.example", "Bearer t")
    assert file.stat().st_mode & 0o777 == 0o644
