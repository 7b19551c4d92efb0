"""A task's way over HTTP: claimed, reported on, repeated, cancelled, retried, handed back."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from contract_api import ANGLE, ROTATE, Api, Json, Person, pointers, refused, taken

TERMINAL = ("completed", "failed", "cancelled")
LARGEST = {"lambda": 2_000_000}
"""An event of AWS Lambda holds 6 MB, in which a letter that is no ASCII may take six bytes."""
POLICY: Json = {"schema": ANGLE, "on_worker_lost": "requeue", "max_attempts": 3}


def _cancel_list(worker: Person, worker_id: str = "wanda") -> list[str]:
    found: list[str] = taken(worker.patch(f"/workers/{worker_id}"))["cancel"]
    return found


def test_a_task_goes_from_pending_to_completed(wanda: Person, alice: Person) -> None:
    """Contract, *States*; the seed's walk, with the times and counters of each step."""
    task = alice.submit()
    assert (task["status"], task["attempt"], task["worker_id"]) == ("pending", 0, None)
    task = wanda.claim()
    assert (task["status"], task["attempt"], task["starts"]) == ("claimed", 1, 0)
    assert (task["worker_id"], task["started_at"]) == ("wanda", None)
    task = taken(wanda.report(task, "running"))
    assert (task["status"], task["starts"], task["completed_at"]) == ("running", 1, None)
    task = taken(wanda.report(task, "completed", result={"energy": -1.5}))
    assert (task["status"], task["result"]) == ("completed", {"energy": -1.5})
    assert task["created_at"] <= task["claimed_at"] <= task["started_at"] <= task["completed_at"]
    assert task["worker_id"] == "wanda"
    assert alice.show(task)["lease_expires_at"] is None


def test_a_claim_with_nothing_to_claim_is_null(wanda: Person) -> None:
    """Contract, *Tasks*: {"task": null, "tasks": []}."""
    assert taken(wanda.post("/tasks/claim")) == {"task": None, "tasks": []}


def test_a_claim_takes_up_to_its_limit_in_order(wanda: Person, alice: Person) -> None:
    """Contract, *Tasks*: highest priority first, then oldest; rules, *Claim*: what there is."""
    low, high, last = (alice.submit(priority=priority)["id"] for priority in (0, 5, 0))
    claimed = taken(wanda.post("/tasks/claim", {"limit": 10, "start": True}))
    assert [task["id"] for task in claimed["tasks"]] == [high, low, last]
    assert claimed["task"] == claimed["tasks"][0]
    assert {task["status"] for task in claimed["tasks"]} == {"running"}


def test_a_repeated_claim_with_its_request_id_gives_the_same_task(
    wanda: Person, alice: Person
) -> None:
    """Contract, *Tasks*: request_id; acceptance C11."""
    alice.submit()
    alice.submit()
    first, again = (taken(wanda.post("/tasks/claim", {"request_id": "r"})) for _ in range(2))
    assert first["task"]["id"] == again["task"]["id"]
    assert again["task"]["attempt"] == 1


@pytest.mark.parametrize("status", ["completed", "pending", "claimed", "blocked"])
def test_a_move_that_there_is_not_is_409_saying_why(
    status: str, alice: Person, wanda: Person
) -> None:
    """Contract, *States*; rules, *Reports*: claimed -> completed is 409, start first."""
    alice.submit()
    task = wanda.claim()
    if status == "pending":
        taken(wanda.report(task, "running"))
    problem = refused(wanda.report(task, status), "invalid-task-transition")
    assert task["id"] in problem["detail"]


@pytest.mark.parametrize("ended", TERMINAL)
@pytest.mark.parametrize("wanted", ["running", *TERMINAL, "pending", None])
def test_a_terminal_task_takes_no_other_report(
    ended: str, wanted: str | None, staged: dict[str, str], api: Api
) -> None:
    """Contract, *States*: terminal states never change; without an attempt a repeat is 409."""
    admin, task = api.by("root", is_admin=True), {"id": staged[ended]}
    before = admin.show(task)
    if ended == wanted == "cancelled":
        assert taken(admin.report(task, wanted))["status"] == "cancelled"
    else:
        refused(admin.report(task, wanted), "invalid-task-transition")
    assert admin.show(task) == before


@pytest.mark.parametrize(
    "report",
    [
        {"status": "completed", "result": {"a": [1, 2.0]}},
        {"status": "completed"},
        {"status": "failed", "error": "no luck"},
        {"status": "failed", "error": "x" * 100_000},
    ],
)
def test_a_terminal_report_may_be_repeated_with_its_attempt(
    report: Json, alice: Person, wanda: Person
) -> None:
    """Contract, *Tasks*; rules, *Reports*: the same bytes: 200, the stored task."""
    alice.submit()
    task = wanda.start()
    first = taken(wanda.report(task, attempt=1, **report))
    assert taken(wanda.report(task, attempt=1, **report)) == first
    refused(wanda.report(task, **report), "invalid-task-transition")
    other = {**report, "status": "failed", "error": "other", "result": None}
    refused(wanda.report(task, attempt=1, **other), "invalid-task-transition")


def test_a_result_of_other_bytes_is_no_repeat(alice: Person, wanda: Person) -> None:
    """Rules, *Reports*: "the same bytes": 1 and 1.0 are two results."""
    alice.submit()
    task = wanda.start()
    taken(wanda.patch(f"/tasks/{task['id']}", b'{"status":"completed","result":1,"attempt":1}'))
    body = b'{"status":"completed","result":1.0,"attempt":1}'
    refused(wanda.patch(f"/tasks/{task['id']}", body), "invalid-task-transition")


def test_running_may_be_repeated_and_started_at_stays(alice: Person, wanda: Person) -> None:
    """Rules, *Reports*: 200, started_at unchanged."""
    alice.submit()
    first = wanda.start()
    wanda.api.let_pass(5)
    again = taken(wanda.report(first, "running", attempt=1, progress=0.5))
    assert (again["started_at"], again["starts"], again["progress"]) == (
        first["started_at"], 1, 0.5,
    )  # fmt: skip


@pytest.mark.parametrize("status", ["running", "completed", "failed", None])
def test_an_outdated_attempt_is_409(status: str | None, alice: Person, wanda: Person) -> None:
    """Contract, *Tasks*: attempt is the fence; acceptance C02."""
    alice.submit()
    wanda.report(wanda.claim(), "pending")
    task = wanda.start()
    assert task["attempt"] == 2
    refused(wanda.report(task, status, attempt=1), "invalid-task-transition")
    assert wanda.show(task)["status"] == "running"


def test_a_worker_id_that_is_not_the_holder_is_409(alice: Person, wanda: Person) -> None:
    """Rules, *Reports*: if sent, it must be the holder; unsent, the same identity counts."""
    other = taken(wanda.post("/workers"))["id"]
    alice.submit()
    task = wanda.start()
    refused(wanda.report(task, "completed", worker_id=other), "invalid-task-transition")
    assert taken(wanda.report(task, "completed"))["status"] == "completed"


def test_a_lost_workers_report_is_409(alice: Person, wanda: Person) -> None:
    """Acceptance C01; contract, *Losing a worker*: one terminal state, never rewritten."""
    alice.submit()
    task = wanda.start()
    wanda.api.let_pass(61)
    wanda.api.sweep()
    lost = alice.show(task)
    assert lost["status"] == "failed"
    assert "Worker disconnected" in lost["error"]
    refused(wanda.report(task, "completed", attempt=1), "invalid-task-transition")
    assert alice.show(task) == lost


def test_progress_and_message_are_told_without_a_status(alice: Person, wanda: Person) -> None:
    """Rules, *Reports*: by the holder, while claimed or running."""
    alice.submit()
    task = wanda.claim()
    assert taken(wanda.report(task, progress=0, message="waking"))["message"] == "waking"
    taken(wanda.report(task, "running"))
    told = taken(wanda.report(task, progress=0.25))
    assert (told["progress"], told["message"]) == (0.25, "waking")


@pytest.mark.parametrize("status", TERMINAL)
def test_claim_next_brings_the_next_task_started(status: str, alice: Person, wanda: Person) -> None:
    """Contract, *Tasks*: one request a task for a busy worker."""
    alice.submit()
    expected = alice.submit()["id"]
    done = taken(wanda.report(wanda.start(), status, claim_next=True))
    assert done["status"] == status
    assert (done["next_task"]["id"], done["next_task"]["status"]) == (expected, "running")


def test_claim_next_with_nothing_left_is_null(alice: Person, wanda: Person) -> None:
    """Contract, *Tasks*: next_task."""
    alice.submit()
    done = taken(wanda.report(wanda.start(), "completed", claim_next=True))
    assert done["next_task"] is None


def test_a_repeated_claim_next_gives_the_same_next_task(alice: Person, wanda: Person) -> None:
    """Contract, *Tasks*: remembered with (task, attempt)."""
    for _ in range(3):
        alice.submit()
    report = {"result": 1, "attempt": 1, "claim_next": True}
    task = wanda.start()
    first, again = (taken(wanda.report(task, "completed", **report)) for _ in range(2))
    assert first["next_task"]["id"] == again["next_task"]["id"]
    assert again["next_task"]["attempt"] == 1


def test_a_refused_report_claims_nothing(alice: Person, wanda: Person) -> None:
    """Contract, *Tasks*: a report that gets 409 claims nothing."""
    alice.submit()
    waiting = alice.submit()
    task = wanda.start()
    taken(alice.report(task, "cancelled"))
    answer = wanda.report(task, "completed", attempt=1, claim_next=True)
    refused(answer, "invalid-task-transition")
    assert alice.show(waiting)["status"] == "pending"


def test_the_creator_cancels_a_pending_task(alice: Person, bob: Person, wanda: Person) -> None:
    """Acceptance C23: 200 for the creator, 403 for a stranger; a claim never returns it."""
    mine, other = alice.submit(), alice.submit()
    assert taken(alice.report(mine, "cancelled"))["status"] == "cancelled"
    refused(bob.report(other, "cancelled"), "forbidden")
    assert wanda.claim()["id"] == other["id"]
    assert taken(wanda.post("/tasks/claim"))["task"] is None


def test_a_cancelled_running_task_is_named_to_its_worker(alice: Person, wanda: Person) -> None:
    """Acceptance C23: in each heartbeat's cancel, until the worker reports on it (409 counts)."""
    alice.submit()
    task = wanda.start()
    assert _cancel_list(wanda) == []
    assert taken(alice.report(task, "cancelled", error="enough"))["status"] == "cancelled"
    assert [_cancel_list(wanda), _cancel_list(wanda)] == [[task["id"]]] * 2
    refused(wanda.report(task, "completed", attempt=1), "invalid-task-transition")
    assert _cancel_list(wanda) == []
    assert alice.show(task)["error"] == "enough"


def test_a_worker_is_told_of_a_cancellation_for_ten_minutes(alice: Person, wanda: Person) -> None:
    """Rules, *Cancel*: until it reports or 10 minutes."""
    alice.submit()
    task = wanda.start()
    taken(alice.report(task, "cancelled"))
    wanda.api.let_pass(599)
    assert _cancel_list(wanda) == [task["id"]]
    wanda.api.let_pass(2)
    assert _cancel_list(wanda) == []


def test_cancelling_twice_is_200_and_an_ended_task_409(alice: Person, wanda: Person) -> None:
    """Rules, *Cancel*."""
    first, second = alice.submit(), alice.submit()
    before = taken(alice.report(first, "cancelled"))
    assert taken(alice.report(first, "cancelled")) == before
    wanda.report(wanda.start(), "completed")
    refused(alice.report(second, "cancelled"), "invalid-task-transition")


@pytest.mark.parametrize("ended", ["failed", "cancelled"])
def test_a_retry_makes_a_task_pending_again(ended: str, staged: dict[str, str], api: Api) -> None:
    """Contract, *Tasks*; rules, *Retry*: starts back to 0, attempt goes on."""
    alice, task = api.by("alice"), {"id": staged[ended]}
    before = alice.show(task)
    again = taken(alice.post(f"/tasks/{task['id']}/retry"))
    assert (again["status"], again["starts"], again["attempt"]) == ("pending", 0, before["attempt"])
    assert again["completed_at"] is None
    refused(alice.post(f"/tasks/{task['id']}/retry"), "invalid-task-transition")


def test_a_dry_run_lists_what_a_retry_would_start(staged: dict[str, str], api: Api) -> None:
    """Rules, *Retry*: ?dry_run=true lists them first, and changes nothing."""
    alice, task = api.by("alice"), {"id": staged["failed"]}
    before = alice.show(task)
    path = f"/tasks/{task['id']}/retry?dry_run="
    assert taken(alice.post(f"{path}true")) == {"tasks": [task["id"]], "hidden": 0}
    assert alice.show(task) == before
    refused(api.by("bob").post(f"{path}true"), "forbidden")
    refused(alice.post(f"/tasks/{staged['pending']}/retry?dry_run=true"), "invalid-task-transition")
    assert taken(alice.post(f"{path}false"))["status"] == "pending"


@pytest.mark.parametrize("size", [10, 64 * 1024 - 2, 64 * 1024 - 1, 5_000_000])
def test_a_large_result_comes_back_byte_by_byte(
    size: int, door: str, alice: Person, wanda: Person
) -> None:
    """Contract, *Tasks*: GET /tasks/{id}/result, as it was stored."""
    size = min(size, LARGEST.get(door, size))
    alice.submit()
    task = wanda.start()
    text = json.dumps("é0" * (size // 3), ensure_ascii=False).encode()
    body = b'{"status": "completed", "result": %s}' % text
    assert wanda.patch(f"/tasks/{task['id']}", body).status_code == 200
    answer = alice.get(f"/tasks/{task['id']}/result")
    assert answer.content == text
    assert int(answer.headers["content-length"]) == len(text)


def test_handing_back_a_claimed_task_costs_nothing(alice: Person, wanda: Person) -> None:
    """Contract, *Handing back*: its place kept, nothing charged."""
    first, _ = alice.submit(), alice.submit()
    back = taken(wanda.report(wanda.claim(), "pending"))
    assert (back["status"], back["starts"], back["worker_id"]) == ("pending", 0, None)
    again = wanda.claim()
    assert (again["id"], again["attempt"]) == (first["id"], 2)


def test_handing_back_a_running_task_is_charged_and_needs_requeue(api: Api, alice: Person) -> None:
    """Contract, *Handing back*: only if the job says requeue."""
    wanda = api.by("wanda")
    wanda.register(**POLICY)
    alice.submit()
    back = taken(wanda.report(wanda.start(), "pending"))
    assert (back["status"], back["starts"]) == ("pending", 1)
    wanda.register(schema=ANGLE)
    refused(wanda.report(wanda.start(), "pending"), "invalid-task-transition")


def test_failing_with_attempts_left_goes_back_after_a_delay(api: Api, alice: Person) -> None:
    """Contract, *Failing with attempts left*: the 200 shows pending, error kept, delay doubled."""
    wanda = api.by("wanda")
    wanda.register(schema=ANGLE, max_attempts=3, retry_delay_seconds=10)
    alice.submit()
    for delay in (10, 20):
        task = taken(wanda.report(wanda.start(), "failed", error="no luck"))
        assert (task["status"], task["error"]) == ("pending", "no luck")
        api.let_pass(delay - 1)
        assert taken(wanda.post("/tasks/claim"))["task"] is None
        api.let_pass(1)
    assert taken(wanda.report(wanda.start(), "failed"))["status"] == "failed"


def test_final_skips_the_attempts_left(api: Api, alice: Person) -> None:
    """Contract, *Failing with attempts left*: final: true."""
    wanda = api.by("wanda")
    wanda.register(**POLICY)
    alice.submit()
    assert taken(wanda.report(wanda.start(), "failed", final=True))["status"] == "failed"


@pytest.mark.parametrize("root_path", ["", "/mount"])
def test_location_leads_to_the_task(root_path: str, make_api: Callable[..., Api]) -> None:
    """Contract, *Tasks*: Location; rules, *Mounted*: it gets the mount's root path."""
    alice = make_api(root_path=root_path).by("alice")
    alice.put(f"{root_path}/v1/joblib/rooms/r1/jobs", {"category": "modifiers", "name": "Rotate"})
    answer = alice.post(f"{root_path}/v1/joblib/rooms/r1/tasks/{ROTATE}")
    assert answer.headers["location"] == f"{root_path}/v1/joblib/tasks/{taken(answer)['id']}"
    assert answer.headers["retry-after"] == "1"
    assert alice.get(answer.headers["location"]).json()["id"] == taken(answer)["id"]
    gone = alice.get(f"{root_path}/v1/joblib/tasks/x")
    assert refused(gone, "task-not-found")["type"] == "/v1/problems/task-not-found"


def test_a_registration_answers_201_then_200_and_the_linked_worker(alice: Person) -> None:
    """Contract, *Jobs*; acceptance C13: a thousand registrations leave one identity worker."""
    answers = [alice.put("/rooms/r1/jobs", {"category": "modifiers", "name": "N"}) for _ in "abc"]
    assert [answer.status_code for answer in answers] == [201, 200, 200]
    assert {answer.json()["worker_id"] for answer in answers} == {"alice"}
    assert taken(alice.get("/rooms/r1/workers"))["total"] == 1


def test_a_worker_that_left_is_404_and_its_claim_too(alice: Person, wanda: Person) -> None:
    """Contract, *Workers*: a second time 404; *Losing a worker*: a claim without body is 404."""
    assert wanda.delete("/workers/wanda").status_code == 204
    refused(wanda.delete("/workers/wanda"), "worker-not-found")
    refused(wanda.patch("/workers/wanda"), "worker-not-found")
    refused(wanda.post("/tasks/claim"), "worker-not-found")
    assert wanda.put("/rooms/r1/jobs", {"category": "modifiers", "name": "N"}).status_code == 201
    assert taken(wanda.post("/tasks/claim"))["task"] is None


def test_a_bad_report_names_its_place_before_anything_is_changed(wanda: Person) -> None:
    """Rules, *Order of checks*: 422 of the body comes before the task is even looked for."""
    problem = refused(wanda.patch("/tasks/x", {"attempt": "1"}), "validation-error")
    assert pointers(problem) == ["/attempt"]
