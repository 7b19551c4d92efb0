"""``jobroom watch, wait``: follow tasks, or all that goes on in a room, until the end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jobroom.cli import exits, target
from jobroom.cli.target import AsJson
from jobroom.domain import names
from jobroom.domain.lifecycle import TaskStatus, is_terminal
from jobroom.errors import ValidationFailed

if TYPE_CHECKING:
    from jobroom.cli.display import Display
    from jobroom.cli.server import Server

Json = dict[str, Any]

Timeout = Annotated[
    float | None, typer.Option(min=0, help="Give up after so many seconds; the tasks go on.")
]
UNFINISHED = ("blocked", "pending", "claimed", "running")


def watch(
    ctx: typer.Context,
    targets: Annotated[
        list[str], typer.Argument(metavar="ID...|ROOM", help="Tasks by their ids, or one room.")
    ],
    *,
    timeout: Timeout = None,
    until_idle: Annotated[
        bool, typer.Option("--until-idle", help="A room: end when nothing is left to do in it.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Watch tasks, or a room, live: bars in a terminal, a line for each change elsewhere."""
    ids = [one for one in targets if names.parse_task_id(one) is not None]
    if not ids and len(targets) == 1:
        with exits.told(interrupted=_stopped), target.server(ctx) as server:
            server.give_up_after(timeout)
            _watch_room(server, targets[0], until_idle=until_idle, as_json=as_json)
        return
    with exits.told(interrupted=lambda: goes_on(targets)), target.server(ctx) as server:
        if len(ids) < len(targets):
            raise ValidationFailed("Name tasks by their ids, or one room alone.")
        server.give_up_after(timeout)
        ended = follow(server, ids, _bars(as_json=as_json))
    raise typer.Exit(code_of(ended))


def wait(
    ctx: typer.Context,
    task_ids: Annotated[list[str], typer.Argument(metavar="ID...", help="The tasks' ids.")],
    *,
    timeout: Timeout = None,
    as_json: AsJson = False,
) -> None:
    """Wait until tasks have ended, and say how; exit code 1 unless all have completed."""
    from jobroom.cli import display, printing

    with exits.told(interrupted=lambda: goes_on(task_ids)), target.server(ctx) as server:
        out = printing.console()
        shown = display.display_for(out, as_json=True) if as_json else display.Lines(out)
        server.give_up_after(timeout)
        ended = follow(server, task_ids, shown, only_ends=True)
    raise typer.Exit(code_of(ended))


def follow(
    server: Server, ids: Sequence[str], shown: Display, *, only_ends: bool = False
) -> list[Json]:
    """Show tasks until all have ended, and return them so; ``TimedOut`` when time is over."""
    from jobroom.cli import following

    seen: dict[str, Json] = {}
    with shown:
        for task in following.tasks(server, list(dict.fromkeys(ids)), until=server.until):
            server.be_patient()  # it was there: now it may be restarted
            seen[task["id"]] = task
            if is_terminal(task["status"]) or not only_ends:
                shown.show(task)
    left = [task for task in seen.values() if not is_terminal(task["status"])]
    if left:
        one = left[0]
        more = "" if len(left) == 1 else f", and {len(left) - 1} more"
        raise exits.TimedOut(
            f"The task {one['id']} has not ended within {server.seconds:g} s, it is"
            f" {one['status']}{more}; jobroom why {one['id']} tells what it waits for."
        )
    return list(seen.values())


def code_of(ended: Sequence[Json]) -> exits.Code:
    """Return the exit code for tasks that have ended."""
    done = all(task["status"] == TaskStatus.COMPLETED for task in ended)
    return exits.Code.OK if done else exits.Code.FAILED


def goes_on(ids: Sequence[str]) -> str:
    """Say what Ctrl-C leaves behind."""
    named = " ".join(ids)
    what = f"the task {named} goes on" if len(ids) == 1 else "the tasks go on"
    return (
        f"stopped watching, {what}: jobroom watch {named} follows again,"
        f" jobroom cancel {named} ends {'it' if len(ids) == 1 else 'them'}."
    )


def _stopped() -> str:
    return "stopped watching; the room's tasks go on."


def _bars(*, as_json: bool, endless: bool = False) -> Display:
    from jobroom.cli import display, printing

    return display.display_for(printing.console(moving=True), as_json=as_json, endless=endless)


def _watch_room(server: Server, room: str, *, until_idle: bool, as_json: bool) -> None:
    from jobroom.cli import following

    # No bars before the first answer: an error is then all that there is to see.
    server.stats(room)
    server.be_patient()
    was_idle = False
    with _bars(as_json=as_json, endless=True) as shown:
        for changed in following.room(server, room, until=server.until):
            for task in changed:
                shown.show(task)
            found = server.stats(room)
            shown.head(_headline(found))
            is_idle = not any(found["tasks"][status] for status in UNFINISHED)
            # What ended between the look and the count is seen by the next look.
            if until_idle and is_idle and was_idle:
                return
            was_idle = is_idle
    raise exits.TimedOut(f"The room {room} was watched for {server.seconds:g} s; its tasks go on.")


def _headline(found: Json) -> str:
    from jobroom.cli import printing

    counts = ", ".join(f"{count} {status}" for status, count in found["tasks"].items() if count)
    alive = printing.count_of(found["alive_workers"], "worker")
    return f"{found['room_id']}: {counts or 'no tasks'}; {alive} alive"
