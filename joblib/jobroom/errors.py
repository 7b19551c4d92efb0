"""Every exception a caller may catch; none of them knows about HTTP.

    JobroomError
    ├── Unauthorized                    who are you?
    ├── Forbidden                       not yours to do
    ├── NotFound                        nothing there that you may see
    │   ├── JobNotFound
    │   ├── WorkerNotFound
    │   └── TaskNotFound
    ├── Conflict                        the stored state says no
    │   ├── SchemaConflict
    │   ├── InvalidTaskTransition
    │   └── TaskExists
    ├── InvalidInput                    the request says something impossible
    │   ├── InvalidRoomId
    │   ├── InvalidCategory
    │   ├── ValidationFailed
    │   ├── PayloadInvalid
    │   ├── IdempotencyKeyReused
    │   ├── DependencyCycle
    │   └── DependencyNotFound
    ├── PayloadTooLarge
    ├── AnswerTooLarge                  more than one answer may carry
    ├── TooManyRequests
    ├── StoreUnavailable                try again a little later
    └── ConfigurationError              start-up refuses; the message says what to set

Each class has a stable ``slug``: the last part of the problem ``type`` that a client sees.
"""

from __future__ import annotations

from dataclasses import dataclass

MOST_FAULTS = 3
"""How many faults of a payload stand in a traceback of ``PayloadInvalid``; ``errors`` has all."""


@dataclass(frozen=True, slots=True)
class FieldError:
    """One fault of a document; ``pointer`` is its place (RFC 6901), the empty text the whole."""

    pointer: str
    message: str


class JobroomError(Exception):
    """Base of all of them; the message is one sentence that a user can act on."""

    slug = "internal-error"

    def __init__(self, message: str, *, errors: tuple[FieldError, ...] = ()) -> None:
        super().__init__(message)
        self.errors = errors


class Unauthorized(JobroomError):
    """No token, or one that does not verify."""

    slug = "unauthorized"


class Forbidden(JobroomError):
    """The caller is known and may see the thing, but not do this to it."""

    slug = "forbidden"


class NotFound(JobroomError):
    """There is no such thing, or the caller may not see it."""

    slug = "not-found"


class JobNotFound(NotFound):
    """No such job in the rooms that the caller sees."""

    slug = "job-not-found"


class WorkerNotFound(NotFound):
    """No such worker: it was never made, was deleted, or was swept; register again."""

    slug = "worker-not-found"


class TaskNotFound(NotFound):
    """No such task in what the caller may see."""

    slug = "task-not-found"


class Conflict(JobroomError):
    """The stored state does not allow it; nothing was changed."""

    slug = "conflict"


class SchemaConflict(Conflict):
    """The job is registered with another schema."""

    slug = "schema-conflict"


class InvalidTaskTransition(Conflict):
    """The task is not in a state, or no longer held by the attempt, that allows this report."""

    slug = "invalid-task-transition"


class TaskExists(Conflict):
    """A task of that client-chosen id exists and is not the same request."""

    slug = "task-exists"


class InvalidInput(JobroomError):
    """The request says something impossible; ``errors`` names the places."""

    slug = "validation-error"


class InvalidRoomId(InvalidInput):
    """A room id that breaks the rule for names, or is reserved."""

    slug = "invalid-room-id"


class InvalidCategory(InvalidInput):
    """A category that breaks the rule for names, or is not among the allowed ones."""

    slug = "invalid-category"


class ValidationFailed(InvalidInput):
    """A body, parameter or name that does not fit the contract."""

    slug = "validation-error"


class PayloadInvalid(InvalidInput):
    """A payload that does not fit its job's schema; a traceback of it names the first faults."""

    slug = "payload-invalid"

    def __init__(self, message: str, *, errors: tuple[FieldError, ...] = ()) -> None:
        super().__init__(message, errors=errors)
        # No part of the message: an answer, or the command line, lists them beside it.
        for fault in [one for one in errors if one.message not in message][:MOST_FAULTS]:
            self.add_note(f"{fault.pointer or 'the whole'}: {fault.message}")


class IdempotencyKeyReused(InvalidInput):
    """The same idempotency key came with another request."""

    slug = "idempotency-key-reused"


class DependencyCycle(InvalidInput):
    """The dependencies of a submission form a cycle."""

    slug = "dependency-cycle"


class DependencyNotFound(InvalidInput):
    """A submission depends on a task that the caller cannot see."""

    slug = "dependency-not-found"


class PayloadTooLarge(JobroomError):
    """A body over the stated limit."""

    slug = "payload-too-large"


class AnswerTooLarge(JobroomError):
    """What was asked for is longer than an answer may be; nothing was changed for it."""

    slug = "answer-too-large"


class TooManyRequests(JobroomError):
    """More than the server takes at once; try again later."""

    slug = "too-many-requests"


class StoreUnavailable(JobroomError):
    """The store did not take the work: busy, full, unreachable. Nothing of it was kept."""

    slug = "store-unavailable"


class ConfigurationError(JobroomError):
    """Start-up refuses; the message says what is wrong and what to set."""
