"""Every kind of problem that the API answers: its status, and what to tell whoever meets it."""

from __future__ import annotations

from dataclasses import dataclass

PROBLEM_PATH = "/v1/problems/"


@dataclass(frozen=True, slots=True)
class ProblemKind:
    """A row of the table; ``title`` is the status in the words of HTTP (RFC 9110, section 15)."""

    status: int
    title: str
    cause: str
    example: str
    fix: str


PROBLEMS: dict[str, ProblemKind] = {
    "invalid-room-id": ProblemKind(
        400,
        "Bad Request",
        "A room id breaks the rule for names, or is reserved.",
        "PUT /v1/joblib/rooms/@internal/jobs: @internal and @local are reserved.",
        "Use 1 to 255 characters without control characters, '/', ':' or '@', and no space at"
        " either end; or '@global' where every room is meant.",
    ),
    "invalid-category": ProblemKind(
        400,
        "Bad Request",
        "A category breaks the rule for names, or is not among the allowed ones.",
        'Registering {"category": "painting", …} where only modifiers, selections and analysis'
        " are allowed.",
        "Use an allowed category, or add yours to the setting ZNDRAW_JOBLIB_ALLOWED_CATEGORIES.",
    ),
    "unauthorized": ProblemKind(
        401,
        "Unauthorized",
        "The request has no bearer token, or one that does not verify.",
        "GET /v1/joblib/rooms/lab/jobs without the header Authorization.",
        "Send 'Authorization: Bearer <token>'. A server that you run yourself makes tokens:"
        " jobroom token --sub alice.",
    ),
    "forbidden": ProblemKind(
        403,
        "Forbidden",
        "The token is good, but what it names may not do this.",
        "Registering a job in the room @global without is_admin in the token.",
        "Use a token of the owner of the worker or task, or one with is_admin.",
    ),
    "not-found": ProblemKind(
        404,
        "Not Found",
        "There is nothing at this address, or it lies in a room that the token does not reach.",
        "GET /v1/joblib/task: the route is called tasks.",
        "Compare the address with the list of routes at /docs, and the room with your token.",
    ),
    "job-not-found": ProblemKind(
        404,
        "Not Found",
        "No job of that full name is visible in this room.",
        "POST /v1/joblib/rooms/lab/tasks/attic:modifiers:Rotate: that job is of another room.",
        "Write the full name as room:category:name and use a job of this room or of @global;"
        " GET /v1/joblib/rooms/{room_id}/jobs lists them.",
    ),
    "worker-not-found": ProblemKind(
        404,
        "Not Found",
        "There is no such worker: it was never made, was deleted, or was swept as lost.",
        "A heartbeat that comes long after the worker's last one.",
        "Make a worker with POST /v1/joblib/workers and register its jobs again.",
    ),
    "task-not-found": ProblemKind(
        404,
        "Not Found",
        "There is no such task, or you may not see it.",
        "Asking for a task after its retention has passed.",
        "Check the id; a finished task is kept only for the time that server and job say.",
    ),
    "method-not-allowed": ProblemKind(
        405,
        "Method Not Allowed",
        "The address exists, but not with this method.",
        "GET /v1/joblib/tasks/claim: claiming changes something, so it is a POST.",
        "Use one of the methods that the header Allow of the answer names.",
    ),
    "not-acceptable": ProblemKind(
        406,
        "Not Acceptable",
        "The header Accept asks for a form that this address does not have.",
        "GET /v1/joblib/tasks/{task_id} with Accept: application/xml.",
        "Accept application/json, or leave the header out.",
    ),
    "conflict": ProblemKind(
        409,
        "Conflict",
        "What is stored does not allow the change; nothing was changed.",
        "Two clients change the same thing at once, and this one came second.",
        "Read the present state, and decide again.",
    ),
    "schema-conflict": ProblemKind(
        409,
        "Conflict",
        "The job is registered already, with a schema that differs.",
        "A worker of a newer version registers the job while older workers still serve it.",
        'Register the same schema, or send "replace": true to put the new one in its place.',
    ),
    "invalid-task-transition": ProblemKind(
        409,
        "Conflict",
        "The task is in a state, or held by another attempt, that does not allow this report.",
        "Completing a task that was cancelled, or that another worker has taken over.",
        "Drop the work and claim again: the report came too late. Start a task (status running)"
        " before you complete it.",
    ),
    "task-exists": ProblemKind(
        409,
        "Conflict",
        "There is a task with the id that you chose, and it is not the same request.",
        "Submitting twice with one id and two payloads.",
        "Choose a new id for each task, or leave the choice to the server.",
    ),
    "answer-too-large": ProblemKind(
        409,
        "Conflict",
        "What is stored does not fit into one answer of this server; it is left as it is.",
        "GET /v1/joblib/tasks/{task_id}/result of 16 MiB where ZNDRAW_JOBLIB_MAX_ANSWER_BYTES is"
        " 4,500,000.",
        "Fetch a result in parts, with the header Range: bytes=0- and so on. A task whose payload"
        " is too large to be claimed here stays pending: claim it through a server without that"
        " limit, or cancel it.",
    ),
    "payload-too-large": ProblemKind(
        413,
        "Content Too Large",
        "The body is larger than the server takes.",
        "A payload of 2 MiB where ZNDRAW_JOBLIB_MAX_BODY_BYTES is 1 MiB.",
        "Keep large data elsewhere and send its address, or raise the server's limit.",
    ),
    "unsupported-media-type": ProblemKind(
        415,
        "Unsupported Media Type",
        "The body is not declared as JSON.",
        "A body sent with Content-Type: text/plain.",
        "Send JSON with Content-Type: application/json.",
    ),
    "range-not-satisfiable": ProblemKind(
        416,
        "Range Not Satisfiable",
        "The header Range asks for bytes behind the end of the result.",
        "Range: bytes=1000- of a result of 1000 bytes, whose last byte is the one numbered 999.",
        "Ask for bytes within the length that the header Content-Range of the answer names.",
    ),
    "validation-error": ProblemKind(
        422,
        "Unprocessable Content",
        "The body or a parameter does not fit the contract; the member errors names each place.",
        'Submitting {"priority": "high"}: a priority is an integer.',
        "Correct what errors points at; /docs shows every body and parameter.",
    ),
    "payload-invalid": ProblemKind(
        422,
        "Unprocessable Content",
        "The payload does not fit the schema of its job; the member errors names each place.",
        'Submitting {"payload": {"angle": "wide"}} to a job whose angle is a number.',
        "Correct what errors points at; GET /v1/joblib/rooms/{room_id}/jobs/{full_name} shows"
        " the schema.",
    ),
    "idempotency-key-reused": ProblemKind(
        422,
        "Unprocessable Content",
        "The same Idempotency-Key came earlier with another request.",
        "One key for two submissions with two payloads.",
        "Make a new key for each new request; send the old one only to repeat the same request.",
    ),
    "dependency-cycle": ProblemKind(
        422,
        "Unprocessable Content",
        "The dependencies of the submitted tasks form a cycle, so none of them could start.",
        "Two tasks of one submission, each of which waits for the other.",
        "Remove one of the dependencies that the detail names.",
    ),
    "dependency-not-found": ProblemKind(
        422,
        "Unprocessable Content",
        "A task depends on one that does not exist or that you may not see.",
        "Waiting for a task of a room that the token does not reach.",
        "Submit what must come first before what waits for it, and use the id of that answer.",
    ),
    "too-many-requests": ProblemKind(
        429,
        "Too Many Requests",
        "The server has more requests waiting than it takes at once.",
        "More long-polls at one time than ZNDRAW_JOBLIB_MAX_WAITERS.",
        "Wait for the seconds that Retry-After names, then try again.",
    ),
    "internal-error": ProblemKind(
        500,
        "Internal Server Error",
        "The server failed in a way that was not foreseen.",
        "A defect of the server.",
        "Report it with the member instance: the server's log names the request by it.",
    ),
    "store-unavailable": ProblemKind(
        503,
        "Service Unavailable",
        "The database did not take the work: it is busy, full or out of reach. Nothing was kept.",
        "The disk of the database file is full.",
        "Wait for the seconds that Retry-After names, then send the same request again.",
    ),
}
