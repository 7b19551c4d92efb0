"""Which server a client speaks to: what it was given, the environment, or a profile file."""

from __future__ import annotations

import os
import stat
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jobroom.errors import ConfigurationError

OPEN_TO_OTHERS = stat.S_IRWXG | stat.S_IRWXO


@dataclass(frozen=True, slots=True)
class Place:
    """A server's address, and the token to be known there."""

    url: str
    token: str | None


def path() -> Path:
    """Return where the profiles are kept."""
    home = os.environ.get("XDG_CONFIG_HOME")
    folder = Path(home) if home else Path.home() / ".config"
    return folder / "jobroom" / "profiles.toml"


def place_of(url: str | None, token: str | None, profile: str | None) -> Place:
    """Return the server and the token for it; ``ConfigurationError`` says what to set.

    What was given comes before the environment, and that before the profile file. The token of a
    profile never goes to another address than that profile's.
    """
    found = token or os.environ.get("JOBROOM_TOKEN") or None
    address = url or (None if profile else os.environ.get("JOBROOM_URL"))
    if address:
        return Place(address, found)
    named, file = profile or os.environ.get("JOBROOM_PROFILE"), path()
    if not named and not file.exists():
        raise ConfigurationError(
            "There is no server to speak to: set JOBROOM_URL (and JOBROOM_TOKEN), or write the"
            f" profile [default] with url and token into {file}."
        )
    kept = _profile(named or "default", file)
    return Place(kept.url, token or kept.token or found)


def _profile(name: str, file: Path) -> Place:
    kept = _read(file).get(name)
    if not isinstance(kept, dict):
        raise ConfigurationError(f"{file} has no profile [{name}]: add it, with url and token.")
    url, token = kept.get("url"), kept.get("token")
    if not isinstance(url, str) or not isinstance(token, str | None):
        raise ConfigurationError(f"The profile [{name}] of {file} needs url and token as strings.")
    return Place(url, token)


def _read(file: Path) -> dict[str, Any]:
    try:
        with file.open("rb") as opened:
            if os.name == "posix" and os.fstat(opened.fileno()).st_mode & OPEN_TO_OTHERS:
                raise ConfigurationError(
                    f"{file} holds tokens and is open to others: run  chmod 600 {file}"
                )
            return tomllib.load(opened)
    except FileNotFoundError:
        raise ConfigurationError(f"There is no {file}: write it, mode 600.") from None
    except OSError as failure:
        raise ConfigurationError(f"{file} cannot be read: {failure.strerror}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError):
        # The text of the failure may hold a part of a token.
        raise ConfigurationError(f"{file} is no TOML: write it as [default], url, token.") from None
