"""Which server a client speaks to: what it was given, the environment, or a profile file."""

from __future__ import annotations

import errno
import os
import stat
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from jobroom.client import address
from jobroom.errors import ConfigurationError

OPEN_TO_OTHERS = stat.S_IRWXG | stat.S_IRWXO


@dataclass(frozen=True, slots=True)
class Place:
    """A server's address, and the token to be known there."""

    url: str
    token: str | None


def path() -> Path:
    """Return where the profiles are kept."""
    folder = os.environ.get("XDG_CONFIG_HOME")
    try:
        return Path(folder or Path.home() / ".config") / "jobroom" / "profiles.toml"
    except RuntimeError:
        raise ConfigurationError(
            "There is no home folder to look for profiles in: set HOME, or JOBROOM_URL and"
            " JOBROOM_TOKEN."
        ) from None


def opened(file: Path) -> IO[bytes]:
    """Open the profiles to read them; never waits, as it would for who writes into a pipe."""

    def plain(path: str, flags: int) -> int:
        descriptor = os.open(path, flags | getattr(os, "O_NONBLOCK", 0))
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise OSError(errno.EINVAL, "it is no regular file")
        return descriptor

    return open(file, "rb", opener=plain)


def place_of(url: str | None, token: str | None, profile: str | None) -> Place:
    """Return the server and the token for it; ``ConfigurationError`` says what to set.

    What was given comes before the environment, and that before the profile file. The token of a
    profile never goes to another address than that profile's.
    """
    place = _found(url, token, profile)
    address.check(place.url)
    return place


def _found(url: str | None, token: str | None, profile: str | None) -> Place:
    found = token or os.environ.get("JOBROOM_TOKEN") or None
    given = url or (None if profile else os.environ.get("JOBROOM_URL"))
    if given:
        return Place(given, found)
    named, file = profile or os.environ.get("JOBROOM_PROFILE"), path()
    if not named and not _is_there(file):
        raise ConfigurationError(
            "There is no server to speak to: set JOBROOM_URL (and JOBROOM_TOKEN), or write the"
            f" profile [default] with url and token into {file}."
        )
    kept = _profile(named or "default", file)
    return Place(kept.url, token or kept.token or found)


def _is_there(file: Path) -> bool:
    try:
        file.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True  # and reading it tells what is wrong
    return True


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
        with opened(file) as kept:
            if os.name == "posix" and os.fstat(kept.fileno()).st_mode & OPEN_TO_OTHERS:
                raise ConfigurationError(
                    f"{file} holds tokens and is open to others: run  chmod 600 {file}"
                )
            return tomllib.load(kept)
    except FileNotFoundError:
        raise ConfigurationError(f"There is no {file}: write it, mode 600.") from None
    except OSError as failure:
        raise ConfigurationError(f"{file} cannot be read: {failure.strerror}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError):
        # The text of the failure may hold a part of a token.
        raise ConfigurationError(f"{file} is no TOML: write it as [default], url, token.") from None
