"""``jobroom schedule``: tasks that are submitted again and again."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jobroom.cli import exits, target
from jobroom.cli.target import AsJson

if TYPE_CHECKING:
    from jobroom.cli.server import Server

Json = dict[str, Any]

Room = Annotated[str, typer.Argument(metavar="ROOM", help="The room.")]
Name = Annotated[str, typer.Argument(metavar="NAME", help="The schedule's name.")]
Job = Annotated[
    str, typer.Argument(metavar="JOB", help="The job's full name, r1:modifiers:Rotate.")
]
Fields = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[FIELD=VALUE...]", help="The payload of each task, as for jobroom submit."
    ),
]
HEADS = ("NAME", "JOB", "WHEN", "BY", "LAST TASK", "LAST ERROR")
SAID = (
    "name",
    "job",
    "payload",
    "cron",
    "every_seconds",
    "timezone",
    "catch_up",
    "paused",
    "start_at",
    "end_at",
    "priority",
    "max_attempts",
    "timeout_seconds",
)
"""What a schedule is put with."""
LINES = (
    "room_id",
    "job",
    "catch_up",
    "start_at",
    "end_at",
    "priority",
    "max_attempts",
    "timeout_seconds",
    "created_by_id",
    "last_at",
    "last_task_id",
    "last_error",
)

app = typer.Typer(help="Schedules: tasks that are submitted again and again.", no_args_is_help=True)


class CatchUp(StrEnum):
    """What becomes of missed times."""

    ONE = "one"
    ALL = "all"
    SKIP = "skip"


@app.command("put")
def put(
    ctx: typer.Context,
    name: Name,
    job: Job,
    fields: Fields = None,
    *,
    cron: Annotated[
        str | None, typer.Option(help="When: '0 3 * * *' or @daily; either this or --every.")
    ] = None,
    every: Annotated[
        float | None, typer.Option(min=1, metavar="SECONDS", help="The interval in seconds.")
    ] = None,
    timezone: Annotated[str, typer.Option(help="The IANA zone of --cron.")] = "UTC",
    catch_up: Annotated[
        CatchUp, typer.Option(help="Missed times: one task for all, one each, or none.")
    ] = CatchUp.ONE,
    paused: Annotated[bool, typer.Option("--paused", help="Keep it without firing.")] = False,
    start_at: Annotated[
        str | None, typer.Option(metavar="TIME", help="Not before: 2026-12-01T08:00:00Z.")
    ] = None,
    end_at: Annotated[str | None, typer.Option(metavar="TIME", help="Not after.")] = None,
    room: Annotated[
        str | None, typer.Option(help="The room of its tasks; without it the job's own.")
    ] = None,
    priority: Annotated[int | None, typer.Option(help="The higher, the earlier.")] = None,
    max_attempts: Annotated[
        int | None, typer.Option(min=1, help="How often a task may be started.")
    ] = None,
    timeout_seconds: Annotated[
        float | None, typer.Option(help="How long a task may run; the server ends it then.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Make a schedule, or change the one of that name."""
    said: Json = {
        "name": name,
        "job": job,
        "cron": cron,
        "every_seconds": every,
        "timezone": timezone,
        "catch_up": catch_up.value,
        "paused": paused,
        "start_at": start_at,
        "end_at": end_at,
        "priority": priority,
        "max_attempts": max_attempts,
        "timeout_seconds": timeout_seconds,
    }
    place = job.partition(":")[0] if room is None else room
    with exits.told(), target.server(ctx) as server:
        spec = {key: value for key, value in said.items() if value is not None}
        spec["payload"] = _payload(server, place, job, fields or [])
        _tell(_put(server, place, spec), as_json=as_json)


@app.command("list")
def list_schedules(ctx: typer.Context, room: Room, *, as_json: AsJson = False) -> None:
    """List a room's schedules: when they fire, and what came of it."""
    from jobroom.cli import printing, schedule_words

    with exits.told(), target.server(ctx) as server:
        found = list(server.items("rooms", room, "schedules"))
        if as_json:
            printing.say_json(found)
            return
        rows = [
            (
                each["name"],
                each["job"],
                schedule_words.told(each),
                each["created_by_id"],
                each["last_task_id"] or "",
                printing.first_line(each["last_error"] or ""),
            )
            for each in found
        ]
        printing.table(printing.console(), HEADS, rows)


@app.command("show")
def show(ctx: typer.Context, room: Room, name: Name, *, as_json: AsJson = False) -> None:
    """Show a schedule and its next times."""
    with exits.told(), target.server(ctx) as server:
        found = _get(server, room, name)
        _tell(found, as_json=as_json, whole=True)


@app.command("remove")
def remove(ctx: typer.Context, room: Room, name: Name) -> None:
    """Take a schedule away; what it has submitted goes on."""
    from jobroom.client import endpoints

    with exits.told(), target.server(ctx) as server:
        server.ask(endpoints.remove_schedule(room, name))
        exits.say(f"the schedule {name} is gone.")


@app.command("pause")
def pause(ctx: typer.Context, room: Room, name: Name, *, as_json: AsJson = False) -> None:
    """Keep a schedule without firing."""
    with exits.told(), target.server(ctx) as server:
        _tell(_set_paused(server, room, name, paused=True), as_json=as_json)


@app.command("resume")
def resume(ctx: typer.Context, room: Room, name: Name, *, as_json: AsJson = False) -> None:
    """Let a paused schedule fire again; what it missed is caught up as it says."""
    with exits.told(), target.server(ctx) as server:
        _tell(_set_paused(server, room, name, paused=False), as_json=as_json)


def _payload(server: Server, room: str, job: str, typed: list[str]) -> Json:
    from jobroom.cli import fields

    found = server.job(job, room=room)
    schema = found["schema"] if isinstance(found["schema"], dict) else {}
    payload = fields.payload_of(typed, schema)
    if found.get("validate", True):
        fields.check(payload, schema)
    return payload


def _put(server: Server, room: str, spec: Json) -> Json:
    from jobroom.cli import shapes
    from jobroom.client import endpoints

    return server.ask(endpoints.put_schedule(room, spec), shape=shapes.SCHEDULE)


def _get(server: Server, room: str, name: str) -> Json:
    from jobroom.cli import shapes
    from jobroom.client import endpoints
    from jobroom.client.call import object_call

    path = endpoints.path_of("rooms", room, "schedules", name)
    return server.ask(object_call("GET", path, expect="name"), shape=shapes.SCHEDULE_SHOWN)


def _set_paused(server: Server, room: str, name: str, *, paused: bool) -> Json:
    found = _get(server, room, name)
    if found["payload"] is None:
        raise exits.Negative(
            f"The server left out the payload of {name}, so it cannot be put again as it is."
        )
    spec = {key: found[key] for key in SAID if found[key] is not None}
    return _put(server, room, {**spec, "paused": paused})


def _tell(found: Json, *, as_json: bool, whole: bool = False) -> None:
    from jobroom.cli import printing, schedule_words

    if as_json:
        printing.say_json(found)
        return
    out = printing.console()
    out.print(f"{printing.clean_line(found['name'])}: {schedule_words.told(found)}")
    if not whole:
        return
    for key in LINES:
        if found[key] is not None:
            value = printing.moment(found[key]) if key.endswith("_at") else found[key]
            out.print(f"{key}: {printing.clean_line(value)}")
    out.print(f"payload: {printing.pretty(found['payload'])}")
    for at in found["upcoming"]:
        out.print(f"next: {printing.moment(at)}")
