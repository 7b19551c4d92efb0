"""The rooms that bind a token, as conditions of the store: given as a JSON array, ``rooms``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import Boolean, Text, bindparam, select
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

from jobroom.store.schema import job

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement
    from sqlalchemy.sql.selectable import NamedFromClause


class is_in_json(FunctionElement[bool]):  # noqa: N801 - written like a function of SQL
    """Whether a text is one of those in a JSON array."""

    type = Boolean()
    inherit_cache = True
    _is_implicitly_boolean = True  # or SQLite's compiler puts ``= 1`` behind it


@compiles(is_in_json)
def _is_in_json(element: is_in_json, compiler: Any, **kw: Any) -> str:
    text, array = (compiler.process(clause, **kw) for clause in element.clauses)
    return f"({text} IN (SELECT value FROM json_each({array})))"  # noqa: S608 - no user says this


@compiles(is_in_json, "postgresql")
def _is_in_json_postgresql(element: is_in_json, compiler: Any, **kw: Any) -> str:
    text, array = (compiler.process(clause, **kw) for clause in element.clauses)
    return f"({text} = ANY (ARRAY(SELECT jsonb_array_elements_text(CAST({array} AS JSONB)))))"


def is_room_of_token(room_id: ColumnElement[str]) -> ColumnElement[bool]:
    """The token is for this room, among others."""
    return is_in_json(room_id, bindparam("rooms", type_=Text))


def links_of_worker(links: NamedFromClause[Any], *, bound: bool) -> tuple[ColumnElement[bool], ...]:
    """The links of the worker that claims; ``bound``: those to jobs of the token's rooms alone."""
    of_worker = links.c.worker_id == bindparam("worker_id")
    return (of_worker, _is_to_job_of_token(links)) if bound else (of_worker,)


def _is_to_job_of_token(links: NamedFromClause[Any]) -> ColumnElement[bool]:
    # Looked up by its key for each link: of a join a planner may make one that reads all jobs.
    its_job = job.alias("its_job")
    room_id = (
        select(its_job.c.room_id)
        .where(its_job.c.seq == links.c.job_seq)
        .correlate(links)
        .scalar_subquery()
    )
    return is_room_of_token(room_id)
