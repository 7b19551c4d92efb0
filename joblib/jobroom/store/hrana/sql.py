"""What the first word of a statement tells: whether it may write, or moves a transaction."""

from __future__ import annotations

import re
from collections.abc import Iterable

from jobroom.store.hrana.errors import ProgrammingError
from jobroom.store.hrana.transport import Step

_GAP = re.compile(r"(?:[\s;]|--[^\n]*(?:\n|\Z)|/\*.*?(?:\*/|\Z))*", re.DOTALL)
_WORD = re.compile(r"[a-z]+", re.IGNORECASE)
_READS = frozenset({"SELECT", "VALUES", "EXPLAIN"})
_ENDS = frozenset({"BEGIN", "COMMIT", "END", "ROLLBACK"})
_NESTS = frozenset({"SAVEPOINT", "RELEASE"})
_TO = re.compile(r"rollback\s+(transaction\s+)?to\b", re.IGNORECASE)
_PRAGMA = re.compile(r"pragma\s+(?:[\w\"]+\s*\.\s*)?(\w+)\s*(\S?)", re.IGNORECASE)
_PRAGMAS_WITH_AN_ARGUMENT = frozenset(
    {
        "table_info",
        "table_xinfo",
        "table_list",
        "index_list",
        "index_info",
        "index_xinfo",
        "foreign_key_list",
        "foreign_key_check",
        "integrity_check",
        "quick_check",
    }
)
_PRAGMAS_WITHOUT = frozenset(
    {"user_version", "foreign_keys", "journal_mode", "data_version", "database_list"}
)


def first_word(sql: str) -> str:
    r"""The first word in capitals, past comments and spaces; empty where there is none.

    >>> first_word("-- the best one\n/* of all */ with heads AS (SELECT 1) SELECT 1")
    'WITH'
    """
    found = _WORD.match(sql, _start(sql))
    return found[0].upper() if found else ""


def may_write(sql: str) -> bool:
    """Whether a statement may write: all that is not certainly a query.

    >>> may_write("SELECT 1"), may_write("PRAGMA table_info('task')"), may_write("WITH x AS ...")
    (False, False, True)
    """
    word = first_word(sql)
    if word == "PRAGMA":
        found = _PRAGMA.match(sql, _start(sql))
        return found is None or not _is_question(found[1].lower(), found[2])
    return word not in _READS


def check_inside(steps: Iterable[Step], *, nested: bool) -> None:
    """Refuse statements that begin or end a transaction: the transport alone does that.

    ``nested`` allows savepoints. Raises ProgrammingError.
    """
    for step in steps:
        word = first_word(step.sql)
        if word in _ENDS or word in _NESTS:
            is_inner = word in _NESTS or _TO.match(step.sql, _start(step.sql)) is not None
            if not (nested and is_inner):
                message = f"{word} cannot be a step: the transport begins and ends transactions."
                raise ProgrammingError(message, code="SQL_TRANSACTION")


def _is_question(pragma: str, after: str) -> bool:
    if pragma in _PRAGMAS_WITH_AN_ARGUMENT:
        return after != "="
    return pragma in _PRAGMAS_WITHOUT and after in ("", ";")


def _start(sql: str) -> int:
    found = _GAP.match(sql)
    return found.end() if found else 0
