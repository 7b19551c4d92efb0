"""Which server the verbs speak to: the global options, the environment, or a profile."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from jobroom.errors import ConfigurationError

if TYPE_CHECKING:
    from jobroom.cli.server import Server
    from jobroom.client.profile import Place

AsJson = Annotated[
    bool, typer.Option("--json", help="Print the API's own documents, for programs.")
]


@dataclass(frozen=True, slots=True)
class Target:
    """What the global options say."""

    url: str | None = None
    token_file: Path | None = None
    profile: str | None = None

    def place(self) -> Place:
        """Return the server and the token; ``ConfigurationError`` says what to set."""
        from jobroom.client import profile

        token = None if self.token_file is None else _token_in(self.token_file)
        return profile.place_of(self.url, token, self.profile)


def target_of(ctx: typer.Context) -> Target:
    """Return what the global options said."""
    found = ctx.find_object(Target)
    return Target() if found is None else found


@contextmanager
def server(ctx: typer.Context, *, patient: bool = False) -> Iterator[Server]:
    """Open the way to the server; ``patient`` bears that it is away for a while."""
    from jobroom.cli import outages
    from jobroom.cli.server import Server
    from jobroom.client.connection import Connection

    outages.tell_people()
    place = target_of(ctx).place()
    with Connection(place.url, place.token) as connection:
        yield Server(connection, patient=patient)


def _token_in(file: Path) -> str:
    try:
        token = file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as failure:
        why = getattr(failure, "strerror", None) or "it is no text"
        raise ConfigurationError(f"The token file {file} cannot be read: {why}.") from None
    if not token:
        raise ConfigurationError(f"The token file {file} is empty: put the token into it.")
    return token
