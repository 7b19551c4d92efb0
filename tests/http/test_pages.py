"""The pages for people (contract, *Errors*: each problem's page explains it)."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
import shlex
from html.parser import HTMLParser

import pytest

from jobroom import wire
from jobroom.errors import NotFound
from jobroom.http import pages
from jobroom.http.openapi import build_openapi
from jobroom.http.problems import PROBLEMS, ProblemKind
from jobroom.http.routespec import Query, RouteSpec

EVIL = "<script>alert('&\"')</script>"
BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
VOID = {"meta", "br"}

ROUTES = (
    RouteSpec(
        "POST",
        "/v1/joblib/rooms/{room_id}/tasks/{full_name}",
        "submit_task",
        "Submit a task.",
        "Tasks",
        {202: "TaskBody"},
        request="SubmitTask",
        headers=("Idempotency-Key",),
        problems=("job-not-found",),
    ),
    RouteSpec(
        "POST",
        "/v1/joblib/tasks/claim",
        "claim_tasks",
        "Claim work.",
        "Tasks",
        {200: "ClaimBody"},
        request="ClaimTasks",
        body_required=False,
    ),
    RouteSpec(
        "GET",
        "/v1/joblib/rooms/{room_id}/tasks",
        "list_tasks",
        "List tasks.",
        "Tasks",
        {200: "TaskPage"},
        query=(Query("limit", "How many.", {"type": "integer", "minimum": 0, "maximum": 500}),),
    ),
    RouteSpec("GET", "/healthz", "health", "Alive?", "Service", {200: "text/plain"}, secured=False),
)


class Balance(HTMLParser):
    """Fails on a tag that is not closed, and gathers tags and attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag, attrs):
        self.seen.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def read(page: str) -> list[tuple[str, dict[str, str | None]]]:
    parser = Balance()
    parser.feed(page)
    parser.close()
    assert parser.open == []
    return parser.seen


@pytest.fixture(scope="module")
def docs() -> str:
    return pages.docs_page(build_openapi(ROUTES, version="1.2.3"))


def all_pages() -> list[str]:
    problems = [pages.problem_page(slug, kind) for slug, kind in PROBLEMS.items()]
    return [pages.docs_page(build_openapi(ROUTES)), *problems]


@pytest.mark.parametrize("page", all_pages())
def test_a_page_is_whole_and_loads_nothing(page):
    tags = read(page)
    names = {name for name, _ in tags}
    assert names.isdisjoint({"script", "link", "img", "iframe", "form", "object"})
    for _, attributes in tags:
        assert not any(name.startswith("on") or name in ("src", "style") for name in attributes)
        assert "//" not in (attributes.get("href") or "")
    assert "http" not in page
    assert "@import" not in page
    assert "url(" not in page


@pytest.mark.parametrize("page", all_pages())
def test_a_page_fits_a_phone_and_a_dark_screen(page):
    assert '<meta name="viewport" content="width=device-width, initial-scale=1">' in page
    assert "color-scheme:light dark" in page


def test_the_policy_allows_the_style_of_the_page_and_nothing_else(docs):
    style = re.search(r"<style>(.*?)</style>", docs, re.DOTALL)
    assert style is not None
    digest = base64.b64encode(hashlib.sha256(style[1].encode()).digest()).decode()
    assert f"style-src 'sha256-{digest}'" in pages.CONTENT_SECURITY_POLICY
    assert "default-src 'none'" in pages.CONTENT_SECURITY_POLICY
    assert "unsafe" not in pages.CONTENT_SECURITY_POLICY


def test_the_documentation_shows_every_route_under_its_heading(docs):
    for route in ROUTES:
        assert f"<code>{route.path}</code>" in docs
        assert f'<details id="{route.operation_id}">' in docs
    assert docs.index("<h2>Tasks</h2>") < docs.index("<h2>Service</h2>")
    assert (
        docs.index('id="list_tasks"') < docs.index("<h2>Service</h2>") < docs.index('id="health"')
    )


def test_the_documentation_shows_parameters_bodies_and_problems(docs):
    assert "integer (from 0 to 500)" in docs
    assert "<code>Idempotency-Key</code>" in docs
    assert 'Body: <a href="#SubmitTask">SubmitTask</a>' in docs
    assert 'Body (optional): <a href="#ClaimTasks">ClaimTasks</a>' in docs
    assert 'list of <a href="#TaskBody">TaskBody</a>' in docs


def test_every_link_within_the_page_has_its_target(docs):
    tags = read(docs)
    targets = {attributes["id"] for _, attributes in tags if "id" in attributes}
    links = [attributes["href"] for name, attributes in tags if name == "a"]
    assert {link[1:] for link in links if link and link.startswith("#")} <= targets


def test_links_to_problems_hold_under_a_mount(docs):
    """Rules, *Mounted*: the page may lie anywhere, so its links are relative."""
    assert '<a href="v1/problems/job-not-found">job-not-found</a>' in docs
    assert 'href="/' not in docs


def test_the_curl_of_a_route_is_a_command_with_a_valid_body(docs):
    blocks = [html.unescape(block) for block in re.findall(r"<pre>(.*?)</pre>", docs, re.DOTALL)]
    words = shlex.split(blocks[0].replace("\\\n", " "))
    assert words[:3] == ["curl", "-X", "POST"]
    assert words[3] == "$JOBROOM_URL/v1/joblib/rooms/lab/tasks/lab:modifiers:Rotate"
    assert "Authorization: Bearer $JOBROOM_TOKEN" in words
    assert wire.validate(wire.SubmitTask, json.loads(words[-1]))


def test_the_curl_of_an_open_route_sends_no_token(docs):
    assert html.escape('curl -X GET "$JOBROOM_URL/healthz"</pre>').split("&lt;")[0] in docs
    assert "Needs no token." in docs


def test_everything_in_the_documentation_is_escaped():
    route = RouteSpec(
        "GET",
        "/v1/joblib/rooms/{room_id}/tasks",
        f"id{EVIL}",
        EVIL,
        EVIL,
        {200: "TaskPage"},
        query=(Query(EVIL, EVIL, {"enum": [EVIL]}), Query("type", "x", {"type": EVIL})),
    )
    document = build_openapi([route], version=EVIL)
    document["info"]["title"] = document["info"]["description"] = EVIL
    document["components"]["schemas"][EVIL] = {
        "description": EVIL,
        "properties": {EVIL: {"description": EVIL, "format": EVIL, "maxLength": EVIL}},
        "examples": [EVIL],
    }
    document["paths"][EVIL] = document["paths"]["/v1/joblib/rooms/{room_id}/tasks"]
    page = pages.docs_page(document)
    assert "<script" not in page
    assert "alert" in page
    read(page)


def test_everything_on_a_problem_page_is_escaped():
    page = pages.problem_page(EVIL, ProblemKind(400, EVIL, EVIL, EVIL, EVIL))
    assert "<script" not in page
    read(page)


@pytest.mark.parametrize("slug", sorted(PROBLEMS))
@pytest.mark.parametrize("accept", [BROWSER, None])
def test_every_problem_is_explained_with_cause_example_and_fix(slug, accept):
    media, text = pages.explain(slug, accept=accept)
    kind = PROBLEMS[slug]
    shown = html.unescape(text)
    assert all(part in shown for part in (kind.title, kind.cause, kind.example, kind.fix))
    assert media.startswith("text/html" if accept else "text/markdown")


def test_an_unknown_kind_of_problem_is_not_found():
    with pytest.raises(NotFound) as caught:
        pages.explain(EVIL, accept=None)
    assert "script" not in str(caught.value)


@pytest.mark.parametrize(
    ("accept", "html_wanted"),
    [
        (BROWSER, True),
        ("text/html", True),
        ("application/xhtml+xml", True),
        ("TEXT/HTML; q=0.5", True),
        ("text/html;q=0.9, text/markdown;q=0.1", True),
        ("text/html;q=0.5, text/plain", False),
        ("text/html;q=0", False),
        ("*/*", False),
        ("application/json", False),
        ("", False),
        (None, False),
        (";;,,q=", False),
    ],
)
def test_html_is_sent_to_who_prefers_it(accept, html_wanted):
    assert pages.prefers_html(accept) is html_wanted
