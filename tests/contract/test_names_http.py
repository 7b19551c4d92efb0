"""Rooms, categories and names: refused with the right problem, or the same at every route."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from contract_api import Api, Person, listed, pointers, q, refused, taken

ACCEPTED = [
    "A%2FB",
    "A?B",
    "A#B",
    "a b",
    "é",
    "e\u0301",
    "名前",
    "😀",
    "x" * 255,
    "名" * 255,
    "...",
    "a.b",
    "100%",
    "%41",
    "a+b",
    "a&b=c;d",
    '"quoted"',
    "back\\slash",
    "<b>",
    "~",
    "-",
    "{}",
    "*",
    "tasks",
    "null",
    "\u200b",
]
# A gateway that decodes leaves no way to tell whether these were sent encoded or are the name.
AS_SENT = pytest.mark.path_as_sent("an HTTP API of API Gateway decodes paths, a function URL not")
ROUND_TRIPS = [
    pytest.param(name, marks=AS_SENT if name in ("A%2FB", "%41") else ()) for name in ACCEPTED
]
REFUSED = [
    "A:B",
    "A@B",
    " ",
    " a",
    "a ",
    "\u00a0a",
    "..",
    ".",
    "x" * 256,
    "a\x00b",
    "a\nb",
    "\x7f",
    "\x85",
]
# With a slash, or empty, it is another address: servers decode the path before they route it.
NO_PART_OF_A_PATH = ["A/B", "/", ""]


@pytest.fixture
def free(make_api: Callable[..., Api]) -> Person:
    """An admin where every category of these tests is allowed."""
    allowed = ["modifiers", *ACCEPTED]
    return make_api(allowed_categories=allowed).by("alice", is_admin=True)


def _check_round_trip(free: Person, room: str, category: str, name: str) -> None:
    """What was registered is found again, unchanged, by each route that takes its name."""
    full_name = f"{room}:{category}:{name}"
    here, job_path = f"/rooms/{q(room)}", f"/rooms/{q(room)}/jobs/{q(full_name)}"
    made = free.put(f"{here}/jobs", {"category": category, "name": name})
    assert made.status_code == 201, made.text
    shown = taken(free.get(job_path))
    for job in (made.json(), shown):
        found = (job["room_id"], job["category"], job["name"], job["full_name"])
        assert found == (room, category, name, full_name)
    assert listed(free.get(f"{here}/jobs"), "full_name") == [full_name]
    assert listed(free.get(f"{here}/workers")) == ["alice"]
    task = taken(free.post(f"{here}/tasks/{q(full_name)}"))
    assert (task["room_id"], task["job_name"]) == (room, full_name)
    for path in (f"{job_path}/tasks", f"{here}/tasks", f"{here}/tasks?job={q(full_name)}"):
        assert listed(free.get(path), "job_name") == [full_name]
    assert free.claim()["job_name"] == full_name


@pytest.mark.parametrize("name", ROUND_TRIPS)
def test_an_accepted_name_round_trips_through_every_route(name: str, free: Person) -> None:
    """Acceptance C20; contract, *Jobs*: "round-trips through every route"."""
    _check_round_trip(free, "r1", "modifiers", name)


@pytest.mark.parametrize("room", ROUND_TRIPS)
def test_an_accepted_room_round_trips_through_every_route(room: str, free: Person) -> None:
    """Acceptance C20, for rooms."""
    _check_round_trip(free, room, "modifiers", "Rotate")


@pytest.mark.parametrize("category", ROUND_TRIPS)
def test_an_accepted_category_round_trips_through_every_route(category: str, free: Person) -> None:
    """Acceptance C20, for categories that the settings allow."""
    _check_round_trip(free, "r1", category, "Rotate")


def test_a_full_name_works_with_its_colons_unencoded(free: Person) -> None:
    """Contract, *Jobs*: "percent-encoded or not"."""
    free.register("é名")
    for written in ("r1:modifiers:é名", "r1%3Amodifiers%3A%C3%A9%E5%90%8D"):
        assert taken(free.get(f"/rooms/r1/jobs/{written}"))["name"] == "é名"
        assert free.post(f"/rooms/r1/tasks/{written}").status_code == 202


def test_global_works_percent_encoded_and_not(free: Person) -> None:
    """Contract, *Jobs*; "ten to try first" 9b: %40global is @global."""
    free.register("Align", room="@global")
    for room in ("@global", "%40global"):
        assert listed(free.get(f"/rooms/{room}/jobs"), "name") == ["Align"]


def test_names_that_look_alike_are_different_names(free: Person) -> None:
    """Contract, *Jobs*: "kept as sent": no normalization, no folding of case."""
    for name in ("é", "e\u0301", "E", "e"):
        assert (
            free.put("/rooms/r1/jobs", {"category": "modifiers", "name": name}).status_code == 201
        )


@pytest.mark.parametrize("name", [*REFUSED, *NO_PART_OF_A_PATH])
def test_a_name_against_the_rule_is_422(name: str, free: Person) -> None:
    """Contract, *Jobs*: validation-error for a name; rules, *Text*: NUL in names is refused."""
    answer = free.put("/rooms/r1/jobs", {"category": "modifiers", "name": name})
    assert answer.status_code == 422
    assert pointers(refused(answer, "validation-error")) == ["/name"]


@pytest.mark.parametrize("category", [*REFUSED, *NO_PART_OF_A_PATH, "painting"])
def test_a_category_against_the_rule_or_not_allowed_is_400(category: str, free: Person) -> None:
    """Contract, *Jobs*: invalid-category, also when not allowed."""
    answer = free.put("/rooms/r1/jobs", {"category": category, "name": "Rotate"})
    assert pointers(refused(answer, "invalid-category")) == ["/category"]


@pytest.mark.parametrize("room", [*REFUSED, "@internal", "@local", "@globe", "@GLOBAL"])
@pytest.mark.parametrize("part", ["jobs", "tasks", "workers"])
def test_a_room_against_the_rule_is_400_wherever_it_stands(
    room: str, part: str, free: Person
) -> None:
    """Contract, *Jobs*: invalid-room-id; @internal and @local are reserved."""
    path = f"/rooms/{encoded(room)}/{part}"
    if room == "@local":  # an admin may look
        assert listed(free.get(path)) == []
    else:
        refused(free.get(path), "invalid-room-id")
    if part == "jobs":
        answer = free.put(path, {"category": "modifiers", "name": "Rotate"})
        refused(answer, "invalid-room-id")


def encoded(room: str) -> str:
    """Percent-encoded, dots too: a client would take them for a step up."""
    return "%2E" * len(room) if set(room) == {"."} else q(room)


@pytest.mark.parametrize("room", NO_PART_OF_A_PATH)
def test_a_room_with_a_slash_or_without_a_letter_is_no_address(room: str, free: Person) -> None:
    """Acceptance C20: refused as a problem document, never by the router's plain text."""
    answer = free.put(f"/rooms/{q(room)}/jobs", {"category": "modifiers", "name": "Rotate"})
    refused(answer, "not-found")


@pytest.mark.parametrize(
    "full_name",
    [
        "Rotate",
        "r1:Rotate",
        "r1:modifiers:",
        ":modifiers:Rotate",
        "a:r1:modifiers:Rotate",
        "::",
        "r1:modifiers:\x00",
        "r1:modifiers:..",
        "R1:modifiers:Rotate",
        "r1:modifiers:rotate",
    ],
)
def test_a_malformed_or_unknown_full_name_is_job_not_found(full_name: str, free: Person) -> None:
    """Contract, *Jobs*: 404 job-not-found for a malformed name; a look-alike is unknown."""
    free.register("Rotate")
    here = "/rooms/r1"
    refused(free.get(f"{here}/jobs/{q(full_name)}"), "job-not-found")
    refused(free.get(f"{here}/jobs/{q(full_name)}/tasks"), "job-not-found")
    refused(free.get(f"{here}/tasks?job={q(full_name)}"), "job-not-found")
    refused(free.post(f"{here}/tasks/{q(full_name)}"), "job-not-found")


@pytest.mark.parametrize("spelling", ["{}", "urn:uuid:{}", "{{{}}}", "URN:UUID:{}"])
def test_a_task_id_may_be_spelled_as_any_uuid(spelling: str, free: Person) -> None:
    """Acceptance C25; contract: any UUID spelling in, lower case out."""
    free.register("Rotate")
    task = free.submit()
    for text in (task["id"], task["id"].upper(), task["id"].replace("-", "")):
        path = f"/tasks/{q(spelling.format(text))}"
        assert taken(free.get(path))["id"] == task["id"]


@pytest.mark.parametrize("text", ["not-a-uuid", "1", "{", "0" * 31, "g" * 32, "\x00", "é" * 36])
def test_an_id_that_is_no_uuid_is_task_not_found(text: str, free: Person) -> None:
    """Acceptance C25; rules, *Order of checks*: an id that is no UUID is 404."""
    path = f"/tasks/{q(text)}"
    refused(free.get(path), "task-not-found")
    refused(free.get(f"{path}/result"), "task-not-found")
    refused(free.patch(path, {"status": "running"}), "task-not-found")
    refused(free.post(f"{path}/retry"), "task-not-found")


@pytest.mark.parametrize("identity", ["auth0|x", "https://id.example/users/1", "a b", "é", "a?b#c"])
def test_an_identity_worker_beats_and_leaves_by_its_identity(identity: str, api: Api) -> None:
    """Contract, *Workers*: its id is the identity, whatever an issuer puts into sub."""
    person = api.by(identity)
    person.register("Rotate")
    assert taken(person.patch(f"/workers/{q(identity)}"))["id"] == identity
    assert person.delete(f"/workers/{q(identity)}").status_code == 204
