"""Where AWS keeps a secret, and asking it: the Secrets Manager and the SSM parameter store."""

from __future__ import annotations

import json
import logging
import re
import time
from functools import lru_cache
from typing import Any, NamedTuple
from urllib.parse import quote

from jobroom.errors import ConfigurationError, JobroomError, StoreUnavailable
from jobroom.settings import PREFIX

CONNECT_SECONDS, READ_SECONDS, MOST_TRIES = 2, 3, 3
RENEWAL_SECONDS, RENEWAL_TRIES = 1.5, 1
"""A request waits for a renewal, which is not worth its whole time: the last good value serves."""

_ARN = re.compile(
    r"(?P<name>arn:aws[a-z-]*:(?P<service>secretsmanager|ssm):(?P<region>[a-z0-9-]+):\d{12}"
    r":(?P<kind>secret:|parameter/)[^\s#]+)(?:#(?P<member>.+))?"
)
_KINDS = {"secretsmanager": "secret:", "ssm": "parameter/"}
_RIGHTS = {"secretsmanager": "secretsmanager:GetSecretValue", "ssm": "ssm:GetParameter"}
_MISSING = ("ResourceNotFoundException", "ParameterNotFound", "ParameterVersionNotFound")
_DENIED = ("AccessDenied", "DecryptionFailure", "InvalidKeyId", "KMSAccessDenied")
_LOGIN = ("UnrecognizedClient", "InvalidSignature", "ExpiredToken", "InvalidClientTokenId")
_LATER = ("Throttl", "TooManyRequests", "RequestLimitExceeded", "InternalServ", "ServiceUnavail")
_DATABASES = {"postgres": "postgresql", "postgresql": "postgresql"}
_TELLING = ("botocore.parsers", "botocore.endpoint", "botocore.auth")
"""Loggers that show, at their lowest level, answers with secrets and the keys to them."""


class Patience(NamedTuple):
    """How long AWS is asked: ``tries`` times, each so long."""

    connect_seconds: float
    read_seconds: float
    tries: int


PATIENT = Patience(CONNECT_SECONDS, READ_SECONDS, MOST_TRIES)
HURRIED = Patience(RENEWAL_SECONDS, RENEWAL_SECONDS, RENEWAL_TRIES)


class Place(NamedTuple):
    """Where a secret is kept. ``member``: it is JSON, and the secret is this member of it."""

    setting: str
    service: str
    region: str
    name: str
    member: str | None

    @property
    def variable(self) -> str:
        """The environment variable that names it."""
        return PREFIX + self.setting.upper()

    def fault(self, what: str) -> ConfigurationError:
        """The error that says what is wrong with it."""
        return ConfigurationError(f"{self.variable}: the secret {self.name} {what}.")


def of_arn(setting: str, arn: str) -> Place:
    """The place that a setting names by this text."""
    found = _ARN.fullmatch(arn.strip())
    if found is None or found["kind"] != _KINDS[found["service"]]:
        # Without what it says: it may be the secret itself.
        message = (
            f"{PREFIX}{setting.upper()} is no ARN of a secret; write"
            " arn:aws:secretsmanager:REGION:ACCOUNT:secret:NAME"
            " or arn:aws:ssm:REGION:ACCOUNT:parameter/NAME, with #MEMBER for one of a JSON"
            " one."
        )
        raise ConfigurationError(message)
    return Place(setting, found["service"], found["region"], found["name"], found["member"])


def read(place: Place, patience: Patience, stage: str = "AWSCURRENT") -> tuple[str, float]:
    """The text that is kept there, and for how many seconds it has been the current one."""
    answer = _ask(place, stage, patience)
    if place.service == "ssm":
        return _member(place, answer["Parameter"]["Value"]), 0.0
    if "SecretString" not in answer:
        raise place.fault("is binary; store it as text")
    created = answer.get("CreatedDate")
    age = 0.0 if created is None else time.time() - created.timestamp()
    return _member(place, answer["SecretString"]), age


def _member(place: Place, text: str) -> str:
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if place.member is None:
        if isinstance(found, dict):
            text = _url_of(place, found)
    elif isinstance(found, dict) and isinstance(found.get(place.member), str):
        text = found[place.member]
    else:
        raise place.fault(f"is no JSON object with the text {place.member!r}")
    if not text.strip():
        raise place.fault("is empty")
    # A key is what it is; an address or a token may have been stored with the end of its line.
    return text if place.setting == "jwt_secret_arn" else text.strip()


def _url_of(place: Place, found: dict[str, Any]) -> str:
    """The URL that is meant by the JSON which AWS itself keeps, and rotates, for a database."""
    scheme = _DATABASES.get(str(found.get("engine")))
    parts = [found.get(name) for name in ("username", "password", "host")]
    if place.setting != "database_url_arn" or scheme is None or None in parts:
        raise place.fault("is a JSON object; say which member of it by #MEMBER behind the ARN")
    user, password, host = (quote(str(part), safe="") for part in parts)
    name = quote(str(found.get("dbname") or "postgres"), safe="")
    return f"{scheme}://{user}:{password}@{host}:{found.get('port') or 5432}/{name}"


def _ask(place: Place, stage: str, patience: Patience) -> dict[str, Any]:
    client, faults = _client(place, patience)
    for name in _TELLING:
        teller = logging.getLogger(name)
        if teller.getEffectiveLevel() < logging.INFO:
            teller.setLevel(logging.INFO)
    try:
        found: dict[str, Any] = (
            client.get_parameter(Name=place.name, WithDecryption=True)
            if place.service == "ssm"
            else client.get_secret_value(SecretId=place.name, VersionStage=stage)
        )
    except faults.ClientError as error:
        raise _refusal(place, str(error.response.get("Error", {}).get("Code"))) from None
    except (faults.HTTPClientError, faults.ConnectionError):
        message = f"{place.variable}: AWS in {place.region} does not answer; check the network."
        raise StoreUnavailable(message) from None
    except faults.BotoCoreError as error:
        what = f"cannot be read without credentials for AWS ({type(error).__name__})"
        raise place.fault(what) from None
    return found


def _refusal(place: Place, code: str) -> JobroomError:
    if code in _MISSING:
        return place.fault("does not exist in that account and region")
    if code.startswith(_DENIED):
        what = f"may not be read; allow {_RIGHTS[place.service]}, and kms:Decrypt on a key of yours"
        return place.fault(what)
    if code.startswith(_LOGIN):
        return place.fault(f"cannot be read with these credentials for AWS ({code}); renew them")
    if code.startswith(_LATER) or code.isdigit():
        message = f"{place.variable}: AWS does not serve the secret now ({code}); try again soon."
        return StoreUnavailable(message)
    return place.fault(f"cannot be read ({code})")


def _client(place: Place, patience: Patience) -> tuple[Any, Any]:
    """The client of the service, and the module of its errors."""
    try:
        return _make_client(place.service, place.region, patience)
    except ImportError:
        message = f"{place.variable} needs boto3, which is not installed; run: pip install boto3"
        raise ConfigurationError(message) from None


@lru_cache(maxsize=8)
def _make_client(service: str, region: str, patience: Patience) -> tuple[Any, Any]:
    # Here, not above: most servers name no secret by an ARN, and it takes a while.
    import boto3
    from botocore import config, exceptions

    made = config.Config(
        connect_timeout=patience.connect_seconds,
        read_timeout=patience.read_seconds,
        retries={"total_max_attempts": patience.tries, "mode": "standard"},
    )
    # A session of our own: the shared one may be the host's, and is not for threads.
    client = boto3.session.Session().client(service, region_name=region, config=made)
    return client, exceptions
