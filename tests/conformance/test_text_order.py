"""Texts are ordered and compared by code points, whatever language a store was made for."""

from __future__ import annotations

import pytest
import tables

from jobroom.domain.records import Caller

NAMES = [
    "Zebra",
    "apple",
    "Apple",
    "_x",
    "x",
    "X",
    "é",
    "e",
    "f",
    "ß",
    "ss",
    "名",
    "🧬",
    "\ufb01",
    "-a",
]
ACCENTS = ["caf\u00e9", "cafe\u0301", "cafe", "CAFE", "cafe "]


def test_workers_are_listed_by_code_points(desk) -> None:
    for name in NAMES:
        desk.job(Caller(name))
    everybody = Caller("root", is_admin=True)
    assert desk.workers(everybody) == sorted(NAMES)
    assert list(desk.show(everybody, "r1:modifiers:Rotate").workers) == sorted(NAMES)


def test_jobs_are_listed_as_they_were_registered(desk, alice) -> None:
    for name in NAMES:
        desk.job(alice, name)
    assert desk.listed(alice) == [f"r1:modifiers:{name}" for name in NAMES]


def test_names_that_look_alike_are_different_names(desk, alice) -> None:
    """Contract, *Jobs*: kept as sent; no case is folded and no accent is composed."""
    names = [name for name in ACCENTS if name.strip() == name]
    made = [desk.register(alice, name) for name in names]
    assert all(registered.created for registered in made)
    assert len({registered.view.job.id for registered in made}) == len(names)
    for name in names:
        assert desk.show(alice, f"r1:modifiers:{name}").job.name == name


def test_rooms_that_look_alike_are_different_rooms(desk, alice, bob) -> None:
    rooms = ["room", "Room", "ROOM", "ro\u00f6m", "roo\u0308m"]
    for room in rooms:
        job = desk.job(alice, room_id=room)
        desk.submit(bob, job, room_id=room)
    for room in rooms:
        assert [view.task.room_id for view in desk.list(bob, room_id=room)[0]] == [room]


def test_identities_that_look_alike_are_different_people(desk, rotate) -> None:
    """A key of idempotency belongs to one identity, by its code points."""
    people = [Caller(name) for name in ACCENTS]
    made = [
        desk.submitted(one, rotate, idempotency_key="k", fingerprint="f").view.task.id
        for one in people
    ]
    assert len(set(made)) == len(people)


@pytest.mark.only_on("postgresql")
def test_no_column_goes_by_the_language_that_a_database_was_made_for(queue) -> None:
    """What SQLite does by itself must be said to PostgreSQL, column by column."""
    found = tables.read(
        queue,
        "SELECT DISTINCT coalesce(collation_name, 'as the database'), collation_schema"
        " FROM information_schema.columns"
        " WHERE table_schema = 'public' AND data_type = 'text'",
    )
    assert found == [("C", "pg_catalog")]
