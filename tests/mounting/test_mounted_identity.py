"""A host that says who asks: contract, *Identity*, the seed's two callables and the one object."""

from __future__ import annotations

import pytest
from fastapi import FastAPI, HTTPException
from starlette.applications import Starlette
from starlette.routing import Mount

from jobroom import ProblemException, ProblemType, errors, problem_exception_handler
from jobroom.domain.records import Caller
from jobroom.http import problems
from jobroom.tokens import Identity

pytestmark = pytest.mark.anyio

USERS = {"t-alice": ("alice", False), "t-root": ("root", True)}


def user_of(request):
    """What a host does with a token of its own kind."""
    token = request.headers.get("x-session")
    if token not in USERS:
        raise HTTPException(401, "Sign in first.")
    return USERS[token]


def identity(request):
    return user_of(request)[0]


def is_admin(request):
    return user_of(request)[1]


async def identity_later(request):
    return identity(request)


async def is_admin_later(request):
    return is_admin(request)


class Asked:
    """A callable object, as FastAPI's dependencies may be."""

    async def __call__(self, request):
        return identity(request)


@pytest.fixture(
    params=[(identity, is_admin), (identity_later, is_admin_later), (Asked(), is_admin)],
    ids=["sync", "async", "object"],
)
def host(request, mountable):
    get_identity, get_admin = request.param
    made = FastAPI()
    made.mount("/jobs", mountable(get_current_identity=get_identity, get_is_admin=get_admin))
    return made


async def test_the_hosts_users_are_the_callers(host, ask):
    for token, (name, admin) in USERS.items():
        answer = await ask(host, "GET", "/jobs/v1/me", headers={"x-session": token})
        assert answer.json() == {"id": name, "is_admin": admin, "rooms": None}


async def test_the_hosts_refusal_is_ours(host, ask):
    """Contract: 401 unauthorized + WWW-Authenticate: Bearer, as a problem."""
    answer = await ask(host, "GET", "/jobs/v1/me", headers={})
    assert (answer.status_code, answer.json()["type"]) == (401, "/v1/problems/unauthorized")
    assert answer.json()["detail"] == "Sign in first."
    assert answer.headers["www-authenticate"] == "Bearer"


async def test_the_hosts_admin_has_an_admins_rights(host, ask):
    """Contract, *Jobs*: @global needs admin."""
    body = {"category": "modifiers", "name": "Rotate"}
    path = "/jobs/v1/joblib/rooms/@global/jobs"
    assert (await ask(host, "PUT", path, body, headers={"x-session": "t-alice"})).status_code == 403
    assert (await ask(host, "PUT", path, body, headers={"x-session": "t-root"})).status_code == 201


async def test_our_tokens_count_for_nothing_there(host, ask):
    """Contract: the host can replace all this."""
    assert (await ask(host, "GET", "/jobs/v1/me", sub="alice")).status_code == 401


async def test_without_the_second_callable_nobody_is_an_admin(mountable, ask):
    host = Starlette(routes=[Mount("/", app=mountable(get_current_identity=identity))])
    answer = await ask(host, "GET", "/v1/me", headers={"x-session": "t-root"})
    assert answer.json() == {"id": "root", "is_admin": False, "rooms": None}


@pytest.mark.parametrize("given", [None, "", 7, "a\tb", "x" * 256])
async def test_what_is_no_identity_is_401(mountable, ask, given):
    """Never an answer for nobody: the identity is text of 1 to 255 characters."""
    app = mountable(get_current_identity=lambda request: given)
    assert (await ask(app, "GET", "/v1/me")).status_code == 401


async def test_a_fault_of_the_host_is_a_500_that_tells_nothing(mountable, ask):
    """Contract, *Errors*: a 500 never shows a trace."""
    app = mountable(get_current_identity=lambda request: {}["secret place"])
    answer = await ask(app, "GET", "/v1/me")
    assert (answer.status_code, answer.json()["type"]) == (500, "/v1/problems/internal-error")
    assert "secret place" not in answer.text


async def test_one_object_may_say_it_all(mountable, ask):
    """Contract: create_app(authenticator=...) takes one object for everything, rooms too."""

    class Door:
        def authenticate(self, scope):
            return Identity(Caller("carol", rooms=frozenset({"r1"})))

    app = mountable(authenticator=Door())
    answer = await ask(app, "GET", "/v1/me", headers={})
    assert answer.json() == {"id": "carol", "is_admin": False, "rooms": ["r1"]}
    assert (await ask(app, "GET", "/v1/joblib/rooms/r2/jobs", headers={})).status_code == 404


async def test_a_host_may_answer_with_our_problems(ask):
    """Contract, *Names the seed gives*: ProblemException and problem_exception_handler."""

    class RoomFull(ProblemType):
        title, status = "Room full", 409

    host = FastAPI()
    host.add_exception_handler(ProblemException, problem_exception_handler)
    host.add_exception_handler(errors.JobroomError, problem_exception_handler)

    @host.get("/{case}")
    async def fail(case: str):
        if case == "own":
            raise ProblemException(RoomFull, "No place left.", seats=3)
        if case == "ours":
            raise ProblemException(problems.JobNotFound)
        raise errors.WorkerNotFound("There is no worker 'w'.")

    own = await ask(host, "GET", "/own")
    assert (own.status_code, own.json()["title"], own.json()["seats"]) == (409, "Room full", 3)
    assert own.headers["content-type"] == "application/problem+json"
    ours = await ask(host, "GET", "/ours")
    assert (ours.status_code, ours.json()["type"]) == (404, "/v1/problems/job-not-found")
    raised = await ask(host, "GET", "/raised")
    assert (raised.status_code, raised.json()["detail"]) == (404, "There is no worker 'w'.")
