"""An interactive transaction over HTTP: a stream on the server, found again by its baton."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from jobroom.store.hrana import pipeline
from jobroom.store.hrana.errors import Error, OperationalError
from jobroom.store.hrana.pipeline import Call
from jobroom.store.hrana.sql import check_inside, may_write
from jobroom.store.hrana.transport import Result, Step
from jobroom.store.hrana.values import statement

if TYPE_CHECKING:
    from jobroom.store.hrana.http import HranaHttp


class HttpStream:
    """One transaction; the server forgets it after 10 s of silence, and undoes it.

    A reading one that comes to write takes a place among the writers then; where somebody else
    has written meanwhile, the server answers SQLITE_BUSY.
    """

    def __init__(self, transport: HranaHttp, *, write: bool) -> None:
        self._transport = transport
        self._write = write
        self._base = transport.base_url
        self._baton: str | None = None
        self._has_begun = False
        self._has_failed = False
        self._has_place = False
        self._is_over = False

    def run(self, steps: Sequence[Step]) -> list[Result]:
        """Run the steps in one round trip; the first call begins the transaction with it."""
        statements = self._prepare(steps)
        if not statements:
            return []
        self._take_place(steps)
        made = pipeline.chain(
            statements,
            begin=None if self._has_begun else self._begin,
            is_open=self._has_begun and self._has_failed,
        )
        # Whatever becomes of the answer: without a COMMIT nothing stays.
        entry = self._call([made.request], lost=False)[0]
        self._has_begun = self._has_begun or pipeline.has_begun(entry)
        try:
            results = pipeline.read_chain(entry, made, lost=False)
        except Error:
            self._has_failed = True
            raise
        self._transport.counters.answered(results)
        return results

    def commit(self, steps: Sequence[Step] = ()) -> list[Result]:
        """Run the steps, commit and close in one round trip; if a step fails, roll back."""
        statements = self._prepare(steps)
        if not self._has_begun:
            self.rollback()
            return self._transport.batch(steps, write=self._write)
        try:
            self._take_place(steps)
            made = pipeline.chain(statements, is_open=self._has_failed, end=True)
            entry = self._call([made.request, pipeline.CLOSE], lost=self._commit_lost)[0]
            results = pipeline.read_chain(entry, made, lost=self._commit_lost)
        finally:
            self._end()
        self._transport.counters.answered(results)
        return results

    def rollback(self) -> None:
        """Undo and close; never raises."""
        try:
            if self._baton is not None:
                self._call([pipeline.ROLLBACK, pipeline.CLOSE], lost=False)
        except Error:
            pass  # the server undoes what it hears no more of
        finally:
            self._end()

    @property
    def _begin(self) -> str:
        return pipeline.BEGIN_WRITE if self._write else pipeline.BEGIN_READ

    @property
    def _commit_lost(self) -> bool | None:
        return None if self._has_place else False

    def _prepare(self, steps: Sequence[Step]) -> list[str]:
        if self._is_over:
            message = "The transaction is over; begin another."
            raise OperationalError(message, code="STREAM_CLOSED", applied=False)
        check_inside(steps, nested=True)
        return [statement(step) for step in steps]

    def _take_place(self, steps: Sequence[Step]) -> None:
        if not self._has_place and (self._write or any(may_write(step.sql) for step in steps)):
            self._transport.writers.acquire()
            self._has_place = True

    def _call(self, requests: Sequence[str], *, lost: bool | None) -> list[dict[str, object]]:
        try:
            answer = self._transport.call(Call(self._base, requests, self._baton, lost))
        except Error as error:
            # Without its next baton the stream cannot be found again, unless the request never
            # came: then the old one is still good, and a rollback by it frees the write lock.
            if error.code != "TRANSPORT" or lost is None:
                self._end()
            raise
        self._baton = answer.baton
        base = (answer.base_url or self._base).rstrip("/")
        if base.startswith("https:") < self._base.startswith("https:"):
            self._end()  # the token would go over an open line
            raise pipeline.nonsense(lost)
        self._base = base
        return answer.entries

    def _end(self) -> None:
        self._is_over = True
        self._baton = None
        if self._has_place:
            self._has_place = False
            self._transport.writers.release()
