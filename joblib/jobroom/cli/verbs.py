"""What was typed wrong, told in one sentence like any other error."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import typer
from typer.core import TyperGroup
from typer.exceptions import Abort, TyperException

from jobroom.cli import exits, streams

BEFORE_THE_VERB = ("--url", "--token-file", "--profile", "--version")


class Verbs(TyperGroup):
    """The verbs; a mistyped option ends with one sentence and exit code 2."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        """Run the verb that was typed, and end the program with its code."""
        how = (complete_var, False, windows_expand_args)
        if not standalone_mode:
            return super().main(args, prog_name, *how, **extra)
        with streams.guarded():
            try:
                code = super().main(args, prog_name or "jobroom", *how, **extra)
                sys.stdout.flush()
            except TyperException as wrong:
                sys.exit(_told(wrong))
            except Abort:
                exits.say("interrupted.")
                sys.exit(exits.Code.INTERRUPTED)
            except streams.Unwritten as unwritten:
                if not unwritten.is_unread:
                    exits.say(str(unwritten))
                sys.exit(exits.Code.FAILED)
            sys.exit(code if isinstance(code, int) else exits.Code.OK)


def _told(wrong: TyperException) -> int:
    ctx = getattr(wrong, "ctx", None)
    if type(wrong).__name__ == "NoArgsIsHelpError":
        typer.echo(str(wrong), nl=bool(str(wrong)))  # where rich has not printed it already
        return exits.Code.USAGE
    option = getattr(wrong, "option_name", None)
    if option in BEFORE_THE_VERB:
        exits.say(f"{option} stands before the verb: jobroom {option} ... VERB.")
    else:
        path = "jobroom" if ctx is None else ctx.command_path
        exits.say(f"{wrong.format_message().rstrip('.')}; {path} --help tells what can be typed.")
    return exits.Code.USAGE
