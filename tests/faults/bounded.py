"""Runs a command as somebody whom file permissions bind: ``python bounded.py COMMAND...``.

To root they are advice. Root without the two capabilities that make it so is bound by them like
anybody else, and still owns the files that the test has made.
"""

from __future__ import annotations

import ctypes
import os
import sys

PR_CAPBSET_DROP = 24
CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH = 1, 2


def bind():
    """Drop what overrides permissions, for this process and what it executes."""
    if os.geteuid() != 0:
        return
    libc = ctypes.CDLL(None, use_errno=True)
    for capability in (CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH):
        if libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "root cannot be bound by permissions here")


if __name__ == "__main__":
    bind()
    os.execvp(sys.argv[1], sys.argv[1:])  # noqa: S606 - the command is the test's own
