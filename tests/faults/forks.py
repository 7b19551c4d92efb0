"""Runs commands in processes forked from one that has imported everything: ``python forks.py``.

Each line on stdin is a command as JSON: ``argv`` (of ``uvicorn`` or ``jobroom``), ``folder``,
``environment`` and ``largest`` (bytes that a file may have, None for no limit). The answer is its
exit code, None where it still ran after a while and was killed, and its output.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import time
import traceback

import uvicorn.lifespan.on
import uvicorn.loops.auto
import uvicorn.main
import uvicorn.protocols.http.auto
import uvicorn.protocols.websockets.auto
from alembic import command as _migrations  # noqa: F401 - so that each process need not

import app as _app  # noqa: F401 - as above
from jobroom import bootstrap as _server  # noqa: F401 - as above
from jobroom.cli import main as command_line

LONGEST_SECONDS = 30


def run(command):
    read_end, write_end = os.pipe()  # a file would be as full as the disk; 64 KiB fit into it
    pid = os.fork()
    if pid == 0:
        be(command, write_end)
    os.close(write_end)
    code = code_of(pid)
    with open(read_end, encoding="utf-8") as output:  # noqa: PTH123 - a pipe has no path
        return {"code": code, "output": output.read()}


def be(command, output):
    """The child's part; does not return."""
    code = 70
    try:
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.chdir(command["folder"])
        os.environ.clear()
        os.environ.update(command["environment"])
        if command["largest"] is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (command["largest"], -1))
        program, *arguments = command["argv"]
        main = {"uvicorn": uvicorn.main.main, "jobroom": command_line.app}[program]
        main(arguments, prog_name=program)
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(bool(end.code))
    except BaseException:  # noqa: BLE001 - told, as the interpreter would
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def code_of(pid):
    deadline = time.monotonic() + LONGEST_SECONDS
    while time.monotonic() < deadline:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return None


if __name__ == "__main__":
    for line in sys.stdin:
        print(json.dumps(run(json.loads(line))), flush=True)  # noqa: T201 - its answer
