"""The page on the command line: each verb, option and exit code is on it, and none that is not."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import live_server
import pytest
import typer

from jobroom.cli import exits, main

PAGE = (Path(__file__).parents[2] / "joblib" / "docs" / "command-line.md").read_text()
APP = typer.main.get_command(main.app)
SERVERS_OWN = {"token", "sweep", "db", "demo", "serve", "worker", "schedule"}
"""Named on this page, and described on others."""
EXTRAS = ("alembic", "jsonschema_rs", "jwt", "orjson", "pydantic_settings", "sqlalchemy")
EXTRAS += ("starlette", "uvicorn", "mangum", "apscheduler", "psycopg")


def options_of(command):
    return {name for one in command.params for name in one.opts if name.startswith("--")}


def test_each_verb_is_on_the_page_and_each_on_the_page_is_a_verb():
    named = set(re.findall(r"`?jobroom ([a-z]+)\b", PAGE))
    assert set(APP.commands) - named == set()
    assert named - set(APP.commands) == set()


def test_each_option_is_on_the_page_and_each_on_the_page_is_an_option():
    ours = [command for name, command in APP.commands.items() if name not in SERVERS_OWN]
    inner = [each for one in ours for each in getattr(one, "commands", {}).values()]
    known = set().union(*map(options_of, [APP, *ours, *inner])) - {"--version"}
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", PAGE))
    assert known - named - {"--help"} == set()
    assert named - known - {"--help", "--sub"} == set()


def test_each_exit_code_is_on_the_page():
    codes = {int(code) for code in re.findall(r"^\| (\d+) \|", PAGE, re.MULTILINE)}
    assert codes == {code.value for code in exits.Code}


@pytest.mark.parametrize("words", [["--help"], ["check"]])
def test_the_base_install_is_enough(words):
    hide = f"import sys; sys.modules.update(dict.fromkeys({EXTRAS!r}))\n"
    code = f"{hide}from jobroom.cli.main import app\nsys.argv[1:] = {words!r}\napp()\n"
    environment = {**live_server.environment(), "JOBROOM_URL": "http://127.0.0.1:1"}
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.stderr == ""
    assert done.returncode == (exits.Code.FAILED if words == ["check"] else exits.Code.OK)


def test_the_help_loads_nothing_that_talks_to_a_server():
    code = (
        "import sys\nfrom jobroom.cli.main import app\n"
        "print(sorted({'httpx', 'pydantic', 'jobroom.client.transport'} & set(sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=live_server.environment(),
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout == "[]\n"
