"""Runs the pipeline of a folder in this process (``--start``), and writes what is seen of it.

The folder holds ``pipeline.json``, whose working directory is its ``work``, and is given
``facts.json``.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from pathlib import Path


def facts_of_queue(file):
    from pyantz.infrastructure.distributed_queue.common import JobStatus
    from pyantz.infrastructure.distributed_queue.sql import SqliteQueue

    queue = SqliteQueue(file)
    ids = {status.name: queue.get_job_ids_with_status(status) for status in JobStatus}
    reports = [queue.get_job_status(job) for jobs in ids.values() for job in jobs]
    return {
        "ids": ids,
        "statuses": {each.job_id: [each.status.name, each.status_details] for each in reports},
        "failed": [each.job_id for each in queue.get_failed_jobs()],
        "next": queue.get_job().payload.type_,
        "counts": queue.get_jobs_report().model_dump(),
    }


def facts_of_start(folder):
    from pyantz import start
    from pyantz.status import describe_run

    report = start(json.loads((folder / "pipeline.json").read_text()))
    told = describe_run(folder / "work")
    return {
        "report": {**report.model_dump(), "all_succeeded": report.all_succeeded},
        "told": told.splitlines(),
        "api": facts_of_api(folder),
    }


def facts_of_api(folder):
    """What pyantz's web interface shows of the run: it knows it by the folder's name."""
    os.environ["PYANTZ_RUNS_DIR"] = str(folder.parent)
    from pyantz.api.endpoints.pipelines.endpoints import get_run

    run = get_run(folder.name)
    return {"state": run.state, "statuses": {job.job_id: job.status for job in run.jobs}}


def main():
    logging.basicConfig(level=logging.INFO)
    folder = Path(sys.argv[1])
    facts = facts_of_start(folder) if "--start" in sys.argv else {}
    facts["process"] = os.getpid()
    facts["files"] = sorted(path.name for path in (folder / "work").iterdir())
    facts |= facts_of_queue(folder / "work" / "queue.db")
    (folder / "facts.json").write_text(json.dumps(facts))


if __name__ == "__main__":
    main()
