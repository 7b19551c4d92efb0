"""Many tasks in one transaction (contract, *Tasks*; issue 4)."""

from __future__ import annotations

import pytest

from jobroom.errors import (
    DependencyCycle,
    DependencyNotFound,
    IdempotencyKeyReused,
    JobroomError,
    TaskExists,
)
from jobroom.service import bulk
from jobroom.service.planning import Asked
from jobroom.service.submission import NewTask

AN_ID = "0190163d-8694-739b-aea5-966c26f8ad91"
ANOTHER = "0190163d-8694-739b-aea5-966c26f8ad92"
DAY = 24 * 3600
TABLES = ("task", "edge", "fair_turn", "job")


def submitted(desk, caller, job, *news, key=None, room_id="r1"):
    asked = [Asked(new, job, ("tasks", n)) for n, new in enumerate(news)]
    said = {"caller": caller, "room_id": room_id, "key": key}
    return desk.queue.run(bulk.submit_tasks, asked=asked, **said)


def submit(desk, caller, job, *news, **more):
    return [view.task for view in submitted(desk, caller, job, *news, **more).views]


def chain(length, **said):
    """Each but the first depends on the one before it."""
    return [
        NewTask(depends_on=((n - 1, "afterok"),) if n else (), key=f"k{n}", **said)
        for n in range(length)
    ]


def rows(desk):
    counts = [desk.read(f"SELECT count(*) FROM {name}")[0][0] for name in TABLES]  # noqa: S608 - our own names
    return [*counts, desk.read("SELECT coalesce(sum(version), 0) FROM task")[0][0]]


def test_tasks_are_added_in_the_order_of_the_request(desk, alice, rotate) -> None:
    made = submit(desk, alice, rotate, *[NewTask(f'{{"n":{n}}}') for n in range(20)])
    assert [task.payload for task in made] == [f'{{"n":{n}}}' for n in range(20)]
    assert [task.seq for task in made] == sorted(task.seq for task in made)
    assert [task.id for task in desk.claim(alice, limit=20)] == [task.id for task in made]


def test_ids_are_of_version_7_and_differ(desk, alice, rotate) -> None:
    made = submit(desk, alice, rotate, *[NewTask() for _ in range(100)])
    assert len({task.id for task in made}) == 100
    assert {task.id[14] for task in made} == {"7"}


def test_a_chain_runs_in_its_order(desk, alice, rotate) -> None:
    made = submit(desk, alice, rotate, *reversed_chain(5))
    assert [task.status for task in made] == [*["blocked"] * 4, "pending"]
    for expected in reversed(made):
        assert desk.run_one(alice).id == expected.id
        desk.report(alice, expected, "completed")


def reversed_chain(length):
    """Each but the last depends on the one behind it."""
    return [
        NewTask(depends_on=((n + 1, "afterok"),) if n < length - 1 else ()) for n in range(length)
    ]


def test_a_task_keeps_its_key(desk, alice, rotate) -> None:
    assert [task.key for task in submit(desk, alice, rotate, *chain(3))] == ["k0", "k1", "k2"]


def test_what_depends_on_one_that_fails_at_once_fails_with_it(desk, alice, rotate) -> None:
    gone = desk.submit(alice, rotate)
    desk.report(alice, gone, "cancelled")
    first, *rest = chain(3)
    news = [first._replace(depends_on=((gone.id, "afterok"),)), *rest]
    news.append(NewTask(depends_on=((0, "afternotok"),)))
    made = submit(desk, alice, rotate, *news)
    assert [task.status for task in made] == ["failed", "failed", "failed", "pending"]
    assert [task.failed_by for task in made] == [gone.id, made[0].id, made[1].id, None]


def test_a_cycle_is_refused_by_its_keys(desk, alice, rotate) -> None:
    """Acceptance C39: a cycle A→B→A in one bulk call: 422 naming the cycle."""
    news = [
        NewTask(key="a", depends_on=((1, "afterok"),)),
        NewTask(key="b", depends_on=((0, "afterok"),)),
        NewTask(key="c", depends_on=((0, "afterok"),)),
    ]
    before = rows(desk)
    with pytest.raises(DependencyCycle, match="'a' → 'b' → 'a'") as caught:
        submit(desk, alice, rotate, *news)
    pointers = [fault.pointer for fault in caught.value.errors]
    assert pointers == ["/tasks/0/depends_on/0", "/tasks/1/depends_on/0"]
    assert rows(desk) == before


def test_of_a_long_cycle_some_are_named(desk, alice, rotate) -> None:
    first, *rest = chain(1000)
    news = [first._replace(depends_on=((999, "afterok"),)), *rest]
    with pytest.raises(DependencyCycle, match=r"… \(991 more\)") as caught:
        submit(desk, alice, rotate, *news)
    assert len(str(caught.value)) < 300
    assert rows(desk)[:2] == [0, 0]


def test_an_unknown_dependency_refuses_all(desk, alice, rotate) -> None:
    news = [NewTask(), NewTask(depends_on=((0, "afterok"), (AN_ID, "afterok")))]
    before = rows(desk)
    with pytest.raises(DependencyNotFound) as caught:
        submit(desk, alice, rotate, *news)
    assert [fault.pointer for fault in caught.value.errors] == ["/tasks/1/depends_on/1"]
    assert rows(desk) == before


def test_a_job_that_has_changed_refuses_all(desk, alice, rotate) -> None:
    other = desk.job(alice, "Other")
    desk.job(alice, description="changed")
    asked = [Asked(NewTask(), other), Asked(NewTask(), rotate)]
    before = rows(desk)
    done = desk.queue.run(bulk.submit_tasks, caller=alice, room_id="r1", asked=asked)
    assert (done, rows(desk)) == (None, before)


def test_jobs_may_differ_and_hidden_ones_are_listed_again(desk, alice, bob, rotate) -> None:
    desk.leave(alice)
    other = desk.job(bob, "Other")
    hidden = desk.show(bob, rotate.full_name).job
    asked = [Asked(NewTask(), hidden), Asked(NewTask(depends_on=((0, "afterok"),)), other)]
    done = desk.queue.run(bulk.submit_tasks, caller=bob, room_id="r1", asked=asked)
    assert [view.job_name for view in done.views] == [rotate.full_name, other.full_name]
    assert rotate.full_name in desk.listed(bob)


def test_rooms_take_turns_in_a_fair_job(desk, admin) -> None:
    """Contract: start-time fair queueing, also for what comes in bulk."""
    job = desk.job(admin, room_id="@global", claim_order="fair")
    submit(desk, admin, job, *[NewTask() for _ in range(4)], room_id="a")
    submit(desk, admin, job, *[NewTask() for _ in range(2)], room_id="b")
    rooms = [task.room_id for task in desk.claim(admin, limit=6)]
    assert rooms == ["a", "b", "a", "b", "a", "a"]


def test_children_in_bulk_are_waited_for(desk, alice, rotate) -> None:
    desk.submit(alice, rotate)
    running = desk.run_one(alice)
    waits = desk.submit(alice, rotate, depends_on=((running.id, "afterok"),))
    made = submit(desk, alice, rotate, *[NewTask(parent=running.id) for _ in range(3)])
    desk.report(alice, running, "completed")
    for child in made:
        assert desk.get(alice, waits).status == "blocked"
        desk.run_one(alice)
        desk.report(alice, child, "completed")
    assert desk.get(alice, waits).status == "pending"


def test_a_cycle_through_stored_tasks_is_refused(desk, alice, rotate) -> None:
    """A new task, whose child is waited for by what it depends on itself."""
    desk.submit(alice, rotate)
    running = desk.run_one(alice)
    waits = desk.submit(alice, rotate, depends_on=((running.id, "afterok"),))
    news = [
        NewTask(key="child", parent=running.id, depends_on=((1, "afterok"),)),
        NewTask(key="between", depends_on=((waits.id, "afterok"),)),
    ]
    before = rows(desk)
    with pytest.raises(DependencyCycle, match="between") as caught:
        submit(desk, alice, rotate, *news)
    assert "/tasks/0/parent" in [fault.pointer for fault in caught.value.errors]
    assert rows(desk) == before


def test_one_that_depends_on_what_waits_is_no_cycle_beside_a_child(desk, alice, rotate) -> None:
    desk.submit(alice, rotate)
    running = desk.run_one(alice)
    waits = desk.submit(alice, rotate, depends_on=((running.id, "afterok"),))
    news = [NewTask(parent=running.id), NewTask(depends_on=((waits.id, "afterok"),))]
    made = submit(desk, alice, rotate, *news)
    assert [task.status for task in made] == ["pending", "blocked"]


# --- once -------------------------------------------------------------------------------------


def test_the_same_key_gives_the_same_tasks_as_they_are_now(desk, alice, rotate) -> None:
    """Rules, *Idempotency*."""
    news = chain(5, fingerprint="f")
    first = submit(desk, alice, rotate, *news, key="k")
    desk.run_one(alice)
    desk.report(alice, first[0], "completed")
    again = submitted(desk, alice, rotate, *news, key="k")
    assert again.replayed
    assert [view.task.id for view in again.views] == [task.id for task in first]
    assert [view.task.status for view in again.views] == ["completed", "pending", *["blocked"] * 3]


def test_the_same_key_with_other_tasks_is_refused(desk, alice, rotate) -> None:
    submit(desk, alice, rotate, *chain(2, fingerprint="f"), key="k")
    with pytest.raises(IdempotencyKeyReused):
        submit(desk, alice, rotate, *chain(2, fingerprint="g"), key="k")
    with pytest.raises(IdempotencyKeyReused):
        desk.submit(alice, rotate, idempotency_key="k", fingerprint="h")


def test_the_same_tasks_with_another_key_are_others(desk, alice, rotate) -> None:
    news = chain(3, fingerprint="f")
    first = submit(desk, alice, rotate, *news, key="k")
    second = submit(desk, alice, rotate, *news, key="l")
    assert not {task.id for task in first} & {task.id for task in second}


def test_a_key_lives_for_24_hours(desk, alice, rotate) -> None:
    news = chain(3, fingerprint="f")
    first = submit(desk, alice, rotate, *news, key="k")
    desk.wait(DAY - 10)
    assert submitted(desk, alice, rotate, *news, key="k").replayed
    desk.wait(11)
    second = submit(desk, alice, rotate, *news, key="k")
    assert not {task.id for task in first} & {task.id for task in second}
    assert submit(desk, alice, rotate, *news, key="k") == second


def test_retention_leaves_all_of_them_while_the_key_lives(desk, alice) -> None:
    """Rules, *Idempotency*: retention never removes a task while its key lives."""
    job = desk.job(alice, result_ttl_seconds=1)
    news = [NewTask(fingerprint="f") for _ in range(3)]
    first = submit(desk, alice, job, *news, key="k")
    for task in desk.claim(alice, limit=3, start=True):
        desk.report(alice, task, "completed")
    desk.wait(3600)
    desk.sweep()
    again = submitted(desk, alice, job, *news, key="k")
    assert [view.task.id for view in again.views] == [task.id for task in first]


def test_chosen_ids_make_a_repeat_safe(desk, alice, rotate) -> None:
    news = [
        NewTask(fingerprint="f"),
        NewTask(id=AN_ID, fingerprint="f", depends_on=((0, "afterok"),)),
    ]
    first = submit(desk, alice, rotate, *news)
    again = submitted(desk, alice, rotate, *news)
    assert first[1].id == AN_ID
    assert again.replayed
    assert [view.task.id for view in again.views] == [task.id for task in first]
    with_key = submitted(desk, alice, rotate, *news, key="k")
    assert [view.task.id for view in with_key.views] == [task.id for task in first]


def test_a_key_that_comes_with_known_ids_is_remembered(desk, alice, rotate) -> None:
    """Rules, *Idempotency*: for all of the tasks, however they are asked for again."""
    news = [*chain(600, fingerprint="f"), NewTask(id=AN_ID, fingerprint="f")]
    ids = [task.id for task in submit(desk, alice, rotate, *news)]
    for key in ("k", "k", None, "l", "k"):
        again = submitted(desk, alice, rotate, *news, key=key)
        assert ([view.task.id for view in again.views], again.replayed) == (ids, True)
    with pytest.raises(IdempotencyKeyReused):
        submit(desk, alice, rotate, *chain(2, fingerprint="g"), key="k")
    with pytest.raises(IdempotencyKeyReused):
        desk.submit(alice, rotate, idempotency_key="k", fingerprint="h")
    desk.wait(DAY)
    assert submit(desk, alice, rotate, *chain(2, fingerprint="g"), key="k")[0].id not in ids


def test_chosen_ids_that_are_taken_refuse_all(desk, alice, bob, rotate) -> None:
    desk.submit(alice, rotate, id=AN_ID, fingerprint="f")
    news = [NewTask(id=ANOTHER, fingerprint="g"), NewTask(id=AN_ID, fingerprint="g")]
    before = rows(desk)
    for caller in (alice, bob):
        with pytest.raises(TaskExists, match=AN_ID) as caught:
            submit(desk, caller, rotate, *news)
        assert [fault.pointer for fault in caught.value.errors] == ["/tasks/1/id"]
    assert rows(desk) == before


def test_a_repeat_of_which_some_tasks_are_gone_says_so(desk, alice, rotate) -> None:
    news = [NewTask(id=AN_ID, fingerprint="f"), NewTask(fingerprint="f")]
    made = submit(desk, alice, rotate, *news)
    desk.write(f"DELETE FROM task WHERE id = '{made[1].id}'")  # noqa: S608 - our own id
    with pytest.raises(TaskExists, match="gone"):
        submit(desk, alice, rotate, *news)


@pytest.mark.only_on("libsql", "postgresql")
@pytest.mark.parametrize("key", [None, "k"])
def test_tasks_whose_answer_was_lost_are_found_again(desk, alice, rotate, key) -> None:
    """Design, *The write path*: a lost reply is looked up and never repeated blindly."""
    news = chain(3, fingerprint="f" if key else None)
    asked = [Asked(new, rotate, ("tasks", n)) for n, new in enumerate(news)]
    times = []

    def again(tx):
        times.append(tx.is_repeat)
        done = bulk.submit_tasks(tx, caller=alice, room_id="r1", asked=asked, key=key)
        if not tx.is_repeat:
            tx.commit()
            tx.kept = True
            raise lost(desk.queue)
        return done

    done = desk.queue.run(again)
    assert (times, done.replayed) == ([False, True], False)
    assert [view.task.key for view in done.views] == ["k0", "k1", "k2"]
    assert rows(desk)[:2] == [3, 2]


@pytest.mark.only_on("libsql", "postgresql")
@pytest.mark.parametrize("claimed", [0, 1])
def test_what_nobody_could_be_told_of_is_taken_back(desk, alice, rotate, claimed) -> None:
    """But not what somebody has claimed by then."""
    asked = [Asked(new, rotate) for new in chain(4)]
    undo = []

    def submit_it(tx):
        bulk.submit_tasks(tx, caller=alice, room_id="r1", asked=asked)
        undo.append(tx.undo)

    desk.queue.run(submit_it)
    desk.claim(alice, limit=claimed or 1) if claimed else None
    desk.queue.run(undo[0])
    assert rows(desk)[:2] == [claimed, 0]


@pytest.mark.only_on("libsql", "postgresql")
def test_nothing_is_taken_back_that_others_wait_for(desk, alice, rotate) -> None:
    asked = [Asked(new, rotate) for new in chain(2)]
    made = []

    def submit_it(tx):
        done = bulk.submit_tasks(tx, caller=alice, room_id="r1", asked=asked)
        made.append((done.views[1].task, tx.undo))

    desk.queue.run(submit_it)
    last, undo = made[0]
    desk.submit(alice, rotate, depends_on=((last.id, "afterok"),))
    before = rows(desk)
    desk.queue.run(undo)
    assert rows(desk) == before


def lost(queue):
    """The error of a store that is lost while it is at work."""
    if type(queue.database).__name__ == "LibSQL":
        from jobroom.store.hrana.errors import Error

        return Error("the answer was lost", applied=None)
    from jobroom.store.postgres_session import PerhapsKeptError

    return PerhapsKeptError("the answer was lost")


def test_a_refusal_beside_others_undoes_nothing_of_theirs(desk, alice, rotate) -> None:
    """A refusal comes before the first write: the group that it is in goes on."""
    news = [NewTask(depends_on=((AN_ID, "afterok"),))]

    def both(tx):
        done = bulk.submit_tasks(tx, caller=alice, room_id="r1", asked=[Asked(NewTask(), rotate)])
        dirty = tx.dirty
        with pytest.raises(JobroomError):
            bulk.submit_tasks(tx, caller=alice, room_id="r1", asked=[Asked(news[0], rotate)])
        assert tx.dirty == dirty
        return done

    assert desk.queue.run(both).views[0].task.status == "pending"


def test_1000_tasks_with_many_edges_are_added_at_once(desk, alice, rotate, tally) -> None:
    """Contract: up to 1,000 in one transaction."""
    news = [
        NewTask(
            '{"angle":1}',
            depends_on=tuple((n - back, "afterok") for back in range(1, min(n, 19) + 1)),
        )
        for n in range(1000)
    ]
    made = submit(desk, alice, rotate, *news)
    assert (len(made), made[0].status, made[999].status) == (1000, "pending", "blocked")
    count = desk.read("SELECT count(*) FROM edge")[0][0]
    tally(tasks=len(made), edges=count)
    assert count == 18_810
