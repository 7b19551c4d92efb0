"""The settings: the only module that reads the environment (prefix ``ZNDRAW_JOBLIB_``)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict

PositiveSeconds = Annotated[float, Field(gt=0)]


class JobLibSettings(BaseSettings):
    """All settings with their defaults; the seed's four keep its names.

    >>> JobLibSettings(worker_timeout_seconds=5).worker_timeout_seconds
    5.0
    """

    model_config = SettingsConfigDict(env_prefix="ZNDRAW_JOBLIB_", frozen=True, extra="ignore")

    allowed_categories: list[str] = ["modifiers", "selections", "analysis"]
    worker_timeout_seconds: PositiveSeconds = 60
    sweeper_interval_seconds: Annotated[float, Field(ge=0)] = 30
    long_poll_max_wait_seconds: Annotated[float, Field(ge=0)] = 120

    database_url: str = "sqlite:///jobroom.db"
    database_busy_seconds: PositiveSeconds = 10
    sqlite_synchronous: Literal["FULL", "NORMAL"] = "FULL"

    auth_mode: Literal["jwt", "local"] | None = None
    jwt_secret: SecretStr | None = None
    jwt_public_key: str | None = None
    jwt_jwks_url: str | None = None
    jwt_algorithms: list[str] | None = None
    jwt_issuer: str | None = None
    jwt_audience: str | None = None
    jwt_require_exp: bool = True

    max_body_bytes: Annotated[int, Field(ge=1024)] = 1024 * 1024
    max_result_bytes: Annotated[int, Field(ge=1024)] = 16 * 1024 * 1024
    max_waiters: Annotated[int, Field(ge=0)] = 10_000
    task_retention_seconds: PositiveSeconds = 7 * 24 * 3600
