"""What the pages point to is there: other pages, tests, settings, and verbs of the command line."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.main import get_command

from jobroom.cli.main import app
from jobroom.settings import JobLibSettings

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "joblib" / "docs").glob("*.md"))
OURS = ("operate", "security", "settings", "coming-from", "lifecycle")
LINK = re.compile(r"\]\((?!https?:)([^)#]+)")
FOLDER = re.compile(r"`(tests/[\w/.]+)`")
VERB = re.compile(r"`jobroom ((?:db )?[a-z][a-z-]*)")
SETTING = re.compile(r"`([A-Z][A-Z]+(?:_[A-Z]+)+)(?:=\w+)?`")
ELSEWHERE = {"FORWARDED_ALLOW_IPS", "JOBROOM_URL", "JOBROOM_TOKEN"}


@pytest.fixture(params=PAGES, ids=lambda page: page.stem)
def page(request):
    return request.param


@pytest.fixture
def text(page):
    return page.read_text()


def test_each_page_and_folder_that_is_named_is_there(page, text):
    named = [page.parent / link for link in LINK.findall(text)]
    named += [ROOT / folder for folder in FOLDER.findall(text)]
    assert [str(path) for path in named if not path.exists()] == []


def test_each_verb_that_is_named_is_one(text):
    commands = get_command(app).commands
    verbs = {*commands, *(f"db {verb}" for verb in commands["db"].commands)}
    assert {verb for verb in VERB.findall(text) if verb not in verbs} == set()


@pytest.mark.parametrize(
    "own", [one for one in PAGES if one.stem.startswith(OURS)], ids=lambda page: page.stem
)
def test_each_setting_that_is_named_is_one(own):
    known = {name.upper() for name in JobLibSettings.model_fields} | ELSEWHERE
    codes = SETTING.findall(own.read_text())
    assert {name for name in codes if name.isupper() and name not in known} == set()
