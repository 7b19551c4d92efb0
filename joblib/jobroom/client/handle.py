"""A submitted task, to be waited for, watched and cancelled."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from jobroom.client import outcome, waiting, watching
from jobroom.client.call import Json
from jobroom.client.drive import Driver
from jobroom.client.rules import Rules
from jobroom.client.watching import Progress

if TYPE_CHECKING:  # who blocks needs no event loop
    from jobroom.client.async_drive import AsyncDriver

R = TypeVar("R")


class Known:
    """What is known of a task without asking."""

    def __init__(self, task: Json) -> None:
        self._seen = task

    @property
    def id(self) -> str:
        """The task's id."""
        return str(self._seen["id"])

    @property
    def job(self) -> str:
        """The full name of its job."""
        return str(self._seen["job_name"])

    @property
    def room(self) -> str:
        """The room that it was submitted in."""
        return str(self._seen["room_id"])

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id} of {self.job}>"


class TaskHandle(Known, Generic[R]):
    """A task, asked about in the colour that blocks."""

    def __init__(self, rules: Rules, driver: Driver, task: Json, returns: Any = None) -> None:
        super().__init__(task)
        self._rules = rules
        self._driver = driver
        self._returns = outcome.adapter_of(returns)

    def wait(self, timeout: float | None = None) -> Json:
        """Return the task, as the server shows it, when it has ended.

        Bears resets, gateways and a server that is away. Raises ``TimeoutError`` when ``timeout``
        seconds are over; the task goes on.
        """
        return self._driver.run(waiting.wait(self._rules.line, self.id, timeout=timeout))

    def result(self, timeout: float | None = None) -> R:
        """Return the task's result when it has completed.

        Raises ``TaskFailed`` or ``TaskWasCancelled`` with what was said of it, ``TimeoutError``
        when ``timeout`` seconds are over, ``ResultMismatch`` if it is not of the type asked for.
        """
        flow = waiting.result(self._rules.line, self.id, timeout=timeout, returns=self._returns)
        found: R = self._driver.run(flow)
        return found

    def show(self) -> Json:
        """Return the task as the server shows it now."""
        return self._driver.run(self._rules.task(self.id))

    def status(self) -> str:
        """Return the task's status."""
        return str(self.show()["status"])

    def cancel(self) -> Json:
        """Cancel the task; ``InvalidTaskTransition`` if it has ended otherwise."""
        return self._driver.run(self._rules.cancel(self.id))

    def retry(self, *, dry_run: bool = False) -> Json:
        """Put a failed or cancelled task back to work, with what failed because of it."""
        return self._driver.run(self._rules.retry(self.id, dry_run=dry_run))

    def progress(self) -> Iterator[Progress]:
        """Yield how far the task is, each time that changes, until it has ended."""
        return self._driver.iterate(watching.progress(self._rules.line, self.id))

    def log(self, *, follow: bool = False, attempt: int | None = None) -> Iterator[str]:
        """Yield the pieces of the log of an attempt, the newest without ``attempt``.

        With ``follow`` until the task has ended, over its later attempts if none was named.
        """
        flow = watching.log(self._rules.line, self.id, follow=follow, attempt=attempt)
        return self._driver.iterate(flow)


class AsyncTaskHandle(Known, Generic[R]):
    """A task, asked about from an event loop."""

    def __init__(self, rules: Rules, driver: AsyncDriver, task: Json, returns: Any = None) -> None:
        super().__init__(task)
        self._rules = rules
        self._driver = driver
        self._returns = outcome.adapter_of(returns)

    async def wait(self, timeout: float | None = None) -> Json:  # noqa: ASYNC109  # as in the other colour
        """Return the task, as the server shows it, when it has ended; see ``TaskHandle.wait``."""
        return await self._driver.run(waiting.wait(self._rules.line, self.id, timeout=timeout))

    async def result(self, timeout: float | None = None) -> R:  # noqa: ASYNC109  # as in the other colour
        """Return the task's result when it has completed; see ``TaskHandle.result``."""
        flow = waiting.result(self._rules.line, self.id, timeout=timeout, returns=self._returns)
        found: R = await self._driver.run(flow)
        return found

    async def show(self) -> Json:
        """Return the task as the server shows it now."""
        return await self._driver.run(self._rules.task(self.id))

    async def status(self) -> str:
        """Return the task's status."""
        return str((await self.show())["status"])

    async def cancel(self) -> Json:
        """Cancel the task; ``InvalidTaskTransition`` if it has ended otherwise."""
        return await self._driver.run(self._rules.cancel(self.id))

    async def retry(self, *, dry_run: bool = False) -> Json:
        """Put a failed or cancelled task back to work, with what failed because of it."""
        return await self._driver.run(self._rules.retry(self.id, dry_run=dry_run))

    def progress(self) -> AsyncIterator[Progress]:
        """Yield how far the task is, each time that changes, until it has ended."""
        return self._driver.iterate(watching.progress(self._rules.line, self.id))

    def log(self, *, follow: bool = False, attempt: int | None = None) -> AsyncIterator[str]:
        """Yield the pieces of the task's log; see ``TaskHandle.log``."""
        flow = watching.log(self._rules.line, self.id, follow=follow, attempt=attempt)
        return self._driver.iterate(flow)
