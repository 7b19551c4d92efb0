"""The runs of pyantz that the tests look at: real pipelines, and those that it ships."""

from __future__ import annotations

import json
import re
import shutil
import signal
import time
import uuid
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from pyantz_client import RUN_SECONDS, Client, Place

AT_ONCE = 6
"""They wait for most of their time: pyantz polls its queue once a second."""
FILLER = 'é漢😀\\"\x00' * 2_500
"""Some 40 kB of UTF-8, and more when it is escaped."""
TIMEOUT_SECONDS = 3.0

Facts = dict[str, Any]
Run = Callable[[Place], Facts]


def whole_pipeline(folder: Path, *, without: Iterable[str] = ()) -> list[dict[str, Any]]:
    """The jobs of the pipeline that has all sorts in it."""
    job = JobMaker(folder)
    jobs = [
        job("start", job_name="%{name}"),
        job("left", after=["start"]),
        job("right", after=["start"]),
        job("join", after=["left", "right"]),
        job("flaky", "fail_at_first", after=["start"], failures=2, max_retries=3),
        job("after-flaky", after=["flaky"]),
        job("hopeless", "fail_at_first", after=["start"], failures=9, max_retries=1),
        job("raising", "fail_at_first", after=["start"], failures=1),
        job("level-1", after=["raising"]),
        job("level-2", after=["level-1"]),
        job("level-3", after=["level-2"]),
        job("level-4", after=["level-3", "join"]),
        job("false", "return_false"),
        job("parent", "add_children", after=["start"], children=3),
        job("after-parent", after=["parent"]),
        job("double", "add_one_that_is_there", after=["start"]),
        job("big", filler=FILLER),
        job("slow", "outlast_the_test", timeout_seconds=TIMEOUT_SECONDS),
        job("after-slow", after=["slow"]),
        job("promising", "add_one_that_waits_for_ever"),
        job("after-promising", after=["promising"]),
    ]
    return [each for each in jobs if each["job_id"] not in set(without)]


class JobMaker:
    """Writes a job as a pipeline's file has it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __call__(
        self,
        job: str,
        function: str = "succeed",
        *,
        after: Iterable[str] = (),
        job_name: str | None = None,
        max_retries: int = 0,
        timeout_seconds: float | None = None,
        **parameters: Any,
    ) -> dict[str, Any]:
        parameters |= {
            "job": job_name or job,
            "log": str(self._folder / "log.jsonl"),
            "counter": str(self._folder / f"{job}.runs"),
        }
        return {
            "job_id": job,
            "function": f"pipeline_jobs.{function}",
            "depends_on": sorted(after) or None,
            "parameters": parameters,
            "max_retries": max_retries,
            "timeout_seconds": timeout_seconds,
        }


def write_pipeline(place: Place, jobs: list[dict[str, Any]], **submitter: Any) -> Path:
    """The file that ``pyantz`` is called with."""
    local = {"type_": "local_proc", "working_directory": str(place.work), "poll_timeout": 0.1}
    pipeline = {"submitter": local | submitter, "jobs": jobs, "variables": {"name": "start"}}
    path = place.folder / "pipeline.json"
    path.write_text(json.dumps(pipeline))
    return path


def observe(place: Place, *options: str) -> Facts:
    """What is seen of a folder's run, by a process that has the same class in place."""
    status = place.run("-m", "observed", place.folder, *options)
    assert status == 0, f"exit status {status}:\n{place.said()}"
    # The jobs wrote a line for each time that one was run.
    assert place.log.exists(), f"no job was run:\n{place.said()}"
    log = [json.loads(line) for line in place.log.read_text().splitlines()]
    facts: Facts = json.loads((place.folder / "facts.json").read_text())
    return facts | {"log": log}


def run_pool(place: Place) -> Facts:
    """Three workers, each a process."""
    jobs = whole_pipeline(place.folder)
    write_pipeline(place, jobs, number_processes=3, progress_interval=0.5)
    return observe(place, "--start")


def run_same_process(place: Place) -> Facts:
    """No worker but the process that was started."""
    write_pipeline(place, whole_pipeline(place.folder), use_same_proc=True)
    return observe(place, "--start")


def run_command_line(place: Place) -> Facts:
    """Twice in one directory: pyantz removes the first run's queue; then ``pyantz-status``."""
    without = ("slow", "after-slow", "promising", "after-promising")
    jobs = whole_pipeline(place.folder, without=without)
    path = write_pipeline(place, jobs, number_processes=2)
    exits = []
    for _ in range(2):
        for left in (place.log, *place.folder.glob("*.runs")):
            left.unlink(missing_ok=True)
        exits.append(place.run("-m", "pyantz", path))
    exits.append(place.run("-m", "pyantz.status", place.work, output="status.txt"))
    told = (place.folder / "status.txt").read_text().splitlines()
    return observe(place) | {"exits": exits, "told": told}


def run_killed_worker(place: Place) -> Facts:
    """One of two workers is killed while it runs a job."""
    job = JobMaker(place.folder)
    jobs = [
        job("dying", "kill_the_worker"),
        job("after-dying", after=["dying"]),
        job("other", seconds=1.0),
        job("after-other", after=["other"]),
    ]
    write_pipeline(place, jobs, number_processes=2)
    return observe(place, "--start")


def run_stopped(place: Place) -> Facts:
    """SIGTERM while a job runs."""
    job = JobMaker(place.folder)
    jobs = [job("running", "outlast_the_test"), job("after-running", after=["running"])]
    path = write_pipeline(place, jobs, number_processes=1)
    deadline = time.monotonic() + RUN_SECONDS
    with place.started("-m", "pyantz", path) as process:
        while not place.log.exists() and process.poll() is None:
            assert time.monotonic() < deadline, f"no job was run:\n{place.said()}"
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        status = process.wait(RUN_SECONDS)
    return observe(place) | {"exits": [status]}


def run_loading(place: Place) -> Facts:
    """A job is taken whose function was not imported before."""
    for step in ("--add", "--take"):
        status = place.run("-m", "loading", step)
        assert status == 0, f"exit status {status}:\n{place.said()}"
    facts: Facts = json.loads((place.folder / "facts.json").read_text())
    return facts


def example_run(name: str) -> Run:
    """A run of one of pyantz's examples, as it is shipped: only its ``/tmp`` is another folder."""

    def run_example(place: Place) -> Facts:
        source = place.folder / "examples" / name
        shutil.copytree(place.client.examples / name, source)
        for file in (*source.glob("*.json"), *source.glob("*.py")):
            file.write_text(re.sub(r"/tmp/(?=pyantz_)", f"{place.folder}/", file.read_text()))
        path = source / "pipeline.json"
        work = Path(json.loads(path.read_text())["submitter"]["working_directory"])
        (work / MADE_BEFORE.get(name, ".")).mkdir(parents=True)
        exits = [place.run(script) for script in source.glob("setup*.py")]
        exits.append(place.run("-m", "pyantz", path.relative_to(place.folder)))
        exits.append(place.run("-m", "pyantz.status", work, output="status.txt"))
        told = (place.folder / "status.txt").read_text().splitlines()
        return {"exits": exits, "told": told, "files": _files_made(work)}

    return run_example


def _files_made(work: Path) -> list[str]:
    """A run's own ids, which are in some names, are new each time."""
    own = re.compile(r"[0-9a-f]{8}(-?[0-9a-f]{4}){3}-?[0-9a-f]{12}")
    paths = [path.relative_to(work).as_posix() for path in work.rglob("*")]
    return sorted(own.sub("<id>", path) for path in paths if not path.startswith("queue.db"))


EXAMPLES = (
    "01_hello_world",
    "02_file_operations",
    "03_data_analysis",
    "04_conditional_branching",
    "05_parameter_sweep",
    "06_subprocess",
    "07_variables",
    "10_custom_jobs",
)
MADE_BEFORE = {
    # pyantz drops what a virtual job waits for: another job makes this folder just in time, or not.
    "07_variables": "my_analysis/v1",
    # Its set-up script puts its data there.
    "03_data_analysis": ".",
}
RUNS: dict[str, Run] = {
    "pool": run_pool,
    "same process": run_same_process,
    "command line": run_command_line,
    "killed worker": run_killed_worker,
    "stopped": run_stopped,
    "loading": run_loading,
    **{name: example_run(name) for name in EXAMPLES},
}


class Runs:
    """The runs that tests ask for, several at once, each of them once."""

    def __init__(self, client: Client, folder: Path) -> None:
        self._client = client
        self._folder = folder
        self._pool = ThreadPoolExecutor(AT_ONCE)
        self._started: dict[tuple[str, str], Future[Facts]] = {}

    def begin(self, name: str, queue_class: str) -> Future[Facts]:
        """Start it, unless it was."""
        if (name, queue_class) not in self._started:
            begun = self._pool.submit(self._run, name, queue_class)
            self._started[name, queue_class] = begun
        return self._started[name, queue_class]

    def facts_of(self, name: str, queue_class: str) -> Facts:
        """What was seen of it, once it ended."""
        return self.begin(name, queue_class).result()

    def _run(self, name: str, queue_class: str) -> Facts:
        folder = self._folder / uuid.uuid4().hex  # the form of a run id
        folder.mkdir()
        return RUNS[name](Place(self._client, queue_class, folder))

    def close(self) -> None:
        """Begin no more, and leave nothing running."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._client.stop()
        self._pool.shutdown()
