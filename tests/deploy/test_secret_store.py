"""Secrets by ARN: moto's Secrets Manager and parameter store on loopback, asked by real boto3."""

from __future__ import annotations

import logging
import os
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace

import boto3
import live_server
import psycopg
import pytest
from moto.server import ThreadedMotoServer
from servers import Postgres, Sqld

from jobroom import keys, secret_place, secret_store, tokens
from jobroom.domain.records import Caller
from jobroom.errors import ConfigurationError, StoreUnavailable, Unauthorized
from jobroom.service import registration, submission
from jobroom.service.queue import JobQueue
from jobroom.settings import JobLibSettings
from jobroom.store import dialect, migrate

REGION = "eu-west-1"
HIDDEN = "Hush-"
"""Every secret of these tests begins so: nothing that is printed may hold it."""
KEYS = [f"{HIDDEN}key-{number}-of-more-than-32-bytes" for number in range(4)]
NOWHERE = f"arn:aws:secretsmanager:{REGION}:123456789012:secret:nowhere-AbCdEf"
ADMIN = Caller("alice", is_admin=True)
PREFIX = "ZNDRAW_JOBLIB_"
CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "AKIAIOSFODNN7EXAMPLE",
    "AWS_SECRET_ACCESS_KEY": f"{HIDDEN}access",
    "AWS_SESSION_TOKEN": f"{HIDDEN}session",
    "AWS_EC2_METADATA_DISABLED": "true",
}


class Aws:
    """A Secrets Manager and a parameter store, with what is in them."""

    def __init__(self, endpoint):
        self.environment = {**CREDENTIALS, "AWS_ENDPOINT_URL": endpoint}
        options = {"region_name": REGION, "endpoint_url": endpoint}
        options |= {"aws_access_key_id": "x", "aws_secret_access_key": "x"}
        self.manager = boto3.client("secretsmanager", **options)
        self.parameters = boto3.client("ssm", **options)
        self._count = 0

    def keep(self, text):
        """The ARN of a new secret; ``bytes`` are kept as binary."""
        self._count += 1
        kind = "SecretBinary" if isinstance(text, bytes) else "SecretString"
        made = self.manager.create_secret(Name=f"secret{self._count}", **{kind: text})
        return made["ARN"]

    def keep_parameter(self, text):
        self._count += 1
        name = f"/jobroom/parameter{self._count}"
        self.parameters.put_parameter(Name=name, Value=text, Type="SecureString")
        return self.parameters.get_parameter(Name=name)["Parameter"]["ARN"]

    def rotate(self, arn, text):
        self.manager.put_secret_value(SecretId=arn, SecretString=text)


@pytest.fixture(scope="module")
def aws():
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    made = Aws(f"http://{host}:{port}")
    yield made
    made.manager.close()
    made.parameters.close()
    server.stop()
    server._server.server_close()


@pytest.fixture
def surroundings(monkeypatch):
    """Put these variables into the environment, and forget the clients of another one."""

    def put(**variables):
        for name in [name for name in os.environ if name.startswith(("AWS_", PREFIX))]:
            monkeypatch.delenv(name)
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        forget()

    def forget():
        made = secret_place._make_client
        for service in ("secretsmanager", "ssm"):
            if made.cache_info().currsize:
                for patience in (secret_place.PATIENT, secret_place.HURRIED):
                    made(service, REGION, patience)[0].close()
        made.cache_clear()

    yield put
    forget()


@pytest.fixture
def inside(aws, surroundings):
    """This process has credentials for the store of secrets."""
    surroundings(**aws.environment)
    return aws


@pytest.fixture
def asked(monkeypatch):
    """What was asked of the store of secrets: the stages, in order; ``before`` runs before each."""
    found = SimpleNamespace(stages=[], before=lambda: None)
    ask = secret_place._ask

    def counting(place, stage, patience):
        found.stages.append(stage)
        found.before()
        return ask(place, stage, patience)

    monkeypatch.setattr(secret_place, "_ask", counting)
    return found


@pytest.fixture
def clock(monkeypatch):
    """The time of day and the other clock, as the store of secrets sees them."""
    moved = SimpleNamespace(seconds=0.0)
    real = time.time, time.monotonic
    seen = SimpleNamespace(
        time=lambda: real[0]() + moved.seconds, monotonic=lambda: real[1]() + moved.seconds
    )
    for module in (secret_store, secret_place):
        monkeypatch.setattr(module, "time", seen)
    return moved


def url_of(**settings):
    return secret_store.database_url(JobLibSettings(**settings), str)


def token_of(arn, **settings):
    made = secret_store.database_auth_token(JobLibSettings(database_auth_token_arn=arn, **settings))
    assert made is not None
    return made


def refusal_of(arn):
    """The one sentence that is said of a secret that cannot be had."""
    with pytest.raises((ConfigurationError, StoreUnavailable)) as caught:
        token_of(arn).value()
    said = str(caught.value)
    assert said.startswith("ZNDRAW_JOBLIB_DATABASE_AUTH_TOKEN_ARN")
    assert "\n" not in said
    assert HIDDEN not in said
    return type(caught.value), said


class TestReading:
    def test_a_secret_is_read_by_its_arn(self, inside):
        assert token_of(inside.keep("Hush-token\n")).value() == "Hush-token"

    def test_a_parameter_is_read_and_decrypted_by_its_arn(self, inside):
        assert token_of(inside.keep_parameter("Hush-parameter")).value() == "Hush-parameter"

    @pytest.mark.parametrize("keep", ["keep", "keep_parameter"])
    def test_a_member_of_a_json_secret_is_chosen_behind_a_hash(self, inside, keep):
        arn = getattr(inside, keep)('{"token": "Hush-one", "other": "Hush-two"}')
        assert token_of(f"{arn}#token").value() == "Hush-one"
        assert token_of(f"{arn}#other").value() == "Hush-two"

    def test_a_key_is_what_is_kept_to_the_last_byte(self, inside):
        arn = inside.keep(KEYS[0] + "\n")
        settings = JobLibSettings(jwt_secret_arn=arn)
        made = secret_store.jwt_secret(settings, str, refused_seconds=1)
        assert made is not None
        assert made.value() == KEYS[0] + "\n"

    def test_the_json_that_aws_rotates_for_a_database_is_its_url(self, inside):
        arn = inside.keep(
            '{"engine": "postgres", "host": "db.example.com", "port": 5433, "dbname": "queue",'
            ' "username": "jobroom", "password": "Hush-/@:#?%"}'
        )
        url = url_of(database_url_arn=arn).value()
        assert url == "postgresql://jobroom:Hush-%2F%40%3A%23%3F%25@db.example.com:5433/queue"

    def test_an_instance_shows_its_arn_and_nothing_more(self, inside):
        made = token_of(inside.keep("Hush-token"))
        made.value()
        assert HIDDEN not in repr(made) + str(made)
        assert HIDDEN not in repr(secret_store.Fixed("Hush-url"))


class TestRefusals:
    """Contract, settings: whatever is wrong is one sentence, at start, without the secret."""

    @pytest.mark.parametrize(
        ("text", "member", "said"),
        [
            (b"Hush-bytes", "", "is binary; store it as text"),
            ("  ", "", "is empty"),
            ('{"a": "Hush-one"}', "", "say which member of it by #MEMBER"),
            ('{"a": "Hush-one"}', "#b", "is no JSON object with the text 'b'"),
            ('{"a": {"b": "Hush-one"}}', "#a", "is no JSON object with the text 'a'"),
            ("Hush-text", "#a", "is no JSON object with the text 'a'"),
        ],
    )
    def test_a_secret_of_another_shape(self, inside, text, member, said):
        kind, sentence = refusal_of(inside.keep(text) + member)
        assert kind is ConfigurationError
        assert said in sentence

    @pytest.mark.parametrize(
        "arn", [NOWHERE, f"arn:aws:ssm:{REGION}:123456789012:parameter/nowhere"]
    )
    def test_a_secret_that_does_not_exist(self, inside, arn):
        kind, sentence = refusal_of(arn)
        assert kind is ConfigurationError
        assert "does not exist in that account and region" in sentence

    @pytest.mark.parametrize(
        ("status", "code", "kind", "said"),
        [
            (400, "AccessDeniedException", ConfigurationError, "secretsmanager:GetSecretValue"),
            (400, "DecryptionFailure", ConfigurationError, "kms:Decrypt"),
            (400, "ExpiredTokenException", ConfigurationError, "renew them"),
            (400, "InvalidRequestException", ConfigurationError, "(InvalidRequestException)"),
            (400, "ThrottlingException", StoreUnavailable, "try again soon"),
            (500, "InternalServiceError", StoreUnavailable, "try again soon"),
            (502, "", StoreUnavailable, "try again soon"),
        ],
    )
    def test_a_secret_that_aws_does_not_give(self, surroundings, status, code, kind, said):
        with Refusing(status, code) as server:
            surroundings(**CREDENTIALS, AWS_ENDPOINT_URL=server.url)
            found, sentence = refusal_of(NOWHERE)
        assert found is kind
        assert said in sentence
        assert server.requests <= secret_place.MOST_TRIES

    def test_no_credentials(self, aws, surroundings):
        surroundings(
            AWS_EC2_METADATA_DISABLED="true",
            AWS_ENDPOINT_URL=aws.environment["AWS_ENDPOINT_URL"],
            AWS_CONFIG_FILE=os.devnull,
            AWS_SHARED_CREDENTIALS_FILE=os.devnull,
        )
        kind, sentence = refusal_of(NOWHERE)
        assert kind is ConfigurationError
        assert "without credentials for AWS" in sentence

    def test_a_network_that_is_away(self, surroundings):
        nowhere = f"http://127.0.0.1:{live_server.free_port()}"
        surroundings(**CREDENTIALS, AWS_ENDPOINT_URL=nowhere)
        kind, sentence = refusal_of(NOWHERE)
        assert kind is StoreUnavailable
        assert "does not answer; check the network" in sentence

    def test_boto3_that_is_not_installed(self, surroundings, monkeypatch):
        surroundings()
        monkeypatch.setitem(sys.modules, "boto3", None)
        kind, sentence = refusal_of(NOWHERE)
        assert kind is ConfigurationError
        assert sentence.endswith("pip install boto3")

    @pytest.mark.parametrize(
        "arn",
        ["Hush-token", "arn:aws:s3:::bucket", NOWHERE.replace("secret:", "parameter/")],
    )
    def test_what_is_no_arn_is_not_repeated(self, arn):
        with pytest.raises(ConfigurationError, match="is no ARN of a secret") as caught:
            token_of(arn)
        assert arn not in str(caught.value)

    @pytest.mark.parametrize(
        ("both", "names"),
        [
            ({"database_url": "sqlite:///jobroom.db", "database_url_arn": NOWHERE}, "URL"),
            ({"database_auth_token": "Hush-1", "database_auth_token_arn": NOWHERE}, "TOKEN"),
            ({"database_auth_token_file": "f", "database_auth_token_arn": NOWHERE}, "TOKEN_FILE"),
            ({"jwt_secret": KEYS[0], "jwt_secret_arn": NOWHERE}, "JWT_SECRET"),
            ({"jwt_public_key": "key", "jwt_secret_arn": NOWHERE}, "JWT_PUBLIC_KEY"),
        ],
    )
    def test_the_same_thing_said_in_two_ways(self, both, names):
        settings = JobLibSettings(**both)
        opener = keys.configured_keys if "jwt_secret_arn" in both else dialect.open_database
        if "database_url_arn" not in both:
            settings = settings.model_copy(update={"database_url": "http://127.0.0.1:1"})
        with pytest.raises(ConfigurationError, match="Set only one of ZNDRAW_JOBLIB_") as caught:
            opener(settings)
        assert names in str(caught.value)
        assert HIDDEN not in str(caught.value)

    def test_a_url_that_names_no_database_says_so_without_itself(self, inside):
        settings = JobLibSettings(database_url_arn=inside.keep("mysql://u:Hush-pw@host/db"))
        with pytest.raises(ConfigurationError, match=r"URL_ARN: .* does not fit") as caught:
            dialect.open_database(settings)
        assert HIDDEN not in str(caught.value)

    def test_a_key_that_is_too_short(self, inside):
        settings = JobLibSettings(jwt_secret_arn=inside.keep("Hush-short"))
        with pytest.raises(ConfigurationError, match="JWT_SECRET_ARN is too short"):
            tokens.verifier_from_settings(settings, local_key_path=None)

    def test_a_database_by_arn_has_no_local_key_beside_the_default_file(self):
        with pytest.raises(ConfigurationError, match="Nothing says whose tokens to accept"):
            tokens.token_for_settings(JobLibSettings(database_url_arn=NOWHERE), sub="alice")


class TestRefreshing:
    def test_it_is_read_once_until_it_has_aged(self, inside, asked, clock):
        arn = inside.keep("Hush-one")
        made = token_of(arn, secrets_refresh_seconds=60)
        assert [made.value() for _ in range(3)] == ["Hush-one"] * 3
        inside.rotate(arn, "Hush-two")
        clock.seconds = 58
        assert made.value() == "Hush-one"
        assert len(asked.stages) == 1
        clock.seconds = 61
        assert [made.value() for _ in range(3)] == ["Hush-two"] * 3
        assert len(asked.stages) == 2

    def test_an_aws_that_hangs_keeps_no_request_as_long_as_a_gateway_waits(
        self, inside, surroundings, asked, clock
    ):
        """Three secrets age together, and one request renews all of them in a row."""
        made = [token_of(inside.keep("Hush-one"), secrets_refresh_seconds=60) for _ in range(3)]
        assert [each.value() for each in made] == ["Hush-one"] * 3
        with socket.create_server(("127.0.0.1", 0)) as deaf:
            port = deaf.getsockname()[1]
            surroundings(**CREDENTIALS, AWS_ENDPOINT_URL=f"http://127.0.0.1:{port}")
            clock.seconds = 61
            began = time.monotonic()
            assert [each.value() for each in made] == ["Hush-one"] * 3
            # One connect or one read each; with the patience of a first reading it is 27 s.
            assert time.monotonic() - began < 15
        assert len(asked.stages) == 6

    def test_a_clock_that_was_set_back_does_not_keep_it_for_ever(self, inside, asked, clock):
        made = token_of(inside.keep("Hush-one"))
        made.value()
        clock.seconds = -100_000
        made.value()
        assert len(asked.stages) == 2

    def test_many_threads_ask_once(self, inside, asked):
        made = token_of(inside.keep("Hush-one"))
        with ThreadPoolExecutor(16) as pool:
            assert {*pool.map(lambda _: made.value(), range(64))} == {"Hush-one"}
        assert len(asked.stages) == 1

    def test_nobody_else_waits_for_a_refresh(self, inside, asked, clock):
        made = token_of(inside.keep("Hush-one"), secrets_refresh_seconds=60)
        made.value()
        clock.seconds = 61
        is_asking, may_go = threading.Event(), threading.Event()
        asked.before = lambda: (is_asking.set(), may_go.wait(30))
        with ThreadPoolExecutor(1) as pool:
            first = pool.submit(made.value)
            assert is_asking.wait(30)
            assert made.value() == "Hush-one"
            assert not first.done()
            may_go.set()
            assert first.result(30) == "Hush-one"
        assert len(asked.stages) == 2

    def test_a_refresh_that_fails_keeps_the_last_value_and_is_logged_once(
        self, inside, surroundings, clock, caplog
    ):
        arn = inside.keep("Hush-one")
        made = token_of(arn, secrets_refresh_seconds=60)
        made.value()
        with Refusing(400, "AccessDeniedException") as server:
            surroundings(**CREDENTIALS, AWS_ENDPOINT_URL=server.url)
            for seconds in (61, 62, 100, 101, 200):
                clock.seconds = seconds
                assert made.value() == "Hush-one"
            assert server.requests == 3  # at 61, 100 and 200: once in 30 seconds
        told = [record.message for record in caplog.records if record.name.startswith("jobroom")]
        assert [line.split()[0] for line in told] == ["secret.kept"]
        inside.rotate(arn, "Hush-two")
        surroundings(**inside.environment)
        clock.seconds = 300
        caplog.set_level(logging.INFO, "jobroom")
        assert made.value() == "Hush-two"
        assert caplog.records[-1].message.startswith("secret.renewed")
        assert HIDDEN not in caplog.text

    def test_a_first_failure_is_not_repeated_by_everybody(self, surroundings):
        with Refusing(400, "AccessDeniedException") as server:
            surroundings(**CREDENTIALS, AWS_ENDPOINT_URL=server.url)
            made = token_of(NOWHERE)
            for _ in range(10):
                with pytest.raises(ConfigurationError, match="may not be read"):
                    made.value()
        assert server.requests < 10

    def test_a_refused_one_is_read_again_at_once_and_then_not_too_often(self, inside, asked, clock):
        arn = inside.keep("Hush-one")
        made = token_of(arn)
        made.value()
        inside.rotate(arn, "Hush-two")
        assert made.replace("Hush-one")
        assert made.value() == "Hush-two"
        assert made.replace("Hush-one"), "somebody else has read it"
        assert len(asked.stages) == 2
        assert [made.replace("Hush-two") for _ in range(20)] == [False] * 20
        assert len(asked.stages) == 3
        clock.seconds = 4
        assert not made.replace("Hush-two")
        assert len(asked.stages) == 4

    def test_one_that_does_not_fit_never_replaces_a_good_one(self, inside, caplog):
        arn = inside.keep("postgresql://u:Hush-pw@127.0.0.1:1/db")
        database = dialect.open_database(JobLibSettings(database_url_arn=arn))
        for wrong in ("Hush-nonsense", "http://127.0.0.1:1", "postgresql://u:Hush-@/@h/db"):
            inside.rotate(arn, wrong)
            url = database._login._url
            url._refuse_until = 0.0
            assert not url.replace(url.value())
            assert url.value().startswith("postgresql://u:Hush-pw@")
        assert "secret.kept" in caplog.text
        assert HIDDEN not in caplog.text
        database.close()


class TestKeys:
    """Tokens that are signed with a secret by ARN, around its rotation."""

    @pytest.fixture
    def rotated(self, inside):
        """A secret in its second version, and a verifier that knows of it."""
        arn = inside.keep(KEYS[0])
        inside.rotate(arn, KEYS[1])
        return arn, verifier(arn)

    def test_the_current_and_the_previous_secret_verify_and_no_other(self, rotated):
        _, checking = rotated
        assert checking.verify(signed(KEYS[0])).caller.identity == "alice"
        assert checking.verify(signed(KEYS[1])).caller.identity == "alice"
        with pytest.raises(Unauthorized, match="of another key"):
            checking.verify(signed(KEYS[2]))

    def test_tokens_are_made_with_the_current_one(self, rotated):
        arn, _ = rotated
        made = tokens.token_for_settings(JobLibSettings(jwt_secret_arn=arn), sub="alice")
        alone = tokens.TokenVerifier(keys.shared_key(KEYS[1]))
        assert alone.verify(made.encode()).caller.identity == "alice"

    def test_the_previous_one_ends_a_day_after_the_rotation(self, rotated, clock):
        arn, _ = rotated
        clock.seconds = secret_store.OVERLAP_SECONDS + 10
        checking = verifier(arn)
        checking.verify(signed(KEYS[1]))
        with pytest.raises(Unauthorized, match="of another key"):
            checking.verify(signed(KEYS[0]))

    def test_a_token_of_a_new_secret_is_accepted_at_once(self, inside, rotated, asked):
        arn, checking = rotated
        checking.verify(signed(KEYS[1]))
        inside.rotate(arn, KEYS[2])
        assert checking.verify(signed(KEYS[2])).caller.identity == "alice"
        assert asked.stages == ["AWSCURRENT", "AWSPREVIOUS"]

    def test_forged_tokens_do_not_hammer_the_store_of_secrets(self, rotated, asked):
        _, checking = rotated
        for number in range(20):
            with pytest.raises(Unauthorized):
                checking.verify(signed(KEYS[3], sub=f"mallory{number}"))
        assert len(asked.stages) == 2

    def test_a_remembered_token_does_not_outlive_its_secret(self, inside, rotated, clock):
        arn, checking = rotated
        token = signed(KEYS[0])
        checking.verify(token)
        assert checking.recall(token) is not None
        inside.rotate(arn, KEYS[2])  # now the previous one is 1, and 0 is nothing
        clock.seconds = 301
        assert checking.recall(token) is None
        with pytest.raises(Unauthorized, match="of another key"):
            checking.verify(token)
        assert checking.recall(token) is None

    def test_a_remembered_token_is_remembered_on_where_nothing_was_rotated(self, rotated, clock):
        _, checking = rotated
        token = signed(KEYS[0])
        first = checking.verify(token)
        clock.seconds = 301
        assert checking.verify(token) is first
        assert checking.recall(token) is first

    def test_a_parameter_has_no_previous_version(self, inside, asked):
        checking = verifier(inside.keep_parameter(KEYS[0]))
        checking.verify(signed(KEYS[0]))
        assert asked.stages == ["AWSCURRENT"]


class TestProcesses:
    def test_nothing_is_fetched_at_import_or_for_help(self):
        arns = dict.fromkeys(("database_url_arn", "jwt_secret_arn"), NOWHERE)
        script = (
            "import sys, app, jobroom.cli.main as cli\n"
            "try: cli.app(['db', 'upgrade', '--help'])\n"
            "except SystemExit as end: assert not end.code\n"
            "assert 'boto3' not in sys.modules and 'botocore' not in sys.modules"
        )
        run([sys.executable, "-W", "error", "-c", script], arns)

    def test_the_command_line_upgrades_the_database_that_the_arn_names(self, aws, tmp_path):
        arns = {"database_url_arn": aws.keep(f"sqlite:///{tmp_path}/queue.db")}
        said = run(["upgrade"], arns, aws.environment)
        assert str(tmp_path / "queue.db") in said
        assert (tmp_path / "queue.db").exists()
        assert not list(tmp_path.glob("*.key"))

    def test_the_command_line_says_one_sentence(self, aws):
        said = run(["upgrade"], {"database_url_arn": NOWHERE}, aws.environment, code=1)
        assert said.startswith("jobroom: ZNDRAW_JOBLIB_DATABASE_URL_ARN: the secret arn:aws:")
        assert said.count("\n") == 1

    def test_a_server_says_one_sentence_and_ends(self, aws, tmp_path):
        settings = {"database_url": "sqlite:///queue.db", "jwt_secret_arn": NOWHERE}
        with live_server.Server(tmp_path, extra=aws.environment, **settings) as server:
            assert server.process.wait(live_server.START_SECONDS) != 0
            assert "does not exist in that account and region" in server.output
            assert "Traceback" not in server.output


class Load:
    """Submissions without a pause, by some threads, until the end of the ``with``."""

    def __init__(self, server, *, threads=3):
        self._server = server
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._submit) for _ in range(threads)]
        self.token = ""
        self.answers = []

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *exc):
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def more(self, count=20):
        """Wait until so many more were answered."""
        wanted = len(self.answers) + count
        deadline = time.monotonic() + 60
        while len(self.answers) < wanted:
            assert time.monotonic() < deadline, "the load has stopped"
            time.sleep(0.01)

    def _submit(self):
        with self._server.client(self.token) as client:
            while not self._stop.is_set():
                client.headers["authorization"] = f"Bearer {self.token}"
                answer = client.post(live_server.JOB, json={"payload": {}})
                self.answers.append((answer.status_code, answer.text))


class TestRotationUnderLoad:
    """A rotation is invisible to clients, and no output holds a secret."""

    @pytest.fixture
    def serve(self, aws, tmp_path):
        # Everything that anybody has to tell is told.
        (tmp_path / "noisy.py").write_text(
            "import logging\nlogging.basicConfig(level=logging.DEBUG)\nfrom app import *\n"
        )
        opened = []

        def start(**settings):
            # Cached for long: only a refusal makes the server look again.
            settings = {"secrets_refresh_seconds": 3600, "database_busy_seconds": 5, **settings}
            extra = aws.environment
            run(["upgrade"], settings, extra)
            server = live_server.Server(tmp_path, app="noisy:app", extra=extra, **settings)
            opened.append(server)
            return server.until_ready()

        yield start
        for server in opened:
            server.kill()
            assert HIDDEN not in server.output
            assert "Traceback" not in server.output

    def test_a_password_of_postgresql(self, aws, serve, record_property):
        with Postgres(fsync=False, in_memory=True) as database:
            database.start()
            login = Login(database)
            arn, key = aws.keep(login.url), aws.keep(KEYS[0])
            server = serve(database_url_arn=arn, jwt_secret_arn=key)
            with admin(server, KEYS[0]) as client:
                live_server.register(client)
            load = Load(server)
            load.token = signed(KEYS[0], is_admin=True).decode()
            with load:
                for number in range(1, 4):
                    load.more()
                    login.change(f"{HIDDEN}pw-{number}")
                    aws.rotate(arn, login.url)
                    aws.rotate(key, KEYS[number])
                    load.more()
                    load.token = signed(KEYS[number], is_admin=True).decode()
                    load.more()
                    database.terminate_backends("postgres")
                    load.more()
            check(load, server, login.password, record_property)

    @pytest.mark.parametrize("scheme", ["http", "libsql+client"])
    def test_a_token_of_libsql(self, inside, scheme, asked, caplog, record_property):
        """The queue itself, as a token that ends within seconds is too old for a new process."""
        with Sqld(auth=True, in_memory=True) as database:
            url = f"{scheme}://127.0.0.1:{database.start().port}" + "?tls=0" * (scheme != "http")
            migrated(url, long := database.token())
            # The server takes a token until 60 seconds after its end.
            arn = inside.keep(held := database.token(expires_in=-54))
            caplog.set_level(logging.DEBUG)
            settings = JobLibSettings(
                database_url=url, database_auth_token_arn=arn, secrets_refresh_seconds=3600
            )
            with JobQueue.open(settings) as queue, Submitting(queue) as load:
                load.more()
                inside.rotate(arn, fresh := database.token())
                until_refused(database, held)
                if scheme != "http":  # a WebSocket that is open stays open; a new one is refused
                    queue.database.transport._link.retire()
                load.more()
            assert load.done == queue_size(database, fresh)
        assert len(asked.stages) == 2
        assert all(token not in caplog.text for token in (long, held, fresh))
        record_property("counted", f"rotation of a libSQL token: {load.done} submits, none failed")

    def test_a_token_in_the_url_of_libsql(self, inside):
        """The URL's host may change as well; what is asked next goes to the new one."""
        with Sqld(auth=True, in_memory=True) as one, Sqld(auth=True, in_memory=True) as two:
            for server in (one.start(), two.start()):
                migrated(server.url, server.token())
            arn = inside.keep(f"{one.url}?authToken={one.token()}")
            settings = JobLibSettings(database_url_arn=arn, secrets_refresh_seconds=3600)
            with JobQueue.open(settings) as queue:
                submit_to(queue)
                inside.rotate(arn, f"{two.url}?authToken={two.token()}")
                assert queue.database._url.replace(queue.database._url.value())
                submit_to(queue)
                assert queue.database.location == two.url
            assert (queue_size(one, one.token()), queue_size(two, two.token())) == (1, 1)


class Submitting(Load):
    """The same without the door; ``done`` is how many were submitted, and none may fail."""

    def __init__(self, queue, *, threads=3):
        super().__init__(queue, threads=threads)
        self._failures = []

    def __exit__(self, *exc):
        super().__exit__(*exc)
        assert not self._failures

    @property
    def done(self):
        return len(self.answers)

    def _submit(self):
        try:
            while not self._stop.is_set():
                self.answers.append(submit_to(self._server))
        except Exception as error:
            self._failures.append(error)
            raise


def submit_to(queue):
    """Submit a task, of a job that is registered by the way."""
    spec = registration.JobSpec("modifiers", "Rotate")
    job = queue.run(registration.register_job, caller=ADMIN, room_id="r1", spec=spec).view.job
    new = submission.NewTask("{}")
    return queue.run(submission.submit_task, caller=ADMIN, room_id="r1", job=job, new=new)


def migrated(url, token):
    settings = JobLibSettings(database_url=url, database_auth_token=token)
    with closing(dialect.open_database(settings)) as opened:
        migrate.upgrade(opened)


def queue_size(server, token):
    settings = JobLibSettings(database_url=server.url, database_auth_token=token)
    with closing(dialect.open_database(settings)) as opened:
        return opened.read("SELECT count(*) FROM task")[0][0]


class Login:
    """A user of a PostgreSQL with a password, which is looked at; the administrator has none."""

    def __init__(self, database):
        self._database = database
        rules = database.folder / "data" / "pg_hba.conf"
        rules.write_text(
            "host all postgres 127.0.0.1/32 trust\nhost all all 127.0.0.1/32 scram-sha-256\n"
        )
        database.execute("SELECT pg_reload_conf()")
        database.execute("CREATE ROLE queue LOGIN")
        database.execute("GRANT ALL ON SCHEMA public TO queue")
        self.change(f"{HIDDEN}pw-0")

    @property
    def url(self):
        return f"postgresql://queue:{self.password}@127.0.0.1:{self._database.port}/postgres"

    def change(self, password):
        self.password = password
        self._database.execute(f"ALTER ROLE queue PASSWORD '{password}'")
        wrong = self.url.replace(password, f"{HIDDEN}wrong")
        with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
            psycopg.connect(wrong)


def check(load, server, secret, record_property):
    assert {status for status, _ in load.answers} == {202}
    assert all(HIDDEN not in text and secret not in text for _, text in load.answers)
    assert secret not in server.output
    record_property("counted", f"rotation under load: {len(load.answers)} requests, all 202")


def until_refused(database, token):
    """Wait until the server does not take the token any more."""
    settings = JobLibSettings(database_url=database.url, database_auth_token=token)
    with (
        closing(dialect.open_database(settings)) as opened,
        pytest.raises(ConfigurationError, match="refuses the token"),
    ):
        ask_for_a_minute(opened)


def ask_for_a_minute(opened):
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        opened.read("SELECT 1")
        time.sleep(0.1)


def verifier(arn, **settings):
    settings = JobLibSettings(jwt_secret_arn=arn, **settings)
    made, local_key = tokens.verifier_from_settings(settings, local_key_path=None)
    assert local_key is None
    assert made.may_fetch
    return made


def signed(secret, sub="alice", **claims):
    return tokens.issue_token(secret, sub=sub, **claims).encode()


def admin(server, secret):
    return server.client(signed(secret, is_admin=True).decode())


def run(command, settings, extra=None, *, code=0):
    """Run a program, or a verb of ``jobroom db``; what it says, with no secret in it."""
    if len(command) == 1:
        command = [sys.executable, "-m", "jobroom.cli.main", "db", *command]
    done = subprocess.run(
        command,
        env={**live_server.environment(**settings), **(extra or {})},
        cwd=live_server.ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    said = done.stdout + done.stderr
    assert done.returncode == code, said
    assert HIDDEN not in said
    assert "Traceback" not in said
    return said


class Refusing:
    """An AWS that answers every request with an error of this code."""

    def __init__(self, status, code):
        counter = self
        self.requests = 0

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                counter.requests += 1
                self.rfile.read(int(self.headers["content-length"]))
                body = f'{{"__type": "{code}", "message": "no"}}'.encode() if code else b""
                self.send_response(status)
                self.send_header("content-type", "application/x-amz-json-1.1")
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *exc):
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def test_no_good_token_waits_while_a_bad_one_makes_us_ask_for_the_secret(inside, asked, clock):
    settings = JobLibSettings(jwt_secret_arn=inside.keep(KEYS[0]))
    verifier, _ = tokens.verifier_from_settings(settings, local_key_path=None)
    known, new, bad = (
        tokens.issue_token(key, sub=sub).encode()
        for key, sub in ((KEYS[0], "known"), (KEYS[0], "new"), (KEYS[1], "bad"))
    )
    verifier.verify(known)
    asking, may_answer = threading.Event(), threading.Event()

    def wait():
        asking.set()
        assert may_answer.wait(30)

    for seconds in (1, 1000):  # first a token makes us ask, then the age of the secret as well
        clock.seconds += seconds
        asked.before = wait
        with ThreadPoolExecutor() as pool:
            refused = pool.submit(verifier.verify, bad)
            assert asking.wait(30)
            assert verifier.recall(known).caller.identity == "known"
            assert verifier.verify_at_hand(new).caller.identity == "new"
            assert verifier.verify_at_hand(bad) is None
            may_answer.set()
            with pytest.raises(Unauthorized):
                refused.result()
        asking.clear()
        may_answer.clear()
