"""``jobroom profile``: servers and tokens kept under a name, in a file for its owner alone."""

from __future__ import annotations

import getpass
import json
import os
import re
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Annotated

import typer

from jobroom.cli import exits
from jobroom.errors import ConfigurationError, ValidationFailed

NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
HEADER = re.compile(r"\s*\[")

app = typer.Typer(help="Servers and tokens, kept under a name.", no_args_is_help=True)


@app.command("set")
def set_profile(
    name: Annotated[str, typer.Argument(help="The profile's name; default is used by itself.")],
    *,
    url: Annotated[str, typer.Option(help="The server's address, http://host:port.")],
    token_stdin: Annotated[
        bool, typer.Option("--token-stdin", help="Read the token from stdin.")
    ] = False,
) -> None:
    """Keep a server's address, and a token for it, under a name."""
    with exits.told():
        from jobroom.client import address, connection, profile

        if NAME.fullmatch(name) is None:
            raise ValidationFailed(
                f"The name {name!r} cannot be a profile's: use letters, digits, - and _."
            )
        token = _token_from_stdin() if token_stdin else None
        address.check(url)
        connection.bearer(token)  # refuses what no request can be made with
        file = profile.path()
        _write(file, name, url, token)
        use = "it is used by itself" if name == "default" else f"use it with --profile {name}"
        exits.say(f"the profile {name} is in {file}; {use}.")


def _token_from_stdin() -> str:
    if sys.stdin is not None and sys.stdin.isatty():
        # Not echoed: a terminal is recorded, and looked at by others.
        token = getpass.getpass("Paste the token and press Enter: ").strip()
    else:
        token = "" if sys.stdin is None else _piped().strip()
    if not token:
        raise ValidationFailed("There is no token on stdin: pipe it in.")
    return token


def _piped() -> str:
    try:
        return sys.stdin.read()
    except (OSError, UnicodeDecodeError) as failure:
        why = getattr(failure, "strerror", None) or "it is no text"
        raise ValidationFailed(f"stdin cannot be read: {why}.") from None


def _write(file: Path, name: str, url: str, token: str | None) -> None:
    """Write the profile, whole or not at all; the others stay as they are."""
    lines = [f"[{name}]", f"url = {json.dumps(url)}"]
    lines += [] if token is None else [f"token = {json.dumps(token)}"]
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        kept = _without(name, _text_of(file))
        text = "\n".join([*kept, *([""] if kept else []), *lines, ""])
        tomllib.loads(text)
        # Never open to others, not for a moment: mkstemp makes it 0600.
        handle, new = tempfile.mkstemp(dir=file.parent, prefix=".profiles-")
        with os.fdopen(handle, "w", encoding="utf-8") as opened:
            opened.write(text)
            os.fsync(opened.fileno())
        Path(new).replace(file)
    except (OSError, UnicodeDecodeError) as failure:
        why = getattr(failure, "strerror", None) or "it is no text"
        raise ConfigurationError(f"{file} cannot be written: {why}.") from None
    except tomllib.TOMLDecodeError:
        # The text of the failure may hold a part of a token.
        raise ConfigurationError(f"{file} is no TOML: mend it, or move it away.") from None


def _text_of(file: Path) -> str:
    from jobroom.client import profile

    try:
        with profile.opened(file) as kept:
            return kept.read().decode()
    except FileNotFoundError:
        return ""


def _without(name: str, text: str) -> list[str]:
    """Return the lines of the other profiles."""
    kept: list[str] = []
    ours = False
    for line in text.splitlines():
        if HEADER.match(line):
            ours = line.split("#")[0].strip() == f"[{name}]"
        if not ours:
            kept.append(line)
    while kept and not kept[-1].strip():
        kept.pop()
    return kept
