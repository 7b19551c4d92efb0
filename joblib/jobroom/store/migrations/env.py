"""What alembic runs: our migrations on the connection that ``store.migrate`` has opened."""

from __future__ import annotations

from alembic import context

from jobroom.store.schema import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    transactional_ddl=False,
)
context.run_migrations()
