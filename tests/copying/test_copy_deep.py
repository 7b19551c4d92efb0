"""100,000 tasks from store to store and back, equal row for row; with JOBROOM_COPY_DEEP=1."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from itertools import pairwise

import copying_stage as stage
import servers

from jobroom.settings import JobLibSettings
from jobroom.store import dialect, migrate

DEEP = os.environ.get("JOBROOM_COPY_DEEP") == "1"
TASKS = 100_000 if DEEP else 300
RUN = """
import re, sys
from jobroom.cli.main import app
try:
    app()
finally:
    kilobytes = re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1]
    print(int(kilobytes) // 1024, file=sys.stderr)
"""


def migrated(url: str) -> None:
    database = dialect.open_database(JobLibSettings(database_url=url))
    migrate.upgrade(database)
    database.close()


def copy(source: str, target: str) -> tuple[float, int]:
    """Seconds from start to end of the process, and the memory that it needed, in MiB."""
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", RUN, "db", "copy", "--from", source, "--to", target],
        env=stage.environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )
    assert done.returncode == 0, done.stderr
    assert f"equal: {TASKS:,} tasks" in done.stdout
    return time.monotonic() - began, int(done.stderr)


def test_a_queue_goes_round_all_stores_and_comes_back_equal(stores, tmp_path, tally):
    """Issue 3, *done when*: SQLite -> PostgreSQL -> libSQL -> SQLite, equal row for row."""
    kinds = ("sqlite", "postgresql", "libsql", "sqlite")
    if DEEP:
        with servers.Stores(migrated, durable=True) as durable:
            go_round(durable, kinds, tmp_path, tally)
    else:
        go_round(stores, kinds, tmp_path, tally)


def go_round(stores, kinds, folder, tally):
    urls = [stores.fresh(kind, folder) for kind in kinds]
    stage.fill(urls[0], TASKS)
    for (kind, source), (other, target) in pairwise(zip(kinds, urls, strict=True)):
        seconds, memory = copy(source, target)
        tally(f"db copy {kind} -> {other}: {TASKS:,} tasks in {seconds:.1f} s, {memory} MiB")
    assert stage.dump(urls[-1]) == stage.dump(urls[0])
    for url in urls:
        stores.release(url)
