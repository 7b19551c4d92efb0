"""Who stands in line in a job, in the order of claims, and who is still to come."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import bindparam, select

from jobroom.store.statement import literal

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement, Select
    from sqlalchemy.sql.selectable import NamedFromClause

    Conditions = tuple[ColumnElement[bool], ...]


def ready(one: NamedFromClause[Any], job_seq: ColumnElement[int]) -> Conditions:
    """A task of a job that may be claimed: those that ``ix_task_ready`` holds."""
    return one.c.job_seq == job_seq, *_pending(one, is_ready=1)


def delayed(one: NamedFromClause[Any], job_seq: ColumnElement[int]) -> Conditions:
    """A task of a job whose time has not come: those that ``ix_task_delayed`` holds."""
    return one.c.job_seq == job_seq, *_pending(one, is_ready=0)


def due(one: NamedFromClause[Any], job_seq: ColumnElement[int]) -> Conditions:
    """A delayed task of a job whose time has come by now."""
    return *delayed(one, job_seq), one.c.run_at <= bindparam("now")


def in_order(
    one: NamedFromClause[Any], job_seq: ColumnElement[int], *columns: ColumnElement[Any]
) -> Select[Any]:
    """These columns of the tasks of a job that may be claimed, in the order of claims."""
    return (
        select(*columns)
        .where(*ready(one, job_seq))
        .order_by(one.c.priority.desc(), one.c.turn, one.c.seq)
    )


def _pending(one: NamedFromClause[Any], *, is_ready: int) -> Conditions:
    return one.c.status == literal("pending"), one.c.ready == literal(is_ready)
