"""The embedded queue's words for what it keeps: its jobs are tasks, of functions, in ``@local``."""

from __future__ import annotations

import hashlib
import re
from uuid import UUID

ROOM = "@local"
CATEGORY = "functions"

_NAMESPACE = UUID("06585a3e-9c99-41e1-ae02-a8c94a1b3d70").bytes
_UUID = re.compile("[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII | re.IGNORECASE)
_UUID_LENGTH = 36
_VARIANTS = {f"{digit:x}": f"{8 | digit & 3:x}" for digit in range(16)}


def task_id_of(job_id: str) -> str:
    """The id of the task that a job's name stands for: a UUID for itself, else one made of it.

    >>> task_id_of("0190163D-8694-739B-AEA5-966C26F8AD91")
    '0190163d-8694-739b-aea5-966c26f8ad91'
    >>> task_id_of("relax") == task_id_of("relax") != task_id_of("Relax")
    True
    """
    if len(job_id) == _UUID_LENGTH and _UUID.fullmatch(job_id):
        return job_id.lower()
    # What no text can hold is no error here: there is simply no such job.
    name = _NAMESPACE + job_id.encode("utf-8", "surrogatepass")
    digits = hashlib.sha1(name, usedforsecurity=False).hexdigest()
    # Version 5 and its variant (RFC 9562, 5.5); each submission makes one of these.
    head = f"{digits[:8]}-{digits[8:12]}-5{digits[13:16]}"
    return f"{head}-{_VARIANTS[digits[16]]}{digits[17:20]}-{digits[20:32]}"
