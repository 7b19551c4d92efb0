"""Run by Python at the start of each process whose PYTHONPATH holds this folder."""

from __future__ import annotations

import swapped_queue

swapped_queue.install()
