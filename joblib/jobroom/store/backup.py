"""A whole copy of a SQLite file that is in use, by SQLite's own backup."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from jobroom.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable

    from jobroom.store.sqlite_file import SQLiteFile

STEP_PAGES = 256


class Pages(NamedTuple):
    """How many pages of the file are copied."""

    done: int
    total: int


def back_up(database: SQLiteFile, path: Path, tell: Callable[[Pages], None]) -> int:
    """Make ``path`` a copy of one moment of the database; how many bytes it has.

    The file appears under its name when it is whole, checked and on the disk. Raises
    ConfigurationError where there is one already, or it cannot be made.
    """
    if path.exists():
        raise _taken(path)
    draft = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        # Whoever may not read the database may not read its copy.
        os.close(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        try:
            _copy(database, draft, tell)
            _check(draft)
            draft.chmod(database.path.stat().st_mode & 0o777)
            _sync(draft)
            _name(draft, path)
        finally:
            draft.unlink(missing_ok=True)
        _sync(path.parent)
        return path.stat().st_size
    except OSError as error:
        message = f"The backup {path} cannot be made ({error.strerror})."
        raise ConfigurationError(message) from error
    except sqlite3.Error as error:
        message = f"The backup {path} cannot be made ({error}): check that its disk has room."
        raise ConfigurationError(message) from error


def _copy(database: SQLiteFile, draft: Path, tell: Callable[[Pages], None]) -> None:
    with (
        closing(database.connect(read_only=True)) as source,
        closing(sqlite3.connect(draft, isolation_level=None)) as target,
    ):
        # Nobody else sees the draft, and nothing of it is kept unless it is whole.
        target.execute("PRAGMA journal_mode = OFF")
        target.execute("PRAGMA synchronous = OFF")
        # One moment for all of it: without it each commit of others makes SQLite begin anew.
        database.begin(source, write=False)
        source.execute("SELECT count(*) FROM sqlite_master").fetchone()
        source.backup(
            target,
            pages=STEP_PAGES,
            progress=lambda _status, left, total: tell(Pages(total - left, total)),
            sleep=0,
        )


def _check(draft: Path) -> None:
    # As a file that nobody changes: else SQLite would put a log beside it.
    place = f"{draft.absolute().as_uri()}?mode=ro&immutable=1"
    with closing(sqlite3.connect(place, uri=True)) as copy:
        found = copy.execute("PRAGMA quick_check(1)").fetchone()[0]
    if found != "ok":
        message = f"The database is damaged, and so is a backup of it, which was not kept: {found}."
        raise ConfigurationError(" ".join(message.split()))


def _sync(path: Path) -> None:
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def _name(draft: Path, path: Path) -> None:
    """Give it its name; a link, not a rename, never replaces what has got there meanwhile."""
    try:
        os.link(draft, path)
    except FileExistsError as error:
        raise _taken(path) from error
    except OSError:  # a file system without links
        if path.exists():
            raise _taken(path) from None
        draft.rename(path)


def _taken(path: Path) -> ConfigurationError:
    return ConfigurationError(f"There is a {path} already: name a file that is not there.")
