"""Registering jobs: joining, schemas, policies, and jobs that hide and come back."""

from __future__ import annotations

import pytest

from jobroom.errors import InvalidCategory, SchemaConflict, ValidationFailed

SCHEMA = '{"type": "object", "required": ["a", "b"], "properties": {"a": {"default": 1}}}'


def test_a_new_job_is_created_and_a_second_registration_joins_it(desk, alice, bob) -> None:
    """Contract, *Jobs*: 201 new, 200 already there with an equal schema."""
    first, second = desk.register(alice), desk.register(bob)
    assert (first.created, second.created) == (True, False)
    assert first.view.job.id == second.view.job.id
    assert second.view.workers == ("alice", "bob")


def test_twenty_registrations_of_one_new_job_make_it_once(desk, alice) -> None:
    """C15, one after the other: one is new, nineteen are not."""
    made = [desk.register(alice, worker_id=desk.worker(alice)) for _ in range(20)]
    assert [registered.created for registered in made] == [True] + [False] * 19
    assert len(made[-1].view.workers) == 20
    assert desk.listed(alice) == ["r1:modifiers:Rotate"]


def test_a_registration_names_the_worker_that_it_linked(desk, alice) -> None:
    """Contract, *Jobs*: ``worker_id`` is the worker linked by this call."""
    instance = desk.worker(alice)
    assert desk.register(alice, worker_id=instance).worker_id == instance
    assert desk.register(alice).worker_id == "alice"


@pytest.mark.parametrize(
    "equal",
    [
        SCHEMA,
        '{"properties": {"a": {"default": 1}}, "required": ["a", "b"], "type": "object"}',
        SCHEMA.replace('["a", "b"]', '["b", "a"]'),
        SCHEMA.replace("1", "1.0"),
    ],
)
def test_an_equal_schema_joins(desk, alice, equal) -> None:
    """Contract, *Jobs*; C18: JSON equality, ``required`` in any order."""
    desk.register(alice, schema=SCHEMA)
    again = desk.register(alice, schema=equal)
    assert not again.created
    assert again.view.job.schema_version == 1


def test_another_schema_is_a_conflict_that_names_the_place(desk, alice) -> None:
    """C18: ``true`` differs from ``1``; 409 with a pointer to the differing path."""
    desk.register(alice, schema=SCHEMA)
    with pytest.raises(SchemaConflict, match="/properties/a/default") as caught:
        desk.register(alice, schema=SCHEMA.replace("1", "true"))
    assert caught.value.errors[0].pointer == "/schema/properties/a/default"


def test_a_conflict_changes_nothing(desk, alice, bob) -> None:
    desk.register(alice, schema=SCHEMA, description="old")
    with pytest.raises(SchemaConflict):
        desk.register(bob, schema="{}", description="new")
    view = desk.show(alice, "r1:modifiers:Rotate")
    assert (view.job.description, view.workers) == ("old", ("alice",))


def test_the_last_description_and_policy_win(desk, alice) -> None:
    """Rules, *Jobs*: equal schema with another description or policy: the last one wins, 200."""
    desk.register(alice, schema=SCHEMA, description="old", max_attempts=2)
    again = desk.register(alice, schema=SCHEMA, description="new", on_worker_lost="requeue")
    job = again.view.job
    assert not again.created
    assert (job.description, job.on_worker_lost, job.max_attempts) == ("new", "requeue", 3)


def test_the_same_registration_again_does_not_write_the_row(desk, alice) -> None:
    first, again = desk.register(alice), desk.register(alice)
    assert again.view.job.version == first.view.job.version


@pytest.mark.parametrize(
    ("policy", "attempts"),
    [({}, 1), ({"on_worker_lost": "requeue"}, 3), ({"max_attempts": 7}, 7)],
)
def test_max_attempts_is_one_or_three_with_requeue(desk, alice, policy, attempts) -> None:
    """Contract, *Jobs*."""
    assert desk.job(alice, **policy).max_attempts == attempts


def test_replace_moves_to_a_new_version_of_the_schema(desk, alice) -> None:
    """Contract, *Jobs*: a rolling update while old workers live."""
    desk.register(alice, schema=SCHEMA)
    moved = desk.register(alice, schema="{}", replace=True)
    assert not moved.created
    assert (moved.view.job.schema, moved.view.job.schema_version) == ("{}", 2)


def test_replace_by_an_equal_schema_is_no_new_version(desk, alice) -> None:
    desk.register(alice, schema=SCHEMA)
    same = desk.register(alice, schema=SCHEMA.replace('["a", "b"]', '["b", "a"]'), replace=True)
    assert same.view.job.schema_version == 1


def test_old_pending_tasks_keep_the_schema_version_and_the_claim_names_it(desk, alice, bob) -> None:
    """Rules, *Jobs*."""
    job = desk.job(alice, schema=SCHEMA)
    desk.submit(bob, job)
    desk.job(alice, schema="{}", replace=True)
    desk.submit(bob, job)
    assert [task.schema_version for task in desk.claim(alice, limit=2)] == [1, 2]


def test_every_version_of_a_schema_is_kept(desk, alice) -> None:
    desk.job(alice, schema=SCHEMA)
    desk.job(alice, schema="{}", replace=True)
    kept = desk.read("SELECT version, schema FROM job_schema ORDER BY version")
    assert kept == [(1, SCHEMA), (2, "{}")]


def test_a_category_that_is_not_allowed_is_refused(desk, alice) -> None:
    """Contract, *Jobs*: 400 ``invalid-category``."""
    for category in ("unheard-of", "", "a:b"):
        with pytest.raises(InvalidCategory):
            desk.job(alice, category=category)


@pytest.mark.parametrize("name", ["", "a:b", "a/b", " a", "..", "a\x00b", "x" * 256])
def test_a_bad_name_is_refused(desk, alice, name) -> None:
    """Contract, *Jobs*: 422 ``validation-error`` for a name."""
    with pytest.raises(ValidationFailed):
        desk.job(alice, name)


def test_jobs_of_one_name_in_two_rooms_are_two_jobs(desk, alice) -> None:
    one, other = desk.job(alice, room_id="r1"), desk.job(alice, room_id="r2", schema=SCHEMA)
    assert one.id != other.id


# --- hiding and coming back -----------------------------------------------------------------------


def test_a_job_is_hidden_when_its_last_worker_leaves(desk, alice, bob, rotate) -> None:
    """Contract, *Workers*: an orphan job is hidden in the same transaction; C17."""
    desk.leave(alice)
    assert desk.listed(bob) == []


def test_a_job_stays_listed_while_another_worker_serves_it(desk, alice, bob, rotate) -> None:
    desk.job(bob)
    desk.leave(alice)
    assert desk.listed(bob) == [rotate.full_name]


def test_a_job_stays_listed_while_a_task_waits(desk, alice, bob, rotate) -> None:
    """Contract, *The sweep*: orphan: no live worker *and* no unfinished task."""
    desk.submit(bob, rotate)
    desk.leave(alice)
    assert desk.listed(bob) == [rotate.full_name]


def test_a_hidden_job_is_still_found_with_when_it_was_last_seen(desk, alice, bob, rotate) -> None:
    """Contract, *Jobs*: with ``workers: []`` and ``last_seen``; C17."""
    beat = desk.now()
    desk.beat(alice)
    desk.wait(10)
    desk.leave(alice)
    view = desk.show(bob, rotate.full_name)
    assert view.workers == ()
    assert view.last_seen is not None
    assert beat <= view.last_seen < desk.now()


def test_a_crashed_workers_job_shows_no_live_worker_and_when_it_was_seen(
    desk, alice, bob, rotate
) -> None:
    """C17: after a crash ``workers`` is empty as soon as the timeout has passed."""
    desk.wait(61)
    view = desk.show(bob, rotate.full_name)
    assert view.workers == ()
    assert view.last_seen is not None


def test_a_hidden_job_comes_back_as_new_with_another_schema(desk, alice, bob) -> None:
    """Contract, *Jobs*; C19: 201, and old tasks keep the version they were checked by."""
    job = desk.job(alice, schema=SCHEMA)
    old = desk.submit(bob, job)
    desk.run_one(alice)
    desk.report(alice, old, "completed")
    desk.leave(alice)
    back = desk.register(bob, schema="{}")
    assert back.created
    assert (back.view.job.id, back.view.job.schema_version) == (job.id, 2)
    assert desk.get(bob, old).schema_version == 1
    assert desk.listed(bob) == [job.full_name]


def test_a_hidden_job_comes_back_as_new_with_an_equal_schema(desk, alice, bob, rotate) -> None:
    desk.leave(alice)
    back = desk.register(bob)
    assert back.created
    assert back.view.job.schema_version == 1


def test_a_submission_to_a_job_without_live_workers_waits(desk, alice, bob, rotate) -> None:
    """Rules, *Jobs*: 202, it waits."""
    desk.wait(500)
    task = desk.submit(bob, rotate)
    assert task.status == "pending"
    assert desk.claim_one(alice).id == task.id


def test_a_submission_to_a_hidden_job_lists_it_again(desk, alice, bob, rotate) -> None:
    """Rules, *Jobs*: to a hidden job: 202, and it is listed again; C16."""
    desk.leave(alice)
    task = desk.submit(bob, rotate)
    assert desk.listed(bob) == [rotate.full_name]
    desk.register(bob)
    assert desk.claim_one(bob).id == task.id
