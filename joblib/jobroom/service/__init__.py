"""Use cases: plain functions of an open transaction; the queue alone opens one."""
