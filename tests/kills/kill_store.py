"""The rows of a queue's file, read beside its servers: what really happened."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from contextlib import closing
from types import SimpleNamespace


class Store:
    """Looks into ``queue.db``, or whatever the file is called; writes nothing."""

    def __init__(self, path):
        self.path = path

    def open(self):
        return closing(sqlite3.connect(f"file:{self.path}?mode=ro", uri=True, timeout=10))

    def rows(self, query, *values):
        with self.open() as opened:
            opened.row_factory = sqlite3.Row
            return [SimpleNamespace(**row) for row in opened.execute(query, values)]

    def count(self, what, *values):
        (row,) = self.rows(f"SELECT count(*) AS n FROM {what}", *values)  # noqa: S608 - our own
        return row.n

    def tasks(self, job=None):
        """All tasks by id, or those of one job's name."""
        found = self.rows(
            "SELECT task.*, job.name AS job FROM task JOIN job ON job.seq = task.job_seq"
            " WHERE ? IS NULL OR job.name = ?",
            *(job, job),
        )
        return {row.id: row for row in found}

    def is_whole(self):
        (row,) = self.rows("PRAGMA integrity_check")
        return row.integrity_check == "ok" and not self.rows("PRAGMA foreign_key_check")

    def statuses(self):
        return Counter(row.status for row in self.rows("SELECT status FROM task"))


def payload_of(row):
    return json.loads(row.payload)


def result_of(row):
    return None if row.result is None else json.loads(row.result)
