"""The lookup of a path's endpoint that stands before Starlette's router."""

from __future__ import annotations

import pytest

from jobroom.http.finder import Finder
from jobroom.http.routes import ROUTES

FINDER = Finder({spec.path: spec.path for spec in ROUTES})  # type: ignore[misc]  # names for apps


@pytest.mark.parametrize("path", sorted({spec.path for spec in ROUTES}))
def test_every_path_of_the_table_is_found(path):
    asked = path.replace("{", "a ").replace(":path}", "").replace("}", "")
    found = FINDER.find(asked)
    assert found is not None
    assert found[0] == path
    assert all(value.startswith("a ") for value in found[1].values())


@pytest.mark.parametrize(
    "path",
    ["", "/", "/v1/joblib/tasks/", "/v1/joblib//workers", "/v1/joblib/tasks/a/b", "/v1/me\n"],
)
def test_what_it_does_not_know_is_left_to_the_router(path):
    assert FINDER.find(path) is None


def test_the_first_of_two_paths_that_fit_is_taken():
    both = Finder({"/tasks/claim": "claim", "/tasks/{task_id}": "task"})  # type: ignore[dict-item]
    assert both.find("/tasks/claim") == ("claim", {})
    assert both.find("/tasks/7") == ("task", {"task_id": "7"})


def test_parameters_come_as_they_were_decoded():
    assert FINDER.find("/v1/joblib/rooms/r 1/tasks/r 1:modifiers:é") == (
        "/v1/joblib/rooms/{room_id}/tasks/{full_name}",
        {"room_id": "r 1", "full_name": "r 1:modifiers:é"},
    )
