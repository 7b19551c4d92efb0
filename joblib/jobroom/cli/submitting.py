"""``jobroom submit, run``: a task from what is typed, checked by the job's own schema."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jobroom.cli import exits, target, watching
from jobroom.cli.target import AsJson
from jobroom.cli.watching import Timeout
from jobroom.domain.lifecycle import TaskStatus
from jobroom.errors import JobNotFound, PayloadInvalid

if TYPE_CHECKING:
    from jobroom.cli.server import Server

Json = dict[str, Any]

Job = Annotated[
    str, typer.Argument(metavar="JOB", help="The job's full name, r1:modifiers:Rotate.")
]
Fields = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[FIELD=VALUE...]",
        help="angle=90 (as the schema's type), flag:=true (JSON), a.b=1, text=@FILE; a whole"
        " payload: @FILE.json, - (stdin), '{...}'.",
    ),
]
Room = Annotated[
    str | None, typer.Option(help="The room that the task belongs to; without it the job's own.")
]
Priority = Annotated[int | None, typer.Option(help="The higher, the earlier.")]
RunAt = Annotated[
    str | None, typer.Option(metavar="TIME", help="Not before: 2026-12-01T08:00:00Z.")
]
ExpiresAt = Annotated[
    str | None, typer.Option(metavar="TIME", help="Fails if it has not started by then.")
]
MaxAttempts = Annotated[int | None, typer.Option(min=1, help="How often it may be started.")]
TimeoutSeconds = Annotated[
    float | None, typer.Option(help="How long it may run; the server ends it then.")
]
DependsOn = Annotated[
    list[str] | None, typer.Option(metavar="ID", help="Waits for this task; may be repeated.")
]
Key = Annotated[
    str | None,
    typer.Option("--key", help="Idempotency key: submitting twice with it makes one task."),
]
Unchecked = Annotated[
    bool, typer.Option("--unchecked", help="Let the server alone judge the fields.")
]


@dataclass(frozen=True, slots=True)
class Order:
    """What is to be submitted, as it was typed."""

    job: str
    fields: list[str]
    room: str | None
    options: Json
    key: str | None
    unchecked: bool

    @property
    def place(self) -> str:
        """The room that the task belongs to."""
        return self.job.partition(":")[0] if self.room is None else self.room


def submit(
    ctx: typer.Context,
    job: Job,
    fields: Fields = None,
    *,
    room: Room = None,
    priority: Priority = None,
    run_at: RunAt = None,
    expires_at: ExpiresAt = None,
    max_attempts: MaxAttempts = None,
    timeout_seconds: TimeoutSeconds = None,
    depends_on: DependsOn = None,
    key: Key = None,
    unchecked: Unchecked = False,
    as_json: AsJson = False,
) -> None:
    """Submit a task and print its id."""
    from jobroom.cli import printing

    options = {
        "priority": priority,
        "run_at": run_at,
        "expires_at": expires_at,
        "max_attempts": max_attempts,
        "timeout_seconds": timeout_seconds,
        "depends_on": depends_on,
    }
    order = Order(job, fields or [], room, options, key, unchecked)
    with exits.told(interrupted=lambda: _half_done(order)), target.server(ctx) as server:
        task = _submit(server, order)
        if as_json:
            printing.say_json(task)
        else:
            typer.echo(task["id"])


def run(
    ctx: typer.Context,
    job: Job,
    fields: Fields = None,
    *,
    room: Room = None,
    priority: Priority = None,
    max_attempts: MaxAttempts = None,
    timeout_seconds: TimeoutSeconds = None,
    depends_on: DependsOn = None,
    key: Key = None,
    unchecked: Unchecked = False,
    timeout: Timeout = None,
    as_json: AsJson = False,
) -> None:
    """Submit a task, watch it (on stderr), and print its result as JSON.

    Exit code 1 if it fails or is cancelled, 124 if the timeout passes; Ctrl-C leaves it running.
    """
    options = {
        "priority": priority,
        "max_attempts": max_attempts,
        "timeout_seconds": timeout_seconds,
        "depends_on": depends_on,
    }
    order = Order(job, fields or [], room, options, key, unchecked)
    with exits.told(interrupted=lambda: _half_done(order)), target.server(ctx) as server:
        server.give_up_after(timeout)
        task = _submit(server, order)
        with exits.told(interrupted=lambda: watching.goes_on([task["id"]])):
            ended = _to_its_end(server, task)
            _show_end(server, ended, as_json=as_json)
    raise typer.Exit(watching.code_of([ended]))


def _submit(server: Server, order: Order) -> Json:
    from jobroom.cli import fields

    try:
        job = server.job(order.job, room=order.room)
    except JobNotFound:
        if not order.unchecked:
            raise
        job = {"schema": {}}  # a job that nobody serves now may be hidden, and still take tasks
    schema = job["schema"] if isinstance(job["schema"], dict) else {}
    try:
        payload = fields.payload_of(order.fields, schema)
        if job.get("validate", True) and not order.unchecked:
            fields.check(payload, schema)
        task = {name: value for name, value in order.options.items() if value is not None}
        return server.submit(order.place, order.job, {"payload": payload, **task}, key=order.key)
    except PayloadInvalid as fault:
        message = f"{fault} Its fields: jobroom jobs {order.job}"
        raise PayloadInvalid(message, errors=fault.errors) from None


def _half_done(order: Order) -> str:
    return f"interrupted: jobroom list {order.place} shows whether the task was submitted."


def _to_its_end(server: Server, task: Json) -> Json:
    from jobroom.cli import display, printing

    server.be_patient()
    out = printing.console(stderr=True, moving=True)
    (ended,) = watching.follow(server, [task["id"]], display.display_for(out))
    return ended


def _show_end(server: Server, task: Json, *, as_json: bool) -> None:
    """Print the result, or say what the task came to."""
    from jobroom.cli import printing
    from jobroom.client import outcome

    if as_json:
        printing.say_json(task)
    elif task["status"] == TaskStatus.COMPLETED:
        printing.say_json(server.result_of(task))
    elif (failure := outcome.failure_of(task)) is not None:
        typer.echo(f"jobroom: {printing.clean(failure)}", err=True)
