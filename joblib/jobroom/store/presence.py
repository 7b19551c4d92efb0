"""Whether a database file is there, found out without making it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from jobroom.errors import ConfigurationError

if TYPE_CHECKING:
    from jobroom.store.dialect import Database


def check(database: Database) -> None:
    """Refuse a file that is not there: to open it would make it. A server says so itself."""
    # Path's own tests would raise where one may not look; opening says that in a sentence.
    folder = os.path.dirname(database.location)  # noqa: PTH120 - as above
    if not database.is_at_hand or not os.access(folder, os.X_OK):
        return
    if not os.path.exists(database.location):  # noqa: PTH110 - as above
        message = (
            f"There is no database {database.location}: set ZNDRAW_JOBLIB_DATABASE_URL to the"
            " server's, or make this one with jobroom db upgrade."
        )
        raise ConfigurationError(message)
