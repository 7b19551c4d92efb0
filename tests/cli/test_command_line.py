"""``jobroom`` on the command line: its verbs, and errors as one sentence each."""

from __future__ import annotations

import asyncio
import os
import resource
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import httpx
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from pydantic import SecretStr

from jobroom import JobLibSettings, JobQueue, create_app, tokens
from jobroom.cli import main
from jobroom.domain.records import Caller, SweepReport
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

    def run(*arguments, before=None, **settings):
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
            preexec_fn=before,
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


def test_a_new_key_is_told_beside_the_token_and_an_old_one_is_not(jobroom, tmp_path):
    """In the wrong folder a new key would make tokens that no server accepts."""
    first, second = (jobroom("token", "--sub", "alice") for _ in range(2))
    for done in (first, second):
        assert done.returncode == 0
        assert len(done.stdout.split()) == 1
    assert first.stderr.startswith(f"jobroom: made a new key, {tmp_path}/jobroom.db.key;")
    assert f"a server on the database {tmp_path}/jobroom.db accepts" in first.stderr
    assert first.stderr.count("\n") == 1
    assert second.stderr == ""


def test_a_configured_secret_makes_no_key(jobroom, tmp_path):
    assert jobroom("token", "--sub", "alice", jwt_secret=SECRET).stderr == ""
    assert list(tmp_path.iterdir()) == []


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
    assert done.stdout.splitlines() == [
        "workers judged: yes",
        "workers lost: 1",
        "tasks pending again: 0",
        "tasks failed: 1",
        "tasks timed out: 0",
        "tasks expired: 0",
        "orphan jobs hidden: 1",
        "stuck tasks settled: 0",
        "old tasks removed: 0",
        "tasks submitted by schedules: 0",
    ]
    with JobQueue.open(settings) as queue:
        shown = queue.run(reading.get_task, caller=Caller("w"), task_id=task.id)
        assert shown.task.status == "failed"


def test_a_sweep_after_an_outage_says_why_nobody_is_judged():
    lines = main.report_lines(SweepReport(judged=False))
    assert lines[0] == "workers judged: no (after an outage they get one timeout to beat first)"


def test_every_count_of_a_sweep_has_its_words():
    assert {"judged", *main.SWEPT} == set(SweepReport._fields)


def test_a_sweep_without_a_database_makes_none(jobroom, tmp_path):
    """A cron job in the wrong folder must not report success for ever."""
    done = jobroom("sweep")
    assert_one_sentence(done, f"no database {tmp_path}/jobroom.db", "ZNDRAW_JOBLIB_DATABASE_URL")
    assert list(tmp_path.iterdir()) == []


def test_a_sweep_that_cannot_write_says_what_to_check(jobroom, tmp_path):
    jobroom("db", "upgrade")
    with closing(sqlite3.connect(tmp_path / "jobroom.db")) as other:
        other.execute("BEGIN IMMEDIATE")
        done = jobroom("sweep", database_busy_seconds=0.1)
    logged, told = done.stderr.splitlines()
    assert (done.returncode, done.stdout) == (1, "")
    assert logged.startswith("store.unavailable ")
    assert told.startswith(f"jobroom: The database {tmp_path}/jobroom.db cannot be written: ")
    assert "room" in told
    assert "may write" in told


def test_an_upgrade_that_finds_the_disk_full_says_what_to_check(jobroom, tmp_path):
    def fill_disk():
        resource.setrlimit(resource.RLIMIT_FSIZE, (80 * 1024, 80 * 1024))

    done = jobroom("db", "upgrade", before=fill_disk)
    assert_one_sentence(done, "jobroom.db cannot be written", "room", "may write")


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
        (
            {"allowed_categories": "a,b"},
            'ZNDRAW_JOBLIB_ALLOWED_CATEGORIES: must be a JSON list, such as ["modifiers"].',
        ),
        ({"allowed_categories": '["a", 1]'}, "ZNDRAW_JOBLIB_ALLOWED_CATEGORIES.1"),
        (
            {"jwt_algorithms": '"HS256"'},
            'ZNDRAW_JOBLIB_JWT_ALGORITHMS: must be a JSON list, such as ["RS256"].',
        ),
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


def test_a_name_that_is_no_setting_is_told_and_never_refused(jobroom):
    done = jobroom("token", "--sub", "a", jwt_secret=SECRET, worker_timeout_second="5")
    assert done.returncode == 0
    assert done.stderr == (
        "settings.unknown name=ZNDRAW_JOBLIB_WORKER_TIMEOUT_SECOND"
        " known=ZNDRAW_JOBLIB_WORKER_TIMEOUT_SECONDS\n"
    )


def test_a_name_like_no_other_is_told_without_a_guess(jobroom):
    done = jobroom("token", "--sub", "a", jwt_secret=SECRET, zzzzzzzzzzzzzzzzzzzzzzzz="5")
    assert done.stderr.endswith("known=none\n")


@pytest.mark.parametrize("url", ["sqlite:///file:x.db", "sqlite:///file:x.db?uri=true"])
def test_a_file_uri_is_refused_as_a_database(jobroom, tmp_path, url):
    for command in (("sweep",), ("db", "upgrade")):
        assert_one_sentence(jobroom(*command, database_url=url), "a path, not a file: URI")
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_verb_is_refused_with_a_hint(jobroom):
    done = jobroom("swep")
    assert done.returncode == 2
    assert "No such command" in done.stderr
    assert "Traceback" not in done.stderr
