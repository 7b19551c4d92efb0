"""Names and ids from the SDK and from real curl: acceptance cases C20 and C25."""

from __future__ import annotations

import json
import random
import string

import pytest
from live_server import BASE
from live_stage import (
    ROTATE,
    Person,
    address,
    check_problem,
    curl,
    q,
    sdk,
    serving,
    slug,
    taken,
)

from jobroom.errors import InvalidInput

AS_WRITTEN = ["A:B", "A/B", "A%2FB", "A?B", "A#B", " ", "", "..", "é", "名前", "x" * 300, "a\0b"]
REFUSED_AS_WRITTEN = ["A:B", "A/B", " ", "", "..", "x" * 300, "a\0b"]
FORBIDDEN = "/:@"
OTHERS = [
    "é",
    "e\u0301",
    "名前",
    "😀",
    "\u200b",
    "ß",
    "I\u0307",
    "\ufeff",
    "\u202e",
    "%2e%2e",
    "%00",
]
EACH_CHARACTER = [f"A{letter}B" for letter in string.printable] + OTHERS
UNENCODED = set(string.ascii_letters + string.digits + "-._~!$&'()*+,;=")


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("names")) as started:
        yield started


@pytest.fixture
def alice(server):
    with Person(server, "alice") as person:
        yield person


def put(person, names):
    """Register each name; those that were accepted. The others are 422, or somebody's mistake."""
    accepted = []
    for name in names:
        body = {"category": "modifiers", "name": name}
        answer = person.put("/rooms/r1/jobs", body)
        if answer.is_success:
            assert answer.json()["name"] == name
            accepted.append(name)
        else:
            assert slug(answer) == "422 validation-error", name
            assert [fault["pointer"] for fault in answer.json()["errors"]] == ["/name"]
    return accepted


def lightly(name):
    """Percent-encoded only where it must be."""
    return "".join(letter if letter in UNENCODED else q(letter) for letter in name)


def check_curl(folder, person, names, encode):
    """Details, a submission and the job's list by curl, for each name."""
    requests, expected = [], []
    for name in names:
        job = f"{encode('r1')}{encode(':')}modifiers{encode(':')}{encode(name)}"
        requests += [
            ("GET", f"{BASE}/rooms/r1/jobs/{job}", None),
            ("POST", f"{BASE}/rooms/r1/tasks/{job}", '{"payload": {"angle": 1}}'),
            ("GET", f"{BASE}/rooms/r1/jobs/{job}/tasks", None),
        ]
        expected.append(f"r1:modifiers:{name}")
    answers = curl(folder, person, requests)
    for number, full_name in enumerate(expected):
        shown, made, listed = answers[3 * number : 3 * number + 3]
        assert (shown[0], made[0], listed[0]) == (200, 202, 200), (full_name, shown, made)
        assert json.loads(shown[2])["full_name"] == full_name
        assert json.loads(made[2])["job_name"] == full_name
        assert json.loads(made[2])["id"] in [one["id"] for one in json.loads(listed[2])["items"]]


def check_sdk(server, names):
    """The same by the SDK, which makes the addresses itself."""
    with sdk(server, "sdk") as jobs:
        for name in names:
            full_name = f"r1:modifiers:{name}"
            assert jobs.worker.api.job("r1", full_name)["name"] == name
            made = jobs.submit(full_name, {"angle": 1})
            assert made["job_name"] == full_name
            assert jobs.worker.api.task(made["id"])["job_name"] == full_name


def test_the_twelve_names_of_the_case(server, alice, tmp_path):
    """Acceptance C20: each either 422 at PUT, or round-trips from the SDK and from curl."""
    accepted = put(alice, AS_WRITTEN)
    assert [name for name in AS_WRITTEN if name not in accepted] == REFUSED_AS_WRITTEN
    check_curl(tmp_path, alice, accepted, q)
    check_sdk(server, accepted)


def test_a_name_with_any_character_is_refused_or_round_trips(server, alice, tmp_path):
    """Acceptance C20, its kind: every printable character and some from afar, in a name."""
    accepted = put(alice, EACH_CHARACTER)
    refused = {name[1] for name in EACH_CHARACTER if name not in accepted}
    assert refused == {*FORBIDDEN, *"\t\n\r\v\f"}
    check_curl(tmp_path, alice, accepted, q)
    check_curl(tmp_path, alice, accepted, lightly)
    check_sdk(server, accepted)


def test_no_address_that_curl_can_write_gets_a_foreign_page(alice, tmp_path):
    """Acceptance C20, its kind: what no name can be is a problem document, however it is spelt."""
    spelt = ["A/B", "A%2FB", "%2E%2E", "..", ".", "", "%", "%zz", "%00", "A%00B", "%ff", "A%C3"]
    spelt += ["A?B", "A#B", "A;B", "%2525", "A%0d%0aB", "..%2f..%2fhealthz", "é".encode("latin-1")]
    spelt = [one.decode("latin-1") if isinstance(one, bytes) else one for one in spelt]
    requests = [
        (method, f"{BASE}/rooms/r1/{kind}/r1:modifiers:{name}", body)
        for name in spelt
        for method, kind, body in (("GET", "jobs", None), ("POST", "tasks", "{}"))
    ]
    requests += [("GET", f"{BASE}/rooms/{name}/jobs", None) for name in spelt]
    for request, (status, kind, text) in zip(
        requests, curl(tmp_path, alice, requests), strict=True
    ):
        if status >= 400:
            check_problem(status, kind, text, said=str(request))
        assert status in {200, 202, 400, 404, 405}, (request, status, text)


@pytest.mark.parametrize("name", REFUSED_AS_WRITTEN)
def test_the_sdk_refuses_what_the_server_refuses(server, name):
    """Acceptance C20: a clear error from the SDK, before or after it asked the server."""
    with sdk(server, "sdk") as jobs, pytest.raises(InvalidInput):
        jobs.worker.api.register("r1", {"category": "modifiers", "name": name})


def spellings(task_id):
    bare = task_id.replace("-", "")
    yield from (task_id, task_id.upper(), task_id.title(), bare, bare.upper())
    yield from (f"{{{task_id}}}", f"{{{bare}}}", f"urn:uuid:{task_id}", f"urn:uuid:{bare}")


@pytest.fixture
def running(alice):
    """A task of alice's that she runs."""
    alice.register()
    alice.drain()
    alice.submit()
    return alice.claim(start=True)


def test_each_spelling_of_an_id_is_the_same_task_everywhere(alice, running):
    """Acceptance C25: upper case, braces, urn and no hyphens mean one task, at every route."""
    task_id = running["id"]
    for spelt in map(q, spellings(task_id)):
        path = f"/tasks/{spelt}"
        assert taken(alice.get(path))["id"] == task_id
        assert taken(alice.get(path, headers={"prefer": "wait=0"}))["id"] == task_id
        assert taken(alice.patch(path, {"progress": 0.5}))["id"] == task_id
        assert slug(alice.get(f"{path}/result")) == "404 not-found"
        assert slug(alice.post(f"{path}/retry")) == "409 invalid-task-transition"
    assert slug(alice.get("/tasks/not-a-uuid")) == "404 task-not-found"


def test_each_spelling_of_a_chosen_id_is_the_same_id(alice):
    """Acceptance C25, its kind: ids go in through bodies, too."""
    alice.register()
    first = taken(alice.post(address(f"/rooms/r1/tasks/{ROTATE}"), {"payload": {"angle": 1}}))
    chosen = f"{first['id'][:-4]}beef"
    for spelt in spellings(chosen):
        made = alice.post(f"/rooms/r1/tasks/{ROTATE}", {"payload": {"angle": 1}, "id": spelt})
        assert taken(made)["id"] == chosen


def test_an_id_with_any_flaw_is_404_and_never_a_fault(alice, running):
    """Acceptance C25, its kind: 300 spoiled ids; what is still a spelling means that task."""
    chance = random.Random(25)
    known = {spelt.lower() for spelt in spellings(running["id"])}
    for _ in range(300):
        text = list(chance.choice(list(spellings(running["id"]))))
        for _ in range(chance.randint(1, 3)):
            place = chance.randrange(len(text))
            text[place] = chance.choice(["", "0", "g", "-", " ", "{", "%", "\0", "é", "٣", "/"])
        spoiled = "".join(text)
        answer = alice.get(f"/tasks/{q(spoiled)}")
        if answer.is_success and spoiled.lower() in known:
            assert answer.json()["id"] == running["id"]
        else:
            assert answer.status_code == 404, spoiled
