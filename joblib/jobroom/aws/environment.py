"""What all calls of one execution environment share."""

from __future__ import annotations

import logging
import weakref
from typing import TYPE_CHECKING

from jobroom import logs
from jobroom.aws.emf import Reporter
from jobroom.errors import ConfigurationError

if TYPE_CHECKING:
    from jobroom.http.asgi import Application
    from jobroom.http.door import Door
    from jobroom.settings import JobLibSettings


TALKATIVE = ("botocore", "httpx", "mangum")
"""A line for each request, where the platform's log level is INFO; ours says what they say."""


class Environment:
    """The application of a process, and what is told of it: log lines and metrics."""

    def __init__(self, app: Application) -> None:
        self.app = app
        self._settings: JobLibSettings | None = None
        self._reporter: Reporter | None = None
        weakref.finalize(self, self.door.close)

    @property
    def door(self) -> Door:
        """The application's door."""
        door: Door = self.app.state.door
        return door

    def settings(self) -> JobLibSettings | None:
        """The settings, from the first call on; None where they do not fit.

        Then every answer that needs them says so, and the next call reads them again.
        """
        if self._settings is None:
            try:
                self._settings = self.door.settings
            except ConfigurationError:
                return None
            logs.let_logs_be_seen(self._settings.log_format)
            for name in TALKATIVE:
                logging.getLogger(name).setLevel(logging.WARNING)
        return self._settings

    @property
    def reporter(self) -> Reporter | None:
        """Who tells the metrics; None where nothing is set up."""
        settings = self.settings()
        if self._reporter is None and settings is not None:
            self._reporter = Reporter(settings.metrics_namespace)
        return self._reporter
