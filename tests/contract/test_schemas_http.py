"""Schemas of jobs over HTTP: their equality, their replacement, and what they say of payloads."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from contract_api import ROTATE, Api, Json, Person, listed, pointers, refused, taken

PATH = f"/rooms/r1/tasks/{ROTATE}"
BASIC = {
    "type": "object",
    "properties": {"a": {"type": ["number", "string"], "default": 1}, "b": {"minimum": 2}},
    "required": ["a", "b"],
}
# The same, as another program may write it (acceptance C18).
SAME = [
    json.dumps({name: BASIC[name] for name in ("required", "properties", "type")}),
    json.dumps({**BASIC, "required": ["b", "a"]}),
    json.dumps(BASIC).replace('"default": 1', '"default": 1.0'),
    json.dumps(BASIC).replace('"minimum": 2', '"minimum": 2e0'),
    json.dumps(BASIC).replace('["number", "string"]', '["string", "number"]'),
    json.dumps(BASIC, indent=4).replace('"a"', '"\\u0061"'),
]
DIFFERENT = [
    ('"default": 1', '"default": true', "/schema/properties/a/default"),
    ('"default": 1', '"default": "1"', "/schema/properties/a/default"),
    ('"default": 1', '"default": null', "/schema/properties/a/default"),
    ('"minimum": 2', '"minimum": 2.0000001', "/schema/properties/b/minimum"),
    ('["a", "b"]', '["a"]', "/schema/required"),
    ('"type": "object"', '"type": "object", "title": "T"', "/schema/title"),
]


def _register(person: Person, schema: object = None, text: str | None = None, **more: Any) -> Any:
    written = json.dumps(schema) if text is None else text
    fields = json.dumps({"category": "modifiers", "name": "Rotate", **more})
    body = f'{fields[:-1]}, "schema": {written}}}'
    return person.put("/rooms/r1/jobs", body.encode())


def _submit(person: Person, payload: object) -> httpx.Response:
    return person.post(PATH, {"payload": payload})


@pytest.mark.parametrize("text", SAME)
def test_an_equal_schema_is_200(text: str, alice: Person) -> None:
    """Acceptance C18; contract, *Jobs*: equality of schemas is JSON equality."""
    assert _register(alice, BASIC).status_code == 201
    again = _register(alice, text=text)
    assert again.status_code == 200, again.text
    assert again.json()["schema_version"] == 1


@pytest.mark.parametrize(("old", "new", "place"), DIFFERENT)
def test_a_different_schema_is_409_naming_the_path(
    old: str, new: str, place: str, alice: Person
) -> None:
    """Acceptance C18: the last is 409 with a pointer; true differs from 1."""
    _register(alice, BASIC)
    text = json.dumps(BASIC)
    assert old in text
    problem = refused(_register(alice, text=text.replace(old, new)), "schema-conflict")
    assert pointers(problem) == [place]
    assert place.removeprefix("/schema") in problem["detail"]
    assert taken(alice.get(f"/rooms/r1/jobs/{ROTATE}"))["schema"] == BASIC


def test_a_schema_comes_back_as_it_was_sent(alice: Person) -> None:
    """Contract, *Errors*: numbers come back exactly as sent, in schemas too."""
    text = '{"properties":{"n":{"maximum":123456789012345678901234567890,"minimum":1.0}}}'
    answer = _register(alice, text=text)
    assert f'"schema":{text},' in answer.text
    assert f'"schema":{text},' in alice.get(f"/rooms/r1/jobs/{ROTATE}").text


def test_no_schema_takes_any_payload(alice: Person) -> None:
    """Contract, *Jobs*: schema = {}."""
    assert alice.register()["schema"] == {}
    assert _submit(alice, {"any": ["thing"]}).status_code == 202


def test_another_description_or_policy_wins_with_200(alice: Person) -> None:
    """Rules, *Jobs*: equal schema with another description or policy: the last one wins."""
    _register(alice, BASIC, description="old")
    answer = _register(alice, BASIC, description="new", max_attempts=5, order="fair")
    assert answer.status_code == 200
    job = taken(alice.get(f"/rooms/r1/jobs/{ROTATE}"))
    assert (job["description"], job["max_attempts"], job["order"]) == ("new", 5, "fair")


def test_a_hidden_job_comes_back_with_another_schema(alice: Person) -> None:
    """Acceptance C19; contract, *Jobs*: 201, and its old tasks are still there."""
    _register(alice, BASIC)
    old = taken(_submit(alice, {"a": 1, "b": 2}))
    alice.report(old, "cancelled")
    alice.delete("/workers/alice")
    assert listed(alice.get("/rooms/r1/jobs")) == []
    back = _register(alice, {"required": ["c"]})
    assert (back.status_code, back.json()["schema_version"]) == (201, 2)
    assert alice.show(old)["schema_version"] == 1
    assert taken(_submit(alice, {"c": 1}))["schema_version"] == 2


def test_replace_keeps_old_tasks_with_the_schema_they_were_checked_by(alice: Person) -> None:
    """Contract, *Jobs*, "replace"; rules, *Jobs*: the claim names the version."""
    _register(alice, BASIC)
    _submit(alice, {"a": 1, "b": 2})
    replaced = _register(alice, {"required": ["c"]}, replace=True)
    assert (replaced.status_code, replaced.json()["schema_version"]) == (200, 2)
    _submit(alice, {"c": 1})
    assert [alice.claim()["schema_version"] for _ in range(2)] == [1, 2]


def test_a_replaced_schema_judges_at_once(alice: Person) -> None:
    """Contract, *Tasks*: a payload is checked against the job's schema, not a remembered one."""
    _register(alice, BASIC)
    assert _submit(alice, {"a": 1, "b": 2}).status_code == 202
    _register(alice, {"required": ["c"]}, replace=True)
    refused(_submit(alice, {"a": 1, "b": 2}), "payload-invalid")
    assert _submit(alice, {"c": 1}).status_code == 202


def test_a_schema_replaced_by_another_server_judges_at_once(
    make_api: Callable[..., Api], alice: Person
) -> None:
    """Contract, *Tasks*: two servers on one store; one remembers, the other changes."""
    _register(alice, BASIC)
    assert _submit(alice, {"a": 1, "b": 2}).status_code == 202
    _register(make_api().by("alice"), {"required": ["c"]}, replace=True)
    refused(_submit(alice, {"a": 1, "b": 2}), "payload-invalid")
    assert taken(_submit(alice, {"c": 1}))["schema_version"] == 2


def test_a_remembered_schema_refuses_nothing(make_api: Callable[..., Api], alice: Person) -> None:
    """Contract, *Tasks*: a payload that fits what another server registered just now is taken."""
    _register(alice, BASIC)
    assert _submit(alice, {"a": 1, "b": 2}).status_code == 202
    other = make_api().by("alice")
    _register(other, {"required": ["c"]}, replace=True)
    assert taken(_submit(alice, {"c": 1}))["schema_version"] == 2
    _register(other, {"required": ["c"]}, validate=False)
    assert _submit(alice, {}).status_code == 202


def test_replace_with_an_equal_schema_makes_no_new_version(alice: Person) -> None:
    """Contract, *Jobs*: a rolling update that changes nothing is none."""
    _register(alice, BASIC)
    assert _register(alice, BASIC, replace=True).json()["schema_version"] == 1


FAULTS: list[tuple[Json, list[str]]] = [
    ({}, ["/payload"]),
    ({"a": [], "b": 2}, ["/payload/a"]),
    ({"a": 1, "b": 1}, ["/payload/b"]),
    ({"a": None, "b": 0}, ["/payload/a", "/payload/b"]),
]


@pytest.mark.parametrize(("payload", "places"), FAULTS)
def test_a_payload_that_does_not_fit_is_422_with_pointers(
    payload: Json, places: list[str], alice: Person
) -> None:
    """Contract, *Tasks*: payload-invalid with errors: [{pointer, message}]."""
    _register(alice, BASIC)
    problem = refused(_submit(alice, payload), "payload-invalid")
    assert sorted(set(pointers(problem))) == places
    assert listed(alice.get("/rooms/r1/tasks")) == []


def test_a_pointer_is_escaped(alice: Person) -> None:
    """RFC 6901: ~ and / inside a name."""
    _register(alice, {"properties": {"a/b": {"properties": {"c~d": {"type": "null"}}}}})
    problem = refused(_submit(alice, {"a/b": {"c~d": 1}}), "payload-invalid")
    assert pointers(problem) == ["/payload/a~1b/c~0d"]


@pytest.mark.parametrize(
    "payload",
    [
        {"x": ["bad"] * 10_000},
        {"x": ["y" * 1000] * 900},
        {"x": [{str(n): "bad" for n in range(1000)}]},
        {"x": ["bad"] * 3, "n" * 100_000: 1},
    ],
)
def test_the_errors_of_a_payload_are_bounded(payload: Json, alice: Person) -> None:
    """Contract, *Tasks*: an answer that says why, not one as large as what was sent."""
    _register(alice, {"properties": {"x": {"items": {"type": "number"}}},
                      "additionalProperties": False})  # fmt: skip
    answer = _submit(alice, payload)
    assert 1 <= len(refused(answer, "payload-invalid")["errors"]) <= 20
    assert len(answer.content) < 20_000


def test_validate_false_takes_what_does_not_fit(alice: Person) -> None:
    """Contract, *Tasks*: the job can opt out."""
    job = taken(_register(alice, BASIC, validate=False))
    assert (job["validate"], job["schema"]) == (False, BASIC)
    assert _submit(alice, {"a": []}).status_code == 202


def test_validation_may_be_turned_on_again(alice: Person) -> None:
    """Rules, *Jobs*: the last policy wins, at once."""
    _register(alice, BASIC, validate=False)
    _submit(alice, {})
    _register(alice, BASIC)
    refused(_submit(alice, {}), "payload-invalid")


INVALID: list[tuple[object, str]] = [
    ({"type": "objekt"}, "/schema/type"),
    ({"type": 5}, "/schema/type"),
    ({"properties": {"a": {"type": "no"}}}, "/schema/properties/a/type"),
    ({"properties": []}, "/schema/properties"),
    ({"required": "a"}, "/schema/required"),
    ({"minimum": "1"}, "/schema/minimum"),
    ({"properties": {"a": {"pattern": "("}}}, "/schema/properties/a/pattern"),
    ({"$ref": "#/$defs/none"}, "/schema/$ref"),
    ({"$ref": "http://127.0.0.1:9/schema"}, "/schema/$ref"),
    ({"$ref": "file:///etc/passwd"}, "/schema/$ref"),
    ({"properties": {"a": {"$ref": "https://example.org/s.json"}}}, "/schema/properties/a/$ref"),
    ({"allOf": [{"$dynamicRef": "urn:x:y"}]}, "/schema/allOf/0/$dynamicRef"),
    ([], "/schema"),
    (True, "/schema"),
    ("{}", "/schema"),
]


@pytest.mark.parametrize(("schema", "place"), INVALID)
def test_an_invalid_schema_is_422_naming_the_place(
    schema: object, place: str, alice: Person
) -> None:
    """Contract, *Jobs*: it must be a JSON Schema (2020-12); nothing outside it is fetched."""
    problem = refused(_register(alice, schema), "validation-error")
    assert pointers(problem) == [place]
    assert listed(alice.get("/rooms/r1/jobs")) == []


CATASTROPHIC = [
    ({"pattern": "^(a+)+$"}, "a" * 5000 + "!"),
    ({"pattern": r"^(\w|\w\w)*$"}, "a" * 5000 + "!"),
    ({"pattern": r"^(?=(a+)+$)"}, "a" * 40 + "!"),
    ({"pattern": r"(a*)*\1b"}, "a" * 40),
    ({"pattern": "^(a{1,50}){1,50}$"}, "a" * 5000 + "!"),
]


@pytest.mark.parametrize(("rule", "text"), CATASTROPHIC)
def test_a_catastrophic_pattern_is_harmless(rule: Json, text: str, api: Api, alice: Person) -> None:
    """Contract, *Tasks*: whoever may register a job must not be able to stop the server."""
    answer = _register(alice, {"properties": {"x": rule}})
    if answer.status_code == 422:
        refused(answer, "validation-error")
        return
    begun = time.perf_counter()
    refused(_submit(alice, {"x": text}), "payload-invalid")
    assert time.perf_counter() - begun < 2


def test_a_schema_whose_references_multiply_is_harmless(alice: Person) -> None:
    """Contract, *Tasks*: a few hundred bytes must not ask for 2^60 steps."""
    steps = {f"s{n}": {"allOf": [{"$ref": f"#/$defs/s{n + 1}"}] * 2} for n in range(60)}
    schema = {"$defs": {**steps, "s60": {"type": "object"}}, "$ref": "#/$defs/s0"}
    begun = time.perf_counter()
    if _register(alice, schema).status_code == 201:
        refused(_submit(alice, {"x": 1}), "payload-invalid")
    assert time.perf_counter() - begun < 2


def test_format_is_an_annotation(alice: Person) -> None:
    """JSON Schema 2020-12: format refuses nothing by default."""
    _register(alice, {"properties": {"mail": {"format": "email"}}})
    assert _submit(alice, {"mail": "nobody"}).status_code == 202


def test_numbers_are_judged_as_json_has_them(alice: Person) -> None:
    """JSON Schema: 1.0 is an integer; true is no number."""
    _register(alice, {"properties": {"n": {"type": "integer"}}})
    assert alice.post(PATH, b'{"payload":{"n":1.0}}').status_code == 202
    assert alice.post(PATH, b'{"payload":{"n":123456789012345678901234567890}}').is_success
    refused(_submit(alice, {"n": True}), "payload-invalid")
