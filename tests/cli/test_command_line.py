"""``jobroom`` on the command line: its verbs, and errors as one sentence each."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from pydantic import SecretStr

from jobroom import JobLibSettings, JobQueue, create_app, tokens
from jobroom.domain.records import Caller
from jobroom.service import claiming, reading, registration, submission

ROOT = Path(__file__).parents[2]
SECRET = "a shared secret of more than 32 bytes"
PUBLIC_PEM = (
    ec.generate_private_key(ec.SECP256R1())
    .public_key()
    .public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    .decode()
)


@pytest.fixture
def jobroom(tmp_path):
    """A function that runs ``jobroom`` in a folder of its own, with these settings."""

    def run(*arguments, **settings):
        kept = {k: v for k, v in os.environ.items() if not k.startswith("ZNDRAW_JOBLIB_")}
        ours = {f"ZNDRAW_JOBLIB_{name.upper()}": str(value) for name, value in settings.items()}
        return subprocess.run(
            [sys.executable, "-m", "jobroom.cli.main", *arguments],
            cwd=tmp_path,
            env={**kept, **ours, "PYTHONPATH": str(ROOT / "joblib"), "TERM": "dumb"},
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    return run


def answer_of(settings, token, path="/v1/me"):
    """What a server with these settings says to the bearer of a token."""
    app = create_app(settings)

    async def ask():
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as http:
            return await http.get(path, headers={"authorization": f"Bearer {token}"})

    try:
        return asyncio.run(ask())
    finally:
        app.state.door.close()


def assert_one_sentence(done, *words):
    """Exit code 1, one line on stderr that says what to do, and nothing else."""
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.startswith("jobroom: ")
    assert done.stderr.count("\n") == 1, done.stderr
    for word in words:
        assert word in done.stderr


def test_help_lists_every_verb(jobroom):
    done = jobroom("--help")
    assert done.returncode == 0
    for verb in ("demo", "token", "sweep", "db"):
        assert f" {verb} " in done.stdout
    assert " upgrade " in jobroom("db", "--help").stdout


def test_a_token_with_nothing_configured_opens_the_local_server(jobroom, tmp_path):
    """Design 6: ``jobroom token`` makes tokens, by the key beside the database."""
    done = jobroom("token", "--sub", "alice")
    settings = JobLibSettings(database_url=f"sqlite:///{tmp_path}/jobroom.db")
    answer = answer_of(settings, done.stdout.strip())
    assert answer.json() == {"id": "alice", "is_admin": False, "rooms": None}
    assert (tmp_path / "jobroom.db.key").stat().st_mode & 0o777 == 0o600


def test_a_tokens_options_are_its_claims(jobroom):
    """Design 6: --sub alice [--admin] [--rooms r1,r2] [--hours 8]."""
    options = ("--sub", "root", "--admin", "--rooms", "r1, r2", "--hours", "1")
    done = jobroom("token", *options, jwt_secret=SECRET)
    settings = JobLibSettings(jwt_secret=SecretStr(SECRET))
    answer = answer_of(settings, done.stdout.strip())
    assert answer.json() == {"id": "root", "is_admin": True, "rooms": ["r1", "r2"]}
    verified, _ = tokens.verifier_from_settings(settings, local_key_path=None)
    hour = tokens.time.time() + 3600
    assert verified.verify(done.stdout.strip().encode()).expires_at == pytest.approx(hour, abs=60)


def test_a_server_that_only_checks_makes_no_tokens(jobroom):
    assert_one_sentence(jobroom("token", "--sub", "a", jwt_public_key=PUBLIC_PEM), "issuer")


def test_a_sub_that_no_server_takes_is_refused(jobroom):
    assert_one_sentence(jobroom("token", "--sub", ""), "sub")


def test_a_sweep_counts_what_it_did(jobroom, tmp_path):
    """Contract, *The sweep*: ``jobroom sweep`` is one of its doors; it returns counts."""
    settings = JobLibSettings(database_url=f"sqlite:///{tmp_path}/jobroom.db")
    hour_ago = -3600 * 1_000_000
    with JobQueue.open(settings, clock_offset=hour_ago) as queue:
        task = hold_a_task(queue)
    done = jobroom("sweep")
    assert done.returncode == 0
    counts = dict(line.split() for line in done.stdout.splitlines())
    assert counts["judged"] == "True"
    assert (counts["lost_workers"], counts["failed_tasks"]) == ("1", "1")
    with JobQueue.open(settings) as queue:
        shown = queue.run(reading.get_task, caller=Caller("w"), task_id=task.id)
        assert shown.task.status == "failed"


def hold_a_task(queue):
    worker = Caller("w")
    spec = registration.JobSpec("modifiers", "Rotate")
    registered = queue.run(registration.register_job, caller=worker, room_id="r1", spec=spec)
    queue.run(
        submission.submit_task,
        caller=worker,
        room_id="r1",
        job=registered.view.job,
        new=submission.NewTask("{}"),
    )
    (claimed,) = queue.run(claiming.claim_tasks, caller=worker)
    return claimed.task


def test_db_upgrade_makes_the_database_and_does_nothing_twice(jobroom, tmp_path):
    """Design 8: migrations are run by ``jobroom db upgrade``."""
    first, second = jobroom("db", "upgrade"), jobroom("db", "upgrade")
    assert (first.returncode, second.returncode) == (0, 0)
    assert "empty -> " in first.stdout
    version = first.stdout.split()[-1]
    assert f"{version} -> {version}" in second.stdout
    assert (tmp_path / "jobroom.db").exists()


def test_a_folder_that_is_not_there_is_one_sentence(jobroom):
    """Case C38: a missing folder is refused with one clear sentence."""
    for command in (("sweep",), ("db", "upgrade")):
        done = jobroom(*command, database_url="sqlite:///nowhere/queue.db")
        assert_one_sentence(done, "nowhere does not exist", "ZNDRAW_JOBLIB_DATABASE_URL")


def test_a_database_of_a_newer_version_is_one_sentence(jobroom, tmp_path):
    """Case C38: a file of a newer schema version is refused."""
    jobroom("db", "upgrade")
    connection = sqlite3.connect(tmp_path / "jobroom.db")
    connection.execute("UPDATE alembic_version SET version_num = '9999'")
    connection.commit()
    connection.close()
    assert_one_sentence(jobroom("sweep"), "9999", "newer")


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"worker_timeout_seconds": "soon"}, "ZNDRAW_JOBLIB_WORKER_TIMEOUT_SECONDS"),
        ({"allowed_categories": "a,b"}, "allowed_categories"),
        ({"jwt_secret": "short"}, "ZNDRAW_JOBLIB_JWT_SECRET"),
    ],
)
def test_a_setting_that_does_not_fit_is_one_sentence(jobroom, settings, named):
    assert_one_sentence(jobroom("token", "--sub", "a", **settings), named)


def test_a_secret_in_the_wrong_place_is_not_repeated(jobroom):
    """Design 6: no secret in a log or a message."""
    done = jobroom("token", "--sub", "a", worker_timeout_seconds=SECRET)
    assert_one_sentence(done, "ZNDRAW_JOBLIB_WORKER_TIMEOUT_SECONDS")
    assert SECRET not in done.stderr


def test_an_unknown_verb_is_refused_with_a_hint(jobroom):
    done = jobroom("swep")
    assert done.returncode == 2
    assert "No such command" in done.stderr
    assert "Traceback" not in done.stderr
