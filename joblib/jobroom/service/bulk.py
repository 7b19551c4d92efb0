"""Submitting many tasks in one transaction, once per idempotency key."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from jobroom.domain.jsontext import pointer_to
from jobroom.domain.records import KEY_LIFE, Caller, TaskView
from jobroom.errors import FieldError, TaskExists
from jobroom.service import planning, planting, submission
from jobroom.service.new_task import NewTask
from jobroom.service.planning import Asked
from jobroom.service.use_case import reads, writes
from jobroom.store import edges, late_keys, planned, weaving
from jobroom.store.transaction import Transaction

if TYPE_CHECKING:
    from collections.abc import Sequence


class SubmittedTasks(NamedTuple):
    """The tasks in the order of the request, and whether an earlier one had made them already.

    ``has_new_key``: that one had no idempotency key, and the one of this is yet to be kept.
    """

    views: list[TaskView]
    replayed: bool = False
    has_new_key: bool = False


@writes
def submit_tasks(
    tx: Transaction,
    *,
    caller: Caller,
    room_id: str,
    asked: Sequence[Asked],
    key: str | None = None,
) -> SubmittedTasks | None:
    """Add tasks, all or none; None if a job has changed since it was read: read them again.

    ``key`` is the request's idempotency key; with one, or where a task has an id chosen by the
    client, all tasks have the fingerprint of the request. Raises what ``submission.submit_task``
    raises.
    """
    submission.check_may_submit(caller, room_id)
    edges.lock(tx)
    known = _known_from_now_on(tx, caller, [each.new for each in asked], key)
    if known is not None:
        return known
    keys = _keys(key, asked[0].new.fingerprint, len(asked))
    added = planting.add_tasks(
        tx,
        caller=caller,
        asked=[
            each._replace(new=each.new._replace(idempotency_key=mark))
            for each, mark in zip(asked, keys, strict=True)
        ],
        describe=partial(submission.columns, caller=caller, room_id=room_id),
        # Whatever has one of them has lived its time, or the request would be known.
        old_keys=[each for each in keys if each is not None],
    )
    return None if added is None else SubmittedTasks(added)


@reads
def find_repeat(
    tx: Transaction, *, caller: Caller, news: Sequence[NewTask], key: str | None
) -> SubmittedTasks | None:
    """The tasks that the same request made before, whatever became of their jobs since."""
    return _known(tx, caller, news, key)


@writes
def keep_key(
    tx: Transaction, *, caller: Caller, news: Sequence[NewTask], key: str | None
) -> SubmittedTasks | None:
    """As ``find_repeat``, and ``submission.keep_key``."""
    edges.lock(tx)
    return _known_from_now_on(tx, caller, news, key)


def _known_from_now_on(
    tx: Transaction, caller: Caller, news: Sequence[NewTask], key: str | None
) -> SubmittedTasks | None:
    """What is known of the request; a key that has just come with it is known with it."""
    known = _known(tx, caller, news, key)
    if known is None or not known.has_new_key or key is None:
        return known
    marks = [view.task.idempotency_key or "" for view in known.views]
    late_keys.keep_all(tx, identity=caller.identity, marks=marks, key=key)
    return known._replace(has_new_key=False)


def _keys(key: str | None, fingerprint: str | None, count: int) -> list[str | None]:
    """What the tasks of a request are known by: the first by its key, the others by their place.

    No client's key has a line feed in it. As each task has one, retention leaves them all alone
    for as long as the key lives.
    """
    if fingerprint is None:
        return [None] * count
    places = [f"{key or ''}\n{fingerprint}\n{n}" for n in range(count)]
    return [key or places[0], *places[1:]]


def _known(
    tx: Transaction, caller: Caller, news: Sequence[NewTask], key: str | None
) -> SubmittedTasks | None:
    """What the same request made before, or the error that it was another request."""
    fingerprint = news[0].fingerprint
    if fingerprint is None:
        # Our own, whose answer was lost between the store and us.
        views = planned.get_all(tx, planning.new_ids(tx, news)) if tx.is_repeat else []
        return SubmittedTasks(views) if views else None
    if key is not None:
        first = weaving.get_by_keys(tx, identity=caller.identity, keys=[key]).get(key)
        if first is not None and first.task.created_at > tx.now - KEY_LIFE:
            if first.task.fingerprint != fingerprint:
                raise submission.key_reused()
            return _replayed(tx, caller, news, key)
    known = _known_by_ids(tx, caller, news)
    if known is None or key is None:
        return known
    unkept = _keys(None, fingerprint, len(news))
    has_none = [view.task.idempotency_key for view in known.views] == unkept
    is_young = known.views[0].task.created_at > tx.now - KEY_LIFE
    return known._replace(has_new_key=has_none and is_young)


def _known_by_ids(
    tx: Transaction, caller: Caller, news: Sequence[NewTask]
) -> SubmittedTasks | None:
    chosen = {new.id: n for n, new in enumerate(news) if new.id is not None}
    views = planned.get_all(tx, list(chosen))
    for task in (view.task for view in views):
        if (task.created_by_id, task.fingerprint) != (caller.identity, news[0].fingerprint):
            message = f"A task with the id {task.id} exists already, from another request."
            raise _exists(message, chosen[task.id])
    if not views:
        return None
    # It may have come with another key, or with none.
    return _replayed(tx, caller, news, (views[0].task.idempotency_key or "").partition("\n")[0])


def _replayed(tx: Transaction, caller: Caller, news: Sequence[NewTask], key: str) -> SubmittedTasks:
    keys = [each or "" for each in _keys(key or None, news[0].fingerprint, len(news))]
    found = weaving.get_by_keys(tx, identity=caller.identity, keys=keys)
    chosen = planned.get_all(tx, [new.id for new in news if new.id is not None])
    by_id = {view.task.id: view for view in chosen}
    views = []
    for n, (mark, new) in enumerate(zip(keys, news, strict=True)):
        view = found.get(mark) or by_id.get(new.id or "")
        if view is None:
            raise _exists("This request came before, and some of its tasks are gone.", n)
        views.append(view)
    is_own = tx.is_repeat and views[0].task.id == planning.new_ids(tx, news)[0]
    return SubmittedTasks(views, replayed=not is_own)


def _exists(message: str, n: int) -> TaskExists:
    return TaskExists(message, errors=(FieldError(pointer_to("tasks", n, "id"), message),))
