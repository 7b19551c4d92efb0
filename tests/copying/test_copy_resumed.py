"""``jobroom db copy`` that is killed, cut off or told that something has changed."""

from __future__ import annotations

import itertools
import signal
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import copying_stage as stage
import pytest
import servers

from jobroom.settings import JobLibSettings
from jobroom.store import copy_end
from jobroom.store.copy_rows import MARK, PAGE_ROWS
from jobroom.store.copying import Copying

KINDS = ("sqlite", "libsql", "postgresql")
SERVERS = ("libsql", "postgresql")
TASKS = 2 * PAGE_ROWS


@pytest.fixture
def behind_proxy(stores: servers.Stores) -> Iterator[Callable[[str], tuple[servers.Proxy, str]]]:
    """Puts a proxy in front of a server's database; the proxy and the URL through it."""
    opened = []

    def behind(url: str) -> tuple[servers.Proxy, str]:
        if url.startswith("postgresql"):
            proxy = servers.Proxy(stores.postgres.port, protocol="postgresql")
        else:
            proxy = servers.Proxy(stores.sqld.port)
        opened.append(proxy)
        return proxy, proxy.in_front_of(url)

    yield behind
    for proxy in opened:
        proxy.close()


def nth(count: int, *words: bytes) -> Callable[[bytes], bool]:
    """Matches the request with these words that is the n-th of its kind, and those after it."""
    seen = itertools.count(1)
    return lambda text: all(word in text for word in words) and next(seen) >= count


def tasks_in(url: str) -> int:
    return int(stage.execute(url, "SELECT count(*) FROM task")[0][0])


def is_marked(url: str) -> bool:
    return (MARK,) in stage.execute(url, "SELECT name FROM queue_state")


def start_copy(source: str, target: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        stage.command("db", "copy", "--from", source, "--to", target),
        env=stage.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def kill_while_held(proxy: servers.Proxy, process: subprocess.Popen[str]) -> None:
    """Kill it where the proxy holds a request of it."""
    try:
        proxy.until_faults(seconds=60)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == -signal.SIGKILL
    proxy.heal()


@pytest.mark.parametrize("target", SERVERS)
def test_a_copy_to_a_server_that_was_killed_goes_on(made, copied, behind_proxy, target):
    source, other = made("sqlite", tasks=TASKS), made(target)
    proxy, through = behind_proxy(other)
    proxy.stall(nth(2, b"INSERT INTO task "))
    kill_while_held(proxy, start_copy(source, through))
    assert tasks_in(other) == PAGE_ROWS
    assert is_marked(other)
    done = copied(source, other)
    assert (done.exit_code, done.stderr) == (0, "")
    assert "copied, from where it was," in done.stdout
    assert stage.dump(other) == stage.dump(source)
    assert not is_marked(other)


@pytest.mark.parametrize("source", SERVERS)
def test_a_copy_from_a_server_that_was_killed_goes_on(made, copied, behind_proxy, source):
    one, other = made(source, tasks=TASKS), made("sqlite")
    proxy, through = behind_proxy(one)
    # Once read in whole before anything is written, in three pages, the last of them empty.
    proxy.stall(nth(3 + 2, b"slice", b"task.payload"))
    kill_while_held(proxy, start_copy(through, other))
    assert tasks_in(other) < TASKS
    assert is_marked(other)
    done = copied(one, other)
    assert (done.exit_code, done.stderr) == (0, "")
    assert "copied, from where it was," in done.stdout
    assert stage.dump(other) == stage.dump(one)


@pytest.mark.parametrize("target", SERVERS)
@pytest.mark.parametrize("fault", ["cut_before_request", "cut_after_request"])
def test_a_batch_whose_answer_is_lost_is_there_once(made, copied, behind_proxy, target, fault):
    """Between commit and answer the network is cut: nobody knows, so the target is asked."""
    source, other = made("sqlite", tasks=TASKS), made(target)
    proxy, through = behind_proxy(other)
    getattr(proxy, fault)(nth(2, b"INSERT INTO task "), times=1)
    done = copied(source, through)
    assert (done.exit_code, done.stderr) == (0, "")
    assert proxy.faults == 1
    assert stage.dump(other) == stage.dump(source)


@pytest.mark.parametrize("target", SERVERS)
def test_a_store_that_stays_away_ends_the_copy_with_what_to_do(
    made, copied, behind_proxy, in_a_hurry, target
):
    source, other = made("sqlite", tasks=TASKS), made(target)
    proxy, through = behind_proxy(other)
    proxy.cut_before_request(nth(2, b"INSERT INTO task "), times=None)
    done = copied(source, through)
    assert done.exit_code == 1
    assert done.stderr.startswith("jobroom: The database ")
    assert done.stderr.endswith("Run the same command again: it goes on where it was.\n")
    assert done.stderr.count("\n") == 1
    proxy.heal()
    assert tasks_in(other) == PAGE_ROWS
    assert copied(source, other).exit_code == 0
    assert stage.dump(other) == stage.dump(source)


def test_ctrl_c_says_how_to_go_on(made, copied, behind_proxy):
    source, other = made("sqlite", tasks=TASKS), made("libsql")
    proxy, through = behind_proxy(other)
    proxy.stall(nth(2, b"INSERT INTO task "))
    process = start_copy(source, through)
    proxy.until_faults(seconds=60)
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=60)
    assert process.returncode == 130
    assert told == (
        "jobroom: stopped as you asked. Run the same command again: it goes on where it was.\n"
    )
    proxy.heal()
    assert copied(source, other).exit_code == 0


def test_a_copy_that_was_all_but_finished_is_only_compared(made, copied):
    source, other = made("sqlite", tasks=50), made("sqlite")
    copying = open_copy(source, other)
    advance(copying.run(), lambda step: step.stage == "comparing")
    close(copying)
    assert is_marked(other)
    done = copied(source, other)
    assert "copied, from where it was," in done.stdout
    assert not is_marked(other)


def open_copy(source: str, target: str) -> Copying:
    return Copying(
        copy_end.open_source(JobLibSettings(database_url=source)),
        copy_end.open_target(JobLibSettings(database_url=target)),
    )


def advance(steps: Iterator[Any], until: Callable[[Any], bool]) -> None:
    for step in steps:
        if until(step):
            steps.close()
            return
    raise AssertionError("it never came so far")


def close(copying: Copying) -> None:
    copying.source.close()
    copying.target.close()


CHANGES = {
    "a notice": "INSERT INTO notice VALUES ('w', 'new', 1)",
    "a task written to": "UPDATE task SET version = version + 1 WHERE seq = 1",
    "a task removed": "DELETE FROM task WHERE seq = 1",
    "a beat": "UPDATE worker SET last_heartbeat = last_heartbeat + 1 WHERE id = 'w0'",
    "a sweep": "UPDATE queue_state SET value = value + 1 WHERE name = 'swept_at'",
}


@pytest.mark.parametrize(
    ("kind", "change"),
    [*(("sqlite", change) for change in CHANGES), ("libsql", "a beat"), ("postgresql", "a sweep")],
)
def test_a_source_that_changes_meanwhile_is_told(made, kind, change):
    """It must not change: its servers are to be stopped first."""
    source, other = made(kind, tasks=50), made("sqlite")
    copying = open_copy(source, other)
    steps = copying.run()
    try:
        for step in steps:
            if step == ("copying", "task", 50, 50):
                break
        stage.execute(source, CHANGES[change])
        with pytest.raises(copy_end.ConfigurationError) as caught:
            list(steps)
    finally:
        close(copying)
    told = str(caught.value)
    assert "was written to since this copy began" in told
    assert "stop every server and worker" in told
    assert is_marked(other)


def test_a_source_that_changed_before_it_goes_on_needs_a_restart(made, copied):
    source, other = made("sqlite", tasks=50), made("postgresql")
    copying = open_copy(source, other)
    advance(copying.run(), lambda step: step.stage == "comparing")
    close(copying)
    stage.execute(source, CHANGES["a task written to"])
    refused = copied(source, other)
    assert refused.exit_code == 1
    assert "was written to since this copy began" in refused.stderr
    assert "--restart" in refused.stderr
    done = copied(source, other, "--restart")
    assert (done.exit_code, done.stderr) == (0, "")
    assert stage.dump(other) == stage.dump(source)


@pytest.mark.parametrize("kind", SERVERS)
def test_a_change_that_no_version_tells_of_is_found_by_comparing(made, kind):
    """By hand somebody may write anything."""
    source, other = made(kind, tasks=50), made("sqlite")
    copying = open_copy(source, other)
    steps = copying.run()
    try:
        for step in steps:
            if step == ("copying", "task", 50, 50):
                break
        stage.execute(source, "UPDATE task SET message = 'by hand' WHERE seq = 3")
        with pytest.raises(copy_end.ConfigurationError, match=r"differs in task seq=3, id="):
            list(steps)
    finally:
        close(copying)


@pytest.mark.parametrize("kind", KINDS)
def test_somebody_who_writes_to_the_target_is_found(made, kind):
    source, other = made("sqlite", tasks=2 * PAGE_ROWS), made(kind)
    copying = open_copy(source, other)
    steps = copying.run()
    try:
        for step in steps:
            if step.stage == "copying" and step.table == "task" and step.done:
                break
        last = stage.execute(source, "SELECT * FROM task ORDER BY seq DESC LIMIT 1")
        stage.insert(other, "task", last)
        with pytest.raises(copy_end.ConfigurationError, match="Somebody else writes to the target"):
            list(steps)
    finally:
        close(copying)


def test_a_restart_empties_nothing_but_an_unfinished_copy(made, copied):
    source, other = made("sqlite", tasks=7), made("libsql", tasks=5)
    before = stage.dump(other)
    done = copied(source, other, "--restart")
    assert done.exit_code == 1
    assert "holds a queue already" in done.stderr
    assert stage.dump(other) == before
