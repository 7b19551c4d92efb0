"""Pages of lists: their parameters, and cursors that carry their filters."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from typing import TYPE_CHECKING, Any, NamedTuple

from jobroom.domain import names
from jobroom.domain.lifecycle import TaskStatus
from jobroom.errors import FieldError, ValidationFailed
from jobroom.http import fitting, render
from jobroom.http.routespec import Query
from jobroom.store.lists import COUNT_LIMIT

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jobroom.domain.records import TaskView
    from jobroom.http.exchange import Call

DEFAULT_LIMIT = 50
LARGEST_LIMIT = 500
LARGEST_OFFSET = 1_000_000
LARGEST_SEQ = 2**62
MARK_DIGITS = 16

PARAMETERS = (
    Query(
        "limit",
        "How many items at most.",
        {"type": "integer", "minimum": 0, "maximum": LARGEST_LIMIT, "default": DEFAULT_LIMIT},
    ),
    Query(
        "offset",
        "How many items to leave out first; not with a cursor.",
        {"type": "integer", "minimum": 0, "maximum": LARGEST_OFFSET, "default": 0},
    ),
    Query(
        "cursor",
        "The next_cursor of the page before; it carries the filters.",
        {"type": "string", "minLength": 1},
    ),
)
FILTERS = (
    Query(
        "status",
        "Only tasks in these states.",
        {"type": "array", "items": {"type": "string", "enum": [s.value for s in TaskStatus]}},
    ),
    Query("created_by_id", "Only tasks of this identity."),
)

KINDS: dict[str, type] = {
    "tasks": int,
    "jobs": int,
    "workers": str,
    "graph": int,
    "rooms": str,
    "schedules": str,
}
"""The lists, each with what its cursors go by."""


class Page(NamedTuple):
    """Which part of which list: by offset, or after the item that a cursor names."""

    mark: str
    limit: int
    offset: int
    after: Any = None
    filters: dict[str, Any] = {}  # noqa: RUF012 - a named tuple's default, never changed


class TaskPage(NamedTuple):
    """Which tasks a list shows, and which part of them."""

    mark: str
    limit: int
    offset: int
    before: int | None
    statuses: tuple[str, ...]
    full_name: str | None
    created_by_id: str | None


def one(call: Call, name: str) -> str | None:
    """A query parameter that may be sent once."""
    values = call.query().get(name)
    if values is None:
        return None
    if len(values) > 1:
        raise _refused(name, "is sent more than once")
    return values[0]


def flag(call: Call, name: str) -> bool:
    """A query parameter that is ``true`` or ``false``."""
    text = one(call, name)
    if text not in (None, "true", "false"):
        raise _refused(name, "must be true or false")
    return text == "true"


def _whole(call: Call, name: str, default: int, largest: int) -> int:
    text = one(call, name)
    if text is None:
        return default
    if not (
        text.isascii()
        and text.isdigit()
        and len(text) <= len(str(largest))
        and int(text) <= largest
    ):
        raise _refused(name, f"must be a whole number from 0 to {largest}")
    return int(text)


def number(call: Call, name: str, *, default: int, largest: int) -> int:
    """A query parameter that is a whole number up to ``largest``."""
    return _whole(call, name, default, largest)


def page(call: Call, kind: str) -> Page:
    """The parameters ``limit``, ``offset`` and ``cursor``; both of the last two are too many."""
    limit = _whole(call, "limit", DEFAULT_LIMIT, LARGEST_LIMIT)
    cursor, mark = one(call, "cursor"), _mark_of(call, kind)
    if cursor is None:
        return Page(mark, limit, _whole(call, "offset", 0, LARGEST_OFFSET))
    if one(call, "offset") is not None:
        raise _refused("cursor", "and offset exclude each other")
    after, filters = _read_cursor(cursor, kind, mark)
    return Page(mark, limit, 0, after, filters)


def _mark_of(call: Call, kind: str) -> str:
    """That of the list which the address names; what else it says is a filter."""
    parts: dict[str, str] = call.scope["path_params"]
    task_id = parts.get("task_id")
    named = None if task_id is None else names.parse_task_id(task_id)
    return list_mark(kind, named or parts.get("room_id", ""))


def list_mark(kind: str, subject: str) -> str:
    """What a list's cursors begin with: they go back to that list and to no other's address.

    ``subject`` is the room or the task whose list it is, and empty where it is nobody's.
    """
    return hashlib.sha256(f"{kind}:{subject}".encode(errors="replace")).hexdigest()[:MARK_DIGITS]


def task_page(call: Call, full_name: str | None) -> TaskPage:
    """The parameters of a list of tasks; what a cursor carries need not be sent again."""
    asked = page(call, "tasks")
    statuses = _statuses(call)
    created_by_id = one(call, "created_by_id")
    if created_by_id is not None and not _is_text(created_by_id):
        created_by_id = ""  # whom nobody is
    before = asked.after
    if before is not None:
        sent = _filters(statuses, full_name, created_by_id)
        if any(value not in (None, [], asked.filters.get(key)) for key, value in sent.items()):
            raise _refused("cursor", "belongs to a list with other filters")
        statuses = tuple(asked.filters["status"])
        full_name, created_by_id = asked.filters["job"], asked.filters["created_by_id"]
    return TaskPage(
        asked.mark, asked.limit, asked.offset, before, statuses, full_name, created_by_id
    )


def _statuses(call: Call) -> tuple[str, ...]:
    values = [text for value in call.query().get("status", ()) for text in value.split(",")]
    known = {status.value for status in TaskStatus}
    if not set(values) <= known:
        raise _refused("status", f"must be of {', '.join(TaskStatus)}")
    return tuple(sorted(set(values)))


def _filters(
    statuses: Sequence[str], full_name: str | None, created_by_id: str | None
) -> dict[str, Any]:
    return {"status": list(statuses), "job": full_name, "created_by_id": created_by_id}


def task_page_document(
    asked: TaskPage, views: list[TaskView], total: int, *, most_bytes: int | None = None
) -> dict[str, Any]:
    """A page of tasks; one view more than asked for means that there is a next page.

    It ends early where it would become too long.
    """
    items = fitting.fill_page(
        (render.task_document(view, in_list=True) for view in views[: asked.limit]),
        lambda n: fitting.task(views[n], fitting.Left.REST),
        most_bytes,
    )
    cursor = None
    if len(views) > len(items) > 0:
        filters = _filters(asked.statuses, asked.full_name, asked.created_by_id)
        cursor = _cursor(asked.mark, views[len(items) - 1].task.seq, filters)
    return render.page(
        items,
        total=min(total, COUNT_LIMIT),
        limit=asked.limit,
        offset=asked.offset,
        next_cursor=cursor,
        total_capped=total > COUNT_LIMIT,
    )


def page_document(
    kind: str,
    asked: Page,
    items: list[Any],
    total: int,
    *,
    key: Callable[[Any], Any],
    show: Callable[..., Any],
    shorter: Callable[..., Any] | None = None,
    most_bytes: int | None = None,
) -> dict[str, Any]:
    """A page of a list whose cursor is ``key`` of its last item; it ends before it is too long."""
    shown = fitting.fill_page(
        (show(item) for item in items[: asked.limit]),
        lambda n: (shorter or show)(items[n]),
        most_bytes,
    )
    last = key(items[len(shown) - 1]) if len(items) > len(shown) > 0 else None
    # What another hand has put in the place of a name is none that a cursor could carry.
    cursor = _cursor(asked.mark, last, {}) if last and _is_place(last, kind) else None
    return render.page(
        shown,
        total=total,
        limit=asked.limit,
        offset=asked.offset,
        next_cursor=cursor,
    )


def cursor_after(asked: Page, after: int | str) -> str:
    """The cursor of a list without filters that goes on behind an item."""
    return _cursor(asked.mark, after, {})


def _cursor(mark: str, after: int | str, filters: dict[str, Any]) -> str:
    text = json.dumps([mark, after, filters], separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _read_cursor(cursor: str, kind: str, mark: str) -> tuple[Any, dict[str, Any]]:
    """Where to go on, and the filters; cursors come from outside and may be made up."""
    try:
        text = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        of, after, filters = json.loads(text)
        # A lone surrogate is no text: no store can look for it.
        json.dumps([after, filters], ensure_ascii=False).encode()
    except (ValueError, TypeError, RecursionError, binascii.Error) as error:
        raise _refused("cursor", "is not one that this list gave") from error
    if of != mark or not (_is_place(after, kind) and _are_filters(filters, kind)):
        raise _refused("cursor", "is not one that this list gave")
    return after, filters


def _is_place(after: object, kind: str) -> bool:
    if KINDS[kind] is str:
        return _is_text(after)
    return type(after) is int and 0 <= after <= LARGEST_SEQ


def _is_text(value: object) -> bool:
    """No NUL: no store holds one, and PostgreSQL cannot even be asked for it."""
    return isinstance(value, str) and "\0" not in value


def _are_filters(filters: object, kind: str) -> bool:
    if kind != "tasks" or not isinstance(filters, dict):
        return filters == {}
    statuses = filters.get("status")
    return (
        filters.keys() == {"status", "job", "created_by_id"}
        and isinstance(statuses, list)
        and all(status in tuple(TaskStatus) for status in statuses)
        # Each of them once, as we write them: a status more is a search more.
        and statuses == sorted(set(statuses))
        and all(
            filters[name] is None or _is_text(filters[name]) for name in ("job", "created_by_id")
        )
    )


def _refused(name: str, why: str) -> ValidationFailed:
    fault = FieldError(f"/{name}", why)
    return ValidationFailed(f"The query parameter {name} {why}.", errors=(fault,))
