"""The page of the settings says what the code has: every name, default and bound."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import get_args

import pytest

from jobroom.settings import ON_LAMBDA, PREFIX, JobLibSettings

PAGE = (Path(__file__).parents[2] / "joblib" / "docs" / "settings.md").read_text()
ROW = re.compile(r"^\| `([A-Z_]+)` \| (.*?) ?\| (.*?) ?\| (.*) \|$", re.MULTILINE)
ROWS = {name: (default, takes, meaning) for name, default, takes, meaning in ROW.findall(PAGE)}
SIGNS = {"ge": "≥", "gt": ">", "le": "≤"}
FIELDS = JobLibSettings.model_fields


def shown(value):
    """A value as it is written into the environment."""
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))


def test_the_page_has_each_setting_once_and_no_other():
    assert sorted(name for name, *_ in ROW.findall(PAGE)) == sorted(map(str.upper, FIELDS))
    assert f"`{PREFIX}`" in PAGE


@pytest.mark.parametrize("field", FIELDS)
def test_the_default_is_the_code_s(field):
    default = FIELDS[field].default
    expected = [] if default in (None, "") else [shown(default)]
    expected += [shown(ON_LAMBDA[field])] if field in ON_LAMBDA else []
    assert re.findall(r"`([^`]+)`", ROWS[field.upper()][0]) == expected


@pytest.mark.parametrize("field", FIELDS)
def test_the_bounds_are_the_code_s(field):
    metadata = list(FIELDS[field].metadata)
    for part in get_args(FIELDS[field].annotation):  # of X | None
        metadata += getattr(part, "__metadata__", ())
    metadata = [each for one in metadata for each in getattr(one, "metadata", [one])]
    bounds = {
        sign: getattr(one, name)
        for one in metadata
        for name, sign in SIGNS.items()
        if hasattr(one, name)
    }
    said = {
        sign: float(number) for sign, number in re.findall(r"([≥>≤]) (\d+)", ROWS[field.upper()][1])
    }
    assert said == bounds
