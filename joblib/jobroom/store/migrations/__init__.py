"""Alembic's environment and versions, run by ``jobroom.store.migrate``."""
