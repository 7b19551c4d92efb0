"""The settings: the only module that reads the environment (prefix ``ZNDRAW_JOBLIB_``)."""

from __future__ import annotations

import difflib
import json
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, SecretStr, ValidationError
from pydantic_settings import (
    BaseSettings,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
)

PREFIX = "ZNDRAW_JOBLIB_"
SECRETS = Path("/run/secrets")
"""Where docker, podman and Kubernetes put secrets: files named after the variables."""

log = logging.getLogger(__name__)

TEN_YEARS = 10 * 365 * 24 * 3600.0
PositiveSeconds = Annotated[float, Field(gt=0, le=TEN_YEARS)]
SecondsOrOff = Annotated[float, Field(ge=0, le=TEN_YEARS)]


def _list_like(example: str) -> BeforeValidator:
    # Read here, not by pydantic-settings, whose own error does not name the variable.
    def read(given: object) -> object:
        if not isinstance(given, str):
            return given
        try:
            listed = json.loads(given)
        except ValueError:
            listed = None
        if isinstance(listed, list):
            return listed
        raise ValueError(f"must be a JSON list, such as {example}")

    return BeforeValidator(read)


class JobLibSettings(BaseSettings):
    """All settings with their defaults; the seed's four keep its names.

    >>> JobLibSettings(worker_timeout_seconds=5).worker_timeout_seconds
    5.0
    """

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, env_ignore_empty=True, frozen=True, extra="ignore"
    )

    allowed_categories: Annotated[list[str], NoDecode, _list_like('["modifiers"]')] = [
        "modifiers",
        "selections",
        "analysis",
    ]
    worker_timeout_seconds: PositiveSeconds = 60
    sweeper_interval_seconds: SecondsOrOff = 30
    long_poll_max_wait_seconds: SecondsOrOff = 120

    database_url: str = "sqlite:///jobroom.db"
    database_url_arn: str | None = None
    database_busy_seconds: PositiveSeconds = 10
    database_connections: Annotated[int, Field(ge=1, le=1000)] = 8
    database_auth_token: SecretStr | None = None
    database_auth_token_file: str | None = None
    database_auth_token_arn: str | None = None
    sqlite_synchronous: Literal["FULL", "NORMAL"] = "FULL"

    auth_mode: Literal["jwt", "local"] | None = None
    jwt_secret: SecretStr | None = None
    jwt_secret_arn: str | None = None
    jwt_public_key: str | None = None
    jwt_jwks_url: str | None = None
    jwt_algorithms: Annotated[list[str] | None, NoDecode, _list_like('["RS256"]')] = None
    jwt_issuer: str | None = None
    jwt_audience: str | None = None
    jwt_require_exp: bool = True

    max_body_bytes: Annotated[int, Field(ge=1024)] = 1024 * 1024
    max_result_bytes: Annotated[int, Field(ge=1024)] = 16 * 1024 * 1024
    max_log_bytes: Annotated[int, Field(ge=0)] = 1024 * 1024
    max_answer_bytes: Annotated[int, Field(ge=64 * 1024)] | None = None
    max_waiters: Annotated[int, Field(ge=0)] = 10_000
    task_retention_seconds: PositiveSeconds = 7 * 24 * 3600

    gateway_timeout_seconds: SecondsOrOff = 30
    gateway_reserve_seconds: PositiveSeconds = 1.5
    gateway_base_path: str = ""
    secrets_refresh_seconds: PositiveSeconds = 300

    log_format: Literal["text", "json"] = "text"
    metrics_namespace: Annotated[str, Field(pattern=r"^[A-Za-z0-9._#/:-]{1,255}$")] = "jobroom"

    @classmethod
    def settings_customise_sources(  # type: ignore[override]  # a source may be any callable
        cls,
        settings_cls: type[BaseSettings],  # noqa: ARG003 - the library passes it by name
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - as above
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[Callable[[], dict[str, Any]], ...]:
        """Where settings are looked for, in this order."""

        def files() -> dict[str, Any]:
            # An empty file says as little as an empty variable.
            return {name: value for name, value in file_secret_settings().items() if value != ""}

        return init_settings, env_settings, files


ON_LAMBDA: dict[str, Any] = {
    # A body is base64 in the event, of 6 MiB in all, and so may be the answer's: 4/3 of its size.
    "max_result_bytes": 4 * 1024 * 1024,
    "max_answer_bytes": 4_500_000,
    "log_format": "json",
}
"""Defaults of a function on AWS Lambda, where the platform's own limits are lower."""


def read_settings() -> JobLibSettings:
    """The environment's settings; raises ValueError with one sentence on what does not fit.

    What the environment does not say may stand in a file of that name in ``/run/secrets``.
    A name that is no setting, a typing error perhaps, is logged and never refused.
    """
    given = {name.upper() for name, value in os.environ.items() if value}
    platform = {
        field: value
        for field, value in (ON_LAMBDA if on_lambda() else {}).items()
        if PREFIX + field.upper() not in given
    }
    try:
        _warn_of_unknown()
        folder = SECRETS if SECRETS.is_dir() else None
        return JobLibSettings(_secrets_dir=folder, **platform)  # type: ignore[call-arg]  # its own
    except (SettingsError, UnicodeDecodeError, OSError) as error:
        message = f"A file in {SECRETS} cannot be read: {error.__cause__ or error}."
    except ValidationError as error:
        # Without the value: a secret may stand in the wrong place.
        faults = "; ".join(
            f"{_variable_of(fault['loc'])}: {fault['msg'].removeprefix('Value error, ')}"
            for fault in error.errors(include_input=False, include_url=False)
        )
        message = f"A setting does not fit: {faults}."
    raise ValueError(message)


def _warn_of_unknown() -> None:
    known = [PREFIX + field.upper() for field in JobLibSettings.model_fields]
    files = {path.name for path in SECRETS.iterdir()} if SECRETS.is_dir() else set()
    for name in sorted(files.union(os.environ)):
        if name.upper().startswith(PREFIX) and name.upper() not in known:
            near = difflib.get_close_matches(name.upper(), known, n=1)
            log.warning("settings.unknown name=%s known=%s", name, *near or ["none"])


def _variable_of(place: tuple[int | str, ...]) -> str:
    return ".".join((PREFIX + str(place[0]).upper(), *map(str, place[1:])))


def on_lambda() -> bool:
    """Whether this process is a function on AWS Lambda."""
    return "AWS_LAMBDA_FUNCTION_NAME" in os.environ


def server_address(arguments: list[str]) -> str:
    """Where this server will be reached, by uvicorn's command line and environment.

    >>> server_address(["app:app", "--port", "9000"])
    'http://127.0.0.1:9000'
    """
    host = _option(arguments, "host") or "127.0.0.1"
    # A server that listens everywhere is reached here, too: on IPv6 it has no IPv4 address.
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - recognised, not bound
    port = _option(arguments, "port") or "8000"
    scheme = "https" if _option(arguments, "ssl-certfile") else "http"
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"


def _option(arguments: list[str], name: str) -> str | None:
    for position, argument in enumerate(arguments):
        if argument == f"--{name}" and position + 1 < len(arguments):
            return arguments[position + 1]
        if argument.startswith(f"--{name}="):
            return argument.partition("=")[2]
    return os.environ.get(f"UVICORN_{name.upper().replace('-', '_')}")
