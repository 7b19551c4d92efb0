"""What the token is good for: who it says we are, and what it lets us do, tried without a trace."""

from __future__ import annotations

import base64
import json
import time
import uuid
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any

import httpx

from jobroom.cli import shapes
from jobroom.cli.checkpoint import Place, Skipped, Wrong, object_of
from jobroom.client import endpoints, problems
from jobroom.domain.names import GLOBAL_ROOM

HOLD_SECONDS = 5
"""How long a request is held open; short of what any gateway cuts off."""
HELD_SHARE = 0.8


def token(place: Place) -> str:
    """Whether the token is accepted, and whose it is."""
    if place.token is None:
        raise Wrong("there is none", "Set JOBROOM_TOKEN; jobroom token --sub NAME makes one.")
    answer = place.ask("GET", "/v1/me")
    if answer.status_code == HTTPStatus.UNAUTHORIZED:
        problem = problems.problem_of(answer) or {}
        said = str(problem.get("detail") or "the server refuses it").rstrip(".")
        raise Wrong(said, _advice_on(place.token))
    found = object_of(answer)
    wrong = next(shapes.ME.misfits(found), None)
    if answer.status_code != HTTPStatus.OK or wrong is not None:
        why = "" if wrong is None else f", and not by the job queue: {wrong}"
        raise Wrong(
            f"/v1/me is answered {answer.status_code}{why}",
            "Check the address, and ask who runs the gateway in between.",
        )
    place.me = found
    until = _claims(place.token).get("exp")
    good = "" if not isinstance(until, int | float) else f", good until {_utc(until)}"
    return f"accepted, you are {place.me['id']}{good}"


def rights(place: Place) -> str:
    """Which rooms it reaches, and whether as an admin."""
    rooms = place.me.get("rooms")
    if rooms == []:
        raise Wrong("the token reaches no room", "Get one that names rooms, or none of them.")
    reach = "all rooms" if rooms is None else f"the rooms {', '.join(rooms)}"
    return f"{reach}, {'with' if place.me.get('is_admin') else 'without'} an admin's rights"


def registering(place: Place) -> str:
    """Whether a job would be taken in the room."""
    room = _room(place)
    # A worker that is not there is the last thing that a registration is refused for.
    probe = {"category": place.category, "name": "check", "worker_id": str(uuid.uuid4())}
    answer = place.ask("PUT", endpoints.path_of("rooms", room, "jobs"), json=probe)
    return _would(answer, "worker-not-found", f"jobs can be registered in {room}")


def submitting(place: Place) -> str:
    """Whether a task would be taken in the room."""
    room = _room(place)
    if room == GLOBAL_ROOM and not place.me.get("is_admin"):
        raise Wrong("submitting in @global needs an admin's token", "Submit in a room of yours.")
    name = f"{room}:{place.category}:check-{uuid.uuid4()}"
    answer = place.ask("POST", endpoints.path_of("rooms", room, "tasks", name), json={})
    return _would(answer, "job-not-found", f"tasks can be submitted in {room}")


def long_poll(place: Place) -> str:
    """Whether a request may be held open, through all that stands between."""
    made = place.ask("POST", endpoints.path_of("workers"), json={"name": "jobroom check"})
    worker = object_of(made)
    if not shapes.MADE(worker):
        raise Wrong(f"no worker can be made ({made.status_code})", "Look at the server's log.")
    try:
        began = time.monotonic()
        body = {"worker_id": worker["id"]}
        answer = place.ask(
            "POST", endpoints.path_of("tasks", "claim"), wait=HOLD_SECONDS, json=body
        )
        took = time.monotonic() - began
    finally:
        place.ask("DELETE", endpoints.path_of("workers", worker["id"]))
    granted = answer.headers.get("preference-applied", "nothing")
    if answer.status_code != HTTPStatus.OK:
        raise Wrong(
            f"a request held open is cut off after {took:.1f} s ({answer.status_code})",
            f"Raise the proxy's timeout over {HOLD_SECONDS} s, better to 60 s.",
        )
    if took < HOLD_SECONDS * HELD_SHARE:
        raise Wrong(
            f"a request is held open for {took:.1f} s (the server granted {granted})",
            "It works, with a pause between looks: raise LONG_POLL_MAX_WAIT_SECONDS on the server"
            " or the gateway's timeout.",
        )
    return f"a request was held open for {took:.1f} s"


def _room(place: Place) -> str:
    if place.room is None:
        raise Skipped("name a room: --room ROOM")
    return place.room


def _would(answer: httpx.Response, expected: str, so: str) -> str:
    problem = problems.problem_of(answer) or {}
    if str(problem.get("type", "")).endswith(f"/{expected}"):
        return so
    said = problem.get("detail") or f"the server answered {answer.status_code}"
    raise Wrong(str(said).rstrip("."), "Ask for a token with that right, or use another room.")


def _advice_on(token: str) -> str:
    claims = _claims(token)
    if not claims:
        return "Copy it again: it is three parts with dots between, on one line."
    until = claims.get("exp")
    if isinstance(until, int | float) and until < time.time():
        return f"It expired {_utc(until)}: get a new one (jobroom token --sub NAME)."
    return "Get one that was made with this server's key, and check both clocks."


def _claims(token: str) -> dict[str, Any]:
    """Return what a token says, unproven; nothing if it is no JWT."""
    try:
        body = token.split(".")[1]
        found = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    except (IndexError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _utc(seconds: float) -> str:
    try:
        return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%SZ}"
    except (OverflowError, OSError, ValueError):
        return "for ever"
