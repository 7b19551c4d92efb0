"""Real pipelines of pyantz, run by pyantz: contract of the graph queue, "The real client"."""

from __future__ import annotations

import hashlib
from typing import NamedTuple

import pytest
from pyantz_client import CLASSES
from pyantz_runs import FILLER, TIMEOUT_SECONDS


class Reason(NamedTuple):
    """Where pyantz's own class has no details, ours says why, and names what it is about."""

    naming: str = ""


CASCADE = "A job this job depends on failed"
WHATEVER = object()
DONE = ("SUCCESS", None, 1)
NEVER_RUN = ("ERROR", CASCADE, 0)
# What each job comes to: its status, its details, and how often it was run.
BEHAVIOURS = {
    "a diamond": {"start": DONE, "left": DONE, "right": DONE, "join": DONE},
    "retries that suffice": {"flaky": ("SUCCESS", None, 3), "after-flaky": DONE},
    "retries that do not": {"hopeless": ("ERROR", "ValueError: failure 2", 2)},
    "an exception": {"raising": ("ERROR", "ValueError: failure 1", 1)},
    "a cascade of four levels": {f"level-{level}": NEVER_RUN for level in (1, 2, 3, 4)},
    "a falsy result": {"false": ("ERROR", "Job returned a falsy result", 1)},
    "children and a grandchild": {
        "parent": DONE,
        **dict.fromkeys(("child-0", "child-1", "child-2", "middle", "grandchild"), DONE),
        "after-parent": DONE,
    },
    "an id twice": {"double": ("ERROR", "RuntimeError: Could not add job start to the queue", 1)},
    "a large config": {"big": DONE},
}
IN_PROCESS_BEHAVIOURS = {
    "a timeout": {
        "slow": ("ERROR", f"Timed out after {TIMEOUT_SECONDS} seconds", 1),
        "after-slow": NEVER_RUN,
    },
    # A deadlock ends all that wait, so who of the two was first is open.
    "a deadlock": {
        "promising": DONE,
        "stuck": ("ERROR", Reason("never-added"), 0),
        "after-promising": ("ERROR", Reason(), 0),
    },
}
ORDER = [
    ("start", "left"),
    ("start", "right"),
    ("left", "join"),
    ("right", "join"),
    ("flaky", "after-flaky"),
    *((child, "after-parent") for child in ("child-0", "child-1", "child-2", "middle")),
    ("grandchild", "after-parent"),
]

in_process = pytest.mark.parametrize("run", ["pool", "same process"])
from_command_line = pytest.mark.parametrize("run", ["command line"])
everywhere = pytest.mark.parametrize("run", ["pool", "same process", "command line"])
killed = pytest.mark.parametrize("run", ["killed worker"])
stopped = pytest.mark.parametrize("run", ["stopped"])


@pytest.fixture
def table(run):
    """What all jobs of the run come to."""
    behaviours = [*BEHAVIOURS.values()]
    if run != "command line":
        behaviours += IN_PROCESS_BEHAVIOURS.values()
    return {job: end for behaviour in behaviours for job, end in behaviour.items()}


@pytest.fixture
def ended(table):
    """The ids of the run's jobs by the status that they end with, sorted as text."""

    def ids(status):
        return sorted(job for job, end in table.items() if end[0] == status)

    return ids


def end_of(job, facts):
    status, details = facts["statuses"].get(job, ("absent", None))
    return status, details, sum(line["job"] == job for line in facts["log"])


@pytest.fixture
def assert_ends(facts, queue_class):
    def check(expected):
        for job, (status, details, times) in expected.items():
            end = end_of(job, facts)
            if isinstance(details, Reason):
                if queue_class == "jobroom":
                    assert end[1]
                    assert details.naming in end[1]
                details = WHATEVER  # noqa: PLW2901
            told = end[1] if details is WHATEVER else details
            assert {job: end} == {job: (status, told, times)}

    return check


@everywhere
@pytest.mark.parametrize("behaviour", BEHAVIOURS)
def test_each_job_ends_as_pyantz_promises(behaviour, assert_ends):
    assert_ends(BEHAVIOURS[behaviour])


@in_process
@pytest.mark.parametrize("behaviour", IN_PROCESS_BEHAVIOURS)
def test_a_job_that_cannot_end_is_ended(behaviour, assert_ends):
    assert_ends(IN_PROCESS_BEHAVIOURS[behaviour])


@everywhere
def test_no_job_is_there_but_those_that_were_added(table, facts):
    assert set(facts["statuses"]) == set(table)
    assert {line["job"] for line in facts["log"]} <= set(table)


@everywhere
@pytest.mark.parametrize(("first", "then"), ORDER)
def test_a_job_begins_when_what_it_waits_for_has_ended(first, then, facts):
    ends = [line["ended"] for line in facts["log"] if line["job"] == first]
    begins = [line["began"] for line in facts["log"] if line["job"] == then]
    assert max(ends) <= min(begins)


@everywhere
def test_a_large_config_arrives_as_it_was_given(facts):
    (line,) = [line for line in facts["log"] if line["job"] == "big"]
    assert line["digest"] == hashlib.sha256(FILLER.encode()).hexdigest()


@everywhere
def test_each_process_has_the_class_that_was_put_in_place(queue_class, facts):
    assert {line["queue"] for line in facts["log"]} == {CLASSES[queue_class]}


@everywhere
def test_failed_jobs_are_listed_by_id(ended, facts):
    assert facts["failed"] == ended("ERROR")


@everywhere
def test_jobs_of_a_status_are_listed_by_id(ended, facts):
    rest = {"READY": [], "PENDING": [], "RUNNING": []}
    assert facts["ids"] == {"SUCCESS": ended("SUCCESS"), "ERROR": ended("ERROR"), **rest}


@everywhere
def test_a_queue_whose_jobs_have_ended_is_complete(facts):
    assert facts["next"] == "complete"


@everywhere
def test_nothing_but_the_queue_s_own_files_is_left(facts):
    assert "queue.db" in facts["files"]
    assert set(facts["files"]) <= {"queue.db", "queue.db-wal", "queue.db-shm"}


@everywhere
def test_pyantz_status_tells_the_counts_and_the_failed(table, ended, facts):
    assert facts["told"] == [
        f"Jobs: {len(table)}",
        f"  succeeded: {len(ended('SUCCESS'))}",
        f"  failed:    {len(ended('ERROR'))}",
        "  running:   0",
        "  ready:     0",
        "  waiting:   0",
        "Failed jobs:",
        *(f"  {job}" for job in ended("ERROR")),
    ]


@in_process
def test_the_run_returns_a_report_of_all_jobs(table, ended, facts):
    counts = {"success": len(ended("SUCCESS")), "error": len(ended("ERROR")), "total": len(table)}
    left = {"pending": 0, "ready": 0, "running": 0, "all_succeeded": False}
    assert facts["report"] == counts | left


@in_process
def test_the_web_interface_shows_the_run(table, facts):
    statuses = {job: end[0].lower() for job, end in table.items()}
    assert facts["api"] == {"state": "failed", "statuses": statuses}


@pytest.mark.parametrize("run", ["pool"])
def test_a_pool_s_jobs_run_in_its_workers(facts):
    processes = {line["process"] for line in facts["log"]}
    assert len(processes) > 1
    assert facts["process"] not in processes


@pytest.mark.parametrize("run", ["same process"])
def test_without_a_pool_all_but_the_timed_job_run_in_the_one_process(facts):
    processes = {line["process"] for line in facts["log"] if line["job"] != "slow"}
    assert processes == {facts["process"]}


@from_command_line
def test_the_command_line_fails_when_jobs_did_and_can_be_repeated_in_its_directory(facts):
    assert facts["exits"] == [1, 1, 0]


@killed
def test_the_jobs_of_a_killed_worker_fail_and_the_others_go_on(assert_ends):
    assert_ends({"dying": ("ERROR", Reason(), 1), "after-dying": NEVER_RUN})
    assert_ends({"other": DONE, "after-other": DONE})


@killed
def test_the_report_counts_what_a_killed_worker_left(facts):
    assert (facts["report"]["total"], facts["report"]["success"], facts["report"]["error"]) == (
        4,
        2,
        2,
    )


@stopped
def test_a_job_that_sigterm_interrupts_is_an_error(assert_ends):
    assert_ends({"running": ("ERROR", WHATEVER, 1), "after-running": NEVER_RUN})


@stopped
def test_after_sigterm_nothing_runs(facts):
    assert facts["ids"]["RUNNING"] == []
    assert facts["exits"] != [0]


@pytest.mark.parametrize("run", ["loading"])
def test_a_job_is_taken_when_its_function_has_been_imported(facts):
    # One that runs from before that lets those behind it overtake it for as long as it takes.
    assert facts == {"taken": "slow", "while it was imported": ["READY"], "then": "RUNNING"}
