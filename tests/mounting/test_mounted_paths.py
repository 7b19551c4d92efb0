"""Mounted in a host's application: rules, *Mounted*."""

from __future__ import annotations

import re

import pytest
from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Mount, Route

pytestmark = pytest.mark.anyio

JOB = {"category": "modifiers", "name": "Rotate", "schema": {"required": ["angle"]}}
SUBMIT = "/v1/joblib/rooms/r1/tasks/r1:modifiers:Rotate"


async def host_of_own(request):
    return JSONResponse({"host": "its own"})


@pytest.fixture(params=["starlette at /", "starlette at /jobs", "fastapi at /jobs"])
def hosted(request, mountable):
    """A host and the root path at which the queue is mounted in it."""
    kind, _, root = request.param.partition(" at ")
    root = root.rstrip("/")
    if kind == "fastapi":
        host = FastAPI()
        host.add_route("/own", host_of_own)
        host.mount(root, mountable())
        return host, root
    return Starlette(routes=[Route("/own", host_of_own), Mount(root, app=mountable())]), root


async def test_the_address_of_a_task_carries_the_root_path(hosted, ask):
    """Rules, *Mounted*: Location gets the mount's root path, and leads to the task."""
    host, root = hosted
    await ask(host, "PUT", f"{root}/v1/joblib/rooms/r1/jobs", JOB)
    made = await ask(host, "POST", root + SUBMIT, {"payload": {"angle": 1}})
    assert made.headers["location"] == f"{root}/v1/joblib/tasks/{made.json()['id']}"
    assert (await ask(host, "GET", made.headers["location"])).json()["id"] == made.json()["id"]


async def test_the_type_of_a_problem_stays_as_it_is(hosted, ask):
    """Rules, *Mounted*: type stays /v1/problems/..."""
    host, root = hosted
    await ask(host, "PUT", f"{root}/v1/joblib/rooms/r1/jobs", JOB)
    refused = await ask(host, "POST", root + SUBMIT, {"payload": {}})
    assert (refused.status_code, refused.json()["type"]) == (422, "/v1/problems/payload-invalid")
    assert (await ask(host, "GET", root + refused.json()["type"])).status_code == 200


async def test_an_unknown_address_under_the_mount_is_a_problem(hosted, ask):
    """Contract, *Errors*: application/problem+json for every error, the router's own too."""
    host, root = hosted
    for path in ("/nothing", "/v1/joblib/nothing", "/v1/me/"):
        answer = await ask(host, "GET", root + path)
        assert (answer.status_code, answer.json()["type"]) == (404, "/v1/problems/not-found")
    answer = await ask(host, "DELETE", f"{root}/v1/me")
    assert (answer.status_code, answer.headers["allow"]) == (405, "GET, HEAD")


async def test_the_documents_lead_to_where_the_queue_is_mounted(hosted, ask):
    host, root = hosted
    described = (await ask(host, "GET", f"{root}/openapi.json", headers={})).json()
    assert described["servers"] == [{"url": root or "/"}]
    page = await ask(host, "GET", f"{root}/docs", headers={})
    assert page.headers["content-type"].startswith("text/html")
    for link in re.findall(r'(?:href|src)="(/[^"#]*)"', page.text):
        assert (await ask(host, "GET", link)).status_code == 200, link


async def test_the_host_keeps_its_own_addresses(hosted, ask):
    host, _ = hosted
    assert (await ask(host, "GET", "/own", headers={})).json() == {"host": "its own"}


async def test_names_with_odd_characters_pass_through_a_mount(hosted, ask):
    """Contract, *Jobs*: whatever is accepted round-trips, percent-encoded or not (C20)."""
    host, root = hosted
    for name in ("A B", "%2F", "名前", "a?b#c"):
        made = await ask(host, "PUT", f"{root}/v1/joblib/rooms/r1/jobs", {**JOB, "name": name})
        assert made.status_code == 201, made.text
        path = "/v1/joblib/rooms/r1/jobs/r1%3Amodifiers%3A" + "".join(
            f"%{byte:02X}" for byte in name.encode()
        )
        assert (await ask(host, "GET", root + path)).json()["name"] == name


async def test_a_host_may_serve_me_itself(mountable, ask):
    """Rules, *Mounted*: create_app(me=False) where the host serves /v1/me itself."""
    host = Starlette(
        routes=[Route("/v1/me", host_of_own), Mount("/", app=mountable(me=False))],
    )
    assert (await ask(host, "GET", "/v1/me")).json() == {"host": "its own"}
    described = (await ask(host, "GET", "/openapi.json")).json()
    assert "/v1/me" not in described["paths"]
    alone = mountable(me=False)
    assert (await ask(alone, "GET", "/v1/me")).status_code == 404
