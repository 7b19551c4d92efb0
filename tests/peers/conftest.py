"""What is no test here: a program for another environment."""

from __future__ import annotations

collect_ignore = ["peer_program.py"]  # needs zndraw-joblib
