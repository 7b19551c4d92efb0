"""A job's function, whose module tells the script that runs when it is imported."""

from __future__ import annotations

import sys

sys.modules["__main__"].on_import()


def run(parameters, submit):
    return True
