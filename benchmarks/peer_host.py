"""The smallest host of zndraw-joblib 0.1.7: its router, its accounts, SQLite by aiosqlite.

Run by uvicorn in the environment that ``peer.py`` makes. ``PEER_DATABASE_URL`` names the file.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI  # type: ignore[import-not-found,unused-ignore]  # in the peer's venv
from pydantic import SecretStr
from sqlalchemy.ext.asyncio import async_sessionmaker
from zndraw_auth import (  # type: ignore[import-not-found]  # in the peer's venv
    AuthSettings,
    Base,
    auth_backend,
    create_engine_for_url,
    ensure_default_admin,
    fastapi_users,
)
from zndraw_joblib import (  # type: ignore[import-not-found]  # in the peer's venv
    JobLibSettings,
    ProblemException,
    problem_exception_handler,
    router,
)

EMAIL, PASSWORD = "bench@example.com", "benchmark"


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Make the tables and one admin."""
    engine = create_engine_for_url(os.environ["PEER_DATABASE_URL"])
    app.state.engine = engine
    app.state.session_maker = async_sessionmaker(engine, expire_on_commit=False)
    app.state.joblib_settings = JobLibSettings()
    app.state.auth_settings = AuthSettings(
        default_admin_email=EMAIL, default_admin_password=SecretStr(PASSWORD)
    )
    async with engine.begin() as connection:
        await connection.run_sync(Base.metadata.create_all)
    async with app.state.session_maker() as session:
        await ensure_default_admin(session, app.state.auth_settings)
    yield
    await engine.dispose()


app = FastAPI(lifespan=lifespan)
app.include_router(router)
app.include_router(fastapi_users.get_auth_router(auth_backend), prefix="/auth/jwt")
app.add_exception_handler(ProblemException, problem_exception_handler)
