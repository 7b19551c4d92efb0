"""``jobroom list, show, jobs, workers, rooms, stats, why``: look at what is there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jobroom.cli import exits, target
from jobroom.cli.target import AsJson
from jobroom.domain.lifecycle import TaskStatus

if TYPE_CHECKING:
    from rich.text import Text

    from jobroom.cli.server import Server

Json = dict[str, Any]
Row = Sequence["str | Text"]

Room = Annotated[str, typer.Argument(metavar="ROOM", help="The room.")]
TaskId = Annotated[str, typer.Argument(metavar="ID", help="The task's id.")]
Limit = Annotated[int, typer.Option(min=0, max=500, help="How many of the list.")]
Cursor = Annotated[str | None, typer.Option(help="Where a list goes on, as it was told.")]

TASK_HEADS = ("ID", "STATUS", "DONE", "JOB", "CREATED", "BY", "MESSAGE")
JOB_HEADS = ("JOB", "WORKERS", "DESCRIPTION")
WORKER_HEADS = ("WORKER", "ALIVE", "RUNNING", "JOBS", "LAST SEEN", "OWNER", "NAME")
ROOM_HEADS = ("ROOM", "JOBS", "WORKERS", "BLOCKED", "PENDING", "CLAIMED", "RUNNING", "FAILED")
LIVE = ("blocked", "pending", "claimed", "running")
FIRST_LINES = ("job_name", "room_id", "status", "progress", "message", "queue_position")
TIMES = ("created_at", "run_at", "claimed_at", "started_at", "completed_at", "expires_at")
LAST_LINES = ("created_by_id", "worker_id", "attempt", "max_attempts", "priority", "depends_on")


def list_tasks(
    ctx: typer.Context,
    room: Room,
    *,
    status: Annotated[TaskStatus | None, typer.Option(help="Only tasks that are so.")] = None,
    job: Annotated[str | None, typer.Option(help="Only this job's, by its full name.")] = None,
    created_by: Annotated[str | None, typer.Option(help="Only this identity's.")] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
    as_json: AsJson = False,
) -> None:
    """List a room's tasks, newest first."""
    query = {
        "status": None if status is None else status.value,
        "job": job,
        "created_by_id": created_by,
    }
    with exits.told(), target.server(ctx) as server:
        page = server.page("rooms", room, "tasks", limit=limit, cursor=cursor, **query)
        _show_page(page, TASK_HEADS, _task_row, as_json=as_json)


def show(
    ctx: typer.Context,
    task_id: TaskId,
    *,
    result: Annotated[
        bool, typer.Option("--result", help="Print the result alone, as JSON.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show a task, with its payload and its result."""
    from jobroom.cli import printing

    with exits.told(), target.server(ctx) as server:
        task = server.task(task_id)
        if result:
            printing.say_json(_result_alone(server, task))
        elif as_json:
            printing.say_json(task)
        else:
            _show_task(task)


def jobs(
    ctx: typer.Context,
    room_or_job: Annotated[
        str, typer.Argument(metavar="ROOM|JOB", help="A room, or a job's full name.")
    ],
    *,
    room: Annotated[
        str | None, typer.Option(help="The room that a @global job is looked at from.")
    ] = None,
    limit: Limit = 500,
    cursor: Cursor = None,
    as_json: AsJson = False,
) -> None:
    """List the jobs that a room sees, or show the fields of one."""
    from jobroom.cli import printing

    with exits.told(), target.server(ctx) as server:
        if ":" not in room_or_job:
            page = server.page("rooms", room_or_job, "jobs", limit=limit, cursor=cursor)
            _show_page(page, JOB_HEADS, _job_row, as_json=as_json)
            return
        job = server.job(room_or_job, room=room)
        if as_json:
            printing.say_json(job)
        else:
            show_job(job)


def workers(
    ctx: typer.Context,
    room: Annotated[
        str | None,
        typer.Argument(metavar="[ROOM]", help="Those of the jobs that a room sees; else your own."),
    ] = None,
    *,
    limit: Limit = 500,
    cursor: Cursor = None,
    as_json: AsJson = False,
) -> None:
    """List workers: whether they are alive, and what they do."""
    place = ("workers",) if room is None else ("rooms", room, "workers")
    with exits.told(), target.server(ctx) as server:
        page = server.page(*place, limit=limit, cursor=cursor)
        _show_page(page, WORKER_HEADS, _worker_row, as_json=as_json)


def rooms(
    ctx: typer.Context, *, limit: Limit = 500, cursor: Cursor = None, as_json: AsJson = False
) -> None:
    """List the rooms that the token sees, with what is to do in them."""
    with exits.told(), target.server(ctx) as server:
        page = server.page("rooms", limit=limit, cursor=cursor)
        _show_page(page, ROOM_HEADS, _room_row, as_json=as_json)


def stats(ctx: typer.Context, room: Room, *, as_json: AsJson = False) -> None:
    """Count what goes on in a room: tasks by job and status, live workers, the oldest wait."""
    from jobroom.cli import printing

    with exits.told(), target.server(ctx) as server:
        found = server.stats(room)
        if as_json:
            printing.say_json(found)
            return
        out = printing.console()
        wait = found.get("oldest_pending_seconds")
        waits = "" if wait is None else f", the oldest task waits for {printing.span(wait)}"
        alive = printing.count_of(found["alive_workers"], "worker")
        out.print(f"{found['room_id']}: {alive} alive{waits}")
        heads = ("JOB", "WORKERS", *(status.value.upper() for status in TaskStatus))
        printing.table(out, heads, [_stats_row("", found), *map(_job_stats_row, found["jobs"])])


def why(ctx: typer.Context, task_id: TaskId, *, as_json: AsJson = False) -> None:
    """Say in one sentence why a task is not running."""
    from jobroom.cli import printing

    with exits.told(), target.server(ctx) as server:
        found = server.why(task_id)
        if as_json:
            printing.say_json(found)
        else:
            typer.echo(printing.clean_line(found["reason"]))


def show_job(job: Mapping[str, Any]) -> None:
    """Print a job: what it is for, and the fields that a submission has."""
    from jobroom.cli import fieldtable, printing

    out = printing.console()
    said = f": {printing.clean_line(job['description'])}" if job.get("description") else ""
    out.print(f"{job['full_name']}{said}")
    out.print(f"{printing.count_of(job.get('alive_workers', 0), 'worker')} alive")
    rows = list(fieldtable.rows(job["schema"]))
    if rows:
        printing.table(out, fieldtable.HEADS, rows)
    else:
        out.print("The schema names no fields: any payload is taken.")


def _show_page(
    page: Json, heads: Sequence[str], row: Callable[[Json], Row], *, as_json: bool
) -> None:
    from jobroom.cli import printing

    if as_json:
        printing.say_json(page)
        return
    printing.table(printing.console(), heads, [row(item) for item in page["items"]])
    if page.get("next_cursor"):
        total = f"{page['total']}{' and more' if page.get('total_capped') else ''}"
        exits.say(f"{len(page['items'])} of {total}; the next: --cursor {page['next_cursor']}")


def _task_row(task: Json) -> Row:
    from jobroom.cli import printing

    return (
        task["id"],
        printing.styled(task["status"]),
        printing.percent(task),
        task["job_name"],
        printing.moment(task["created_at"]),
        task["created_by_id"],
        printing.first_line(task.get("error") or task.get("message") or ""),
    )


def _job_row(job: Json) -> Row:
    return (job["full_name"], str(job["alive_workers"]), job.get("description") or "")


def _worker_row(worker: Json) -> Row:
    from jobroom.cli import printing

    return (
        worker["id"],
        "yes" if worker["alive"] else "no",
        str(worker["running_tasks"]),
        str(worker["job_count"]),
        printing.moment(worker["last_heartbeat"]),
        worker["identity"],
        worker.get("name") or "",
    )


def _room_row(room: Json) -> Row:
    counts = [_count(room, status) for status in (*LIVE, "failed")]
    return (room["room_id"], str(room["jobs"]), str(room["alive_workers"]), *counts)


def _count(counted: Json, status: str) -> str:
    found = counted.get("tasks", counted).get(status)
    return "-" if found is None else f"{found}{'+' if status in counted.get('capped', ()) else ''}"


def _stats_row(name: str, found: Json) -> Row:
    counts = [_count(found, status.value) for status in TaskStatus]
    return (name or "all", str(found["alive_workers"]), *counts)


def _job_stats_row(job: Json) -> Row:
    return _stats_row(job["full_name"], job)


def _result_alone(server: Server, task: Json) -> Any:
    if task["status"] != TaskStatus.COMPLETED:
        raise exits.Negative(
            f"The task {task['id']} has no result: it is {task['status']};"
            f" jobroom show {task['id']} tells more."
        )
    return server.result_of(task)


def _show_task(task: Json) -> None:
    from jobroom.cli import printing

    out = printing.console()
    lines = list(_lines_of(task))
    width = max(len(name) for name, _ in lines)
    for name, value in lines:
        style = printing.STYLES.get(value) if name == "status" else None
        out.print(f"{name:<{width}}  {printing.clean_line(value)}", style=style)
    for name in ("payload", "result"):
        size = task.get(f"{name}_bytes")
        if task.get(name) is not None:
            out.print(f"{name}:\n{printing.pretty(task[name])}")
        elif size:
            out.print(f"{name}: {size} bytes, too long to show here")
    if task.get("error"):
        out.print(f"error:\n{printing.clean(task['error'])}")


def _lines_of(task: Json) -> Iterator[tuple[str, str]]:
    from jobroom.cli import printing

    yield "id", task["id"]
    told = {
        **task,
        "progress": printing.percent(task),
        **{name: printing.moment(task.get(name)) for name in TIMES},
        "depends_on": " ".join(task.get("depends_on") or ()),
    }
    for name in (*FIRST_LINES, *TIMES, *LAST_LINES):
        if (value := told.get(name)) not in (None, ""):
            yield name.removesuffix("_id").removesuffix("_name"), str(value)
