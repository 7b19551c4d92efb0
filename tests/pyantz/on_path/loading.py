"""A job whose function is slow to import: how it stands meanwhile, for other processes.

``--add`` puts it in the folder's queue, ``--take`` takes it and writes ``facts.json``, and
``--status`` says how it stands.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

FILE = "queue.db"
seen = []


def on_import():
    """Called by the function's module; what another process sees then is not what this one may."""
    if "--take" in sys.argv:
        asked = [sys.executable, "-m", "loading", "--status"]
        seen.append(subprocess.run(asked, capture_output=True, text=True, check=True).stdout)


def main():
    from pyantz.infrastructure.config import JobWithContext
    from pyantz.infrastructure.distributed_queue.sql import SqliteQueue

    queue = SqliteQueue(Path(FILE))
    if "--add" in sys.argv:
        job = JobWithContext(job_id="slow", function="told_at_import.run", parameters={})
        assert queue.add_job(job, None)
    elif "--status" in sys.argv:
        sys.stdout.write(queue.get_job_status("slow").status.name)
    else:
        taken = queue.get_job().payload.job.job_id
        standing = queue.get_job_status("slow").status.name
        facts = {"taken": taken, "while it was imported": seen, "then": standing}
        Path("facts.json").write_text(json.dumps(facts))


if __name__ == "__main__":
    main()
