"""The keys behind the tokens: design 6, contract *Settings*, rules *First start*."""

from __future__ import annotations

import inspect
import json
import os
import re
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, HTTPServer

import anyio
import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from jobroom import keys, tokens
from jobroom.errors import ConfigurationError, StoreUnavailable, Unauthorized
from jobroom.http import auth
from jobroom.settings import JobLibSettings

SECRET = "a shared secret of more than 32 bytes"
RSA_KEY = rsa.generate_private_key(65537, 2048)
EC_KEY = ec.generate_private_key(ec.SECP256R1())
ED_KEY = ed25519.Ed25519PrivateKey.generate()


def public_pem(key):
    encoding, form = serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    return key.public_key().public_bytes(encoding, form).decode()


def private_pem(key):
    encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    return key.private_bytes(encoding, form, serialization.NoEncryption()).decode()


class TestSharedSecret:
    def test_a_secret_under_32_bytes_names_its_setting(self):
        with pytest.raises(ConfigurationError, match=r"ZNDRAW_JOBLIB_JWT_SECRET.* 32"):
            keys.shared_key("x" * 31)

    def test_an_empty_secret_is_refused(self):
        with pytest.raises(ConfigurationError, match="JWT_SECRET"):
            keys.configured_keys(JobLibSettings(jwt_secret=""))

    def test_a_longer_hash_needs_a_longer_secret(self):
        with pytest.raises(ConfigurationError, match="64"):
            keys.shared_key("x" * 63, ["HS256", "HS512"])

    def test_bytes_are_counted_and_not_characters(self):
        assert keys.shared_key("é" * 16).algorithms == ("HS256",)

    def test_a_public_key_is_no_secret(self):
        with pytest.raises(ConfigurationError, match="JWT_SECRET must be random"):
            keys.shared_key(public_pem(RSA_KEY))

    def test_a_secret_that_is_no_text_is_refused(self):
        with pytest.raises(ConfigurationError, match="JWT_SECRET must be random"):
            keys.shared_key(os.fsdecode(b"\xff" * 40))

    @pytest.mark.parametrize("name", ["none", "None", "RS256", "HS1", ""])
    def test_other_algorithms_than_hs_are_refused(self, name):
        with pytest.raises(ConfigurationError, match="JWT_ALGORITHMS"):
            keys.shared_key(SECRET, ["HS256", name])

    def test_no_algorithm_at_all_is_refused(self):
        with pytest.raises(ConfigurationError, match="JWT_ALGORITHMS"):
            keys.shared_key(SECRET, [])


class TestPublicKey:
    @pytest.mark.parametrize(
        ("key", "algorithm"), [(RSA_KEY, "RS256"), (EC_KEY, "ES256"), (ED_KEY, "EdDSA")]
    )
    def test_only_what_fits_the_kind_of_key_is_accepted(self, key, algorithm):
        assert keys.public_key(public_pem(key)).algorithms == (algorithm,)

    @pytest.mark.parametrize("name", ["HS256", "none"])
    def test_hs_and_none_beside_a_public_key_are_refused(self, name):
        with pytest.raises(ConfigurationError, match="JWT_ALGORITHMS"):
            keys.public_key(public_pem(RSA_KEY), ["RS256", name])

    def test_a_key_of_another_kind_than_the_algorithms_is_refused(self):
        with pytest.raises(ConfigurationError, match=r"JWT_PUBLIC_KEY .* ES256"):
            keys.public_key(public_pem(RSA_KEY), ["ES256"])

    @pytest.mark.parametrize(
        "text", ["", "no key", public_pem(EC_KEY)[:80]], ids=["empty", "text", "cut"]
    )
    def test_what_is_no_key_is_refused(self, text):
        with pytest.raises(ConfigurationError, match="JWT_PUBLIC_KEY must hold"):
            keys.public_key(text)

    def test_a_private_key_is_refused_unspoken(self):
        pem = private_pem(EC_KEY)
        with pytest.raises(ConfigurationError, match="private") as refusal:
            keys.public_key(pem)
        assert pem.splitlines()[1] not in str(refusal.value)

    def test_a_short_rsa_key_is_refused(self):
        short = rsa.generate_private_key(65537, 1024)  # noqa: S505 - refused below
        with pytest.raises(ConfigurationError, match="2048"):
            keys.public_key(public_pem(short))

    def test_line_breaks_may_be_spelled_out(self):
        escaped = public_pem(EC_KEY).replace("\n", "\\n")
        assert keys.public_key(escaped).algorithms == ("ES256",)


class TestChoice:
    @pytest.mark.parametrize(
        "chosen",
        [
            {"jwt_secret": SECRET, "jwt_public_key": public_pem(EC_KEY)},
            {"jwt_secret": SECRET, "jwt_jwks_url": "https://issuer.example/keys"},
            {"jwt_public_key": public_pem(EC_KEY), "jwt_jwks_url": "https://issuer.example/keys"},
        ],
    )
    def test_more_than_one_key_is_refused_by_name(self, chosen):
        with pytest.raises(ConfigurationError) as refusal:
            keys.configured_keys(JobLibSettings(**chosen))
        assert all(f"ZNDRAW_JOBLIB_{name.upper()}" in str(refusal.value) for name in chosen)

    def test_local_mode_beside_a_key_is_refused(self):
        with pytest.raises(ConfigurationError, match="AUTH_MODE"):
            keys.configured_keys(JobLibSettings(jwt_secret=SECRET, auth_mode="local"))

    def test_nothing_configured_is_none(self):
        assert keys.configured_keys(JobLibSettings()) is None

    def test_a_public_key_in_the_settings_is_read(self):
        chosen = keys.configured_keys(JobLibSettings(jwt_public_key=public_pem(ED_KEY)))
        assert chosen.algorithms == ("EdDSA",)

    @pytest.mark.parametrize(
        "url", ["file:///etc/passwd", "ftp://issuer.example", "keys.json", "http://["]
    )
    def test_a_key_address_must_be_http(self, url):
        with pytest.raises(ConfigurationError, match="JWT_JWKS_URL"):
            keys.configured_keys(JobLibSettings(jwt_jwks_url=url))


class Issuer:
    """A key address on loopback that counts how often it is asked."""

    def __init__(self):
        self.body, self.asked = b"", 0
        self.is_asked, self.answers = threading.Event(), threading.Event()
        self.answers.set()
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                issuer.asked += 1
                issuer.is_asked.set()
                issuer.answers.wait(30)
                self.send_response(200)
                self.end_headers()
                self.wfile.write(issuer.body)

            def log_message(self, *args):
                """Say nothing."""

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/keys"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,))
        self.thread.start()

    def falls_silent(self):
        """From now on it lets whoever asks wait, until ``answers`` is set."""
        self.is_asked.clear()
        self.answers.clear()

    def publish(self, **named):
        algorithm = jwt.get_algorithm_by_name("ES256")
        listed = [
            algorithm.to_jwk(key.public_key(), as_dict=True) | {"kid": kid, "use": "sig"}
            for kid, key in named.items()
        ]
        self.body = json.dumps({"keys": listed}).encode()

    def close(self):
        self.answers.set()
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


@pytest.fixture
def issuer():
    issuer = Issuer()
    issuer.publish(first=EC_KEY)
    yield issuer
    issuer.close()


def signed(key, kid, algorithm="ES256", **claims):
    headers = {} if kid is None else {"kid": kid}
    claims = {"sub": "alice", "exp": 4_000_000_000} | claims
    return jwt.encode(claims, key, algorithm, headers=headers).encode()


class TestPublishedKeys:
    def test_a_token_of_a_published_key_verifies_and_the_key_is_fetched_once(self, issuer):
        verifier = tokens.TokenVerifier(keys.published_keys(issuer.url))
        callers = [verifier.verify(signed(EC_KEY, "first", sub=sub)).caller for sub in "abc"]
        assert [caller.identity for caller in callers] == ["a", "b", "c"]
        assert issuer.asked == 1

    def test_nothing_is_fetched_before_it_is_needed(self, issuer):
        keys.published_keys(issuer.url)
        assert issuer.asked == 0

    def test_an_unknown_key_asks_again_only_after_the_cooldown(self, issuer, monkeypatch):
        verifier = tokens.TokenVerifier(keys.published_keys(issuer.url))
        verifier.verify(signed(EC_KEY, "first"))
        second = ec.generate_private_key(ec.SECP256R1())
        issuer.publish(first=EC_KEY, second=second)
        with pytest.raises(Unauthorized, match="does not publish"):
            verifier.verify(signed(second, "second"))
        assert issuer.asked == 1
        later(monkeypatch, keys.COOLDOWN_SECONDS)
        assert verifier.verify(signed(second, "second")).caller.identity == "alice"
        assert issuer.asked == 2

    def test_a_key_that_is_withdrawn_ends_with_the_next_fetch(self, issuer, monkeypatch):
        verifier = tokens.TokenVerifier(keys.published_keys(issuer.url))
        verifier.verify(signed(EC_KEY, "first"))
        issuer.publish(second=ec.generate_private_key(ec.SECP256R1()))
        later(monkeypatch, keys.FRESH_SECONDS)
        with pytest.raises(Unauthorized, match="does not publish"):
            verifier.verify(signed(EC_KEY, "first", sub="bob"))

    def test_the_last_keys_serve_through_an_outage(self, issuer, monkeypatch):
        verifier = tokens.TokenVerifier(keys.published_keys(issuer.url))
        verifier.verify(signed(EC_KEY, "first"))
        issuer.body = b"<html>we are down</html>"
        later(monkeypatch, keys.FRESH_SECONDS)
        assert verifier.verify(signed(EC_KEY, "first", sub="bob")).caller.identity == "bob"
        assert issuer.asked == 2

    @pytest.mark.parametrize(
        "body", [b"", b"[]", b"{}", b'{"keys": []}', b'{"keys": [{"kty": "RSA", "kid": "first"}]}']
    )
    def test_an_issuer_that_gives_no_keys_is_503_and_not_asked_again_at_once(self, issuer, body):
        issuer.body = body
        verifier = tokens.TokenVerifier(keys.published_keys(issuer.url))
        for _ in range(3):
            with pytest.raises(StoreUnavailable):
                verifier.verify(signed(EC_KEY, "first"))
        assert issuer.asked == 1

    def test_a_foreign_signature_under_a_published_name_is_refused(self, issuer):
        verifier = tokens.TokenVerifier(keys.published_keys(issuer.url))
        forger = ec.generate_private_key(ec.SECP256R1())
        with pytest.raises(Unauthorized, match="signature"):
            verifier.verify(signed(forger, "first"))

    def test_a_token_that_names_no_key_asks_nobody(self, issuer):
        verifier = tokens.TokenVerifier(keys.published_keys(issuer.url))
        with pytest.raises(Unauthorized, match="kid"):
            verifier.verify(signed(EC_KEY, None))
        assert issuer.asked == 0

    def test_a_token_of_another_algorithm_asks_nobody(self, issuer):
        verifier = tokens.TokenVerifier(keys.published_keys(issuer.url))
        with pytest.raises(Unauthorized, match="algorithm"):
            verifier.verify(signed(SECRET, "first", "HS256"))
        assert issuer.asked == 0

    def test_a_known_key_does_not_wait_for_what_an_unknown_one_makes_us_ask(
        self, issuer, monkeypatch
    ):
        """Of any number with unknown keys one asks; the others wait for the same answer."""
        verifier = tokens.TokenVerifier(keys.published_keys(issuer.url))
        verifier.verify(signed(EC_KEY, "first"))
        later(monkeypatch, keys.COOLDOWN_SECONDS)
        issuer.falls_silent()
        unknown = [signed(EC_KEY, f"unknown{number}") for number in range(4)]
        with ThreadPoolExecutor(4) as threads:
            refused = [threads.submit(verifier.verify, token) for token in unknown]
            assert issuer.is_asked.wait(10)
            good = [signed(EC_KEY, "first", sub=sub) for sub in "bc"]
            assert verifier.verify_at_hand(good[0]).caller.identity == "b"
            assert verifier.verify(good[1]).caller.identity == "c"
            assert not any(each.done() for each in refused)
            issuer.answers.set()
            for each in refused:
                with pytest.raises(Unauthorized, match="does not publish"):
                    each.result(10)
        assert issuer.asked == 2

    def test_of_those_with_known_but_old_keys_one_asks_and_nobody_else_waits(
        self, issuer, monkeypatch
    ):
        verifier = tokens.TokenVerifier(keys.published_keys(issuer.url))
        verifier.verify(signed(EC_KEY, "first"))
        later(monkeypatch, keys.FRESH_SECONDS)
        issuer.falls_silent()
        sent = signed(EC_KEY, "first", sub="sent")
        assert verifier.verify_at_hand(sent) is None
        assert verifier.verify_at_hand(signed(EC_KEY, "first", sub="b")) is not None
        with ThreadPoolExecutor(1) as threads:
            asking = threads.submit(verifier.verify, sent)
            assert issuer.is_asked.wait(10)
            assert verifier.verify(signed(EC_KEY, "first", sub="c")) is not None
            assert not asking.done()
            issuer.answers.set()
            assert asking.result(10).caller.identity == "sent"
        assert issuer.asked == 2

    def test_the_door_lets_a_known_key_in_while_all_its_threads_wait_for_the_issuer(
        self, issuer, monkeypatch
    ):
        door = auth.BearerAuthenticator(tokens.TokenVerifier(keys.published_keys(issuer.url)))

        async def come(token):
            found = door.authenticate({"headers": [(b"authorization", b"Bearer " + token)]})
            return await found if inspect.isawaitable(found) else found

        async def visit():
            await come(signed(EC_KEY, "first"))
            later(monkeypatch, keys.COOLDOWN_SECONDS)
            issuer.falls_silent()
            async with anyio.create_task_group() as others:
                for number in range(2 * auth.FETCHING_THREADS):
                    others.start_soon(refused, signed(EC_KEY, f"unknown{number}"))
                await anyio.to_thread.run_sync(issuer.is_asked.wait, 10)
                found = await come(signed(EC_KEY, "first", sub="bob"))
                assert not issuer.answers.is_set()
                issuer.answers.set()
            return found

        async def refused(token):
            with pytest.raises(Unauthorized):
                await come(token)

        assert anyio.run(visit).caller.identity == "bob"
        assert issuer.asked == 2


def later(monkeypatch, seconds):
    real = keys.time.monotonic
    monkeypatch.setattr(keys.time, "monotonic", lambda: real() + seconds)


class TestLocalKey:
    @pytest.mark.parametrize(
        ("url", "path"),
        [
            ("sqlite:///jobroom.db", "jobroom.db.key"),
            ("sqlite:////data/jobs.sqlite", "/data/jobs.sqlite.key"),
            ("sqlite+pysqlite:///a.db?timeout=3", "a.db.key"),
        ],
    )
    def test_it_lies_beside_the_database(self, url, path):
        assert str(keys.local_key_path(url)) == path

    @pytest.mark.parametrize(
        "url",
        [
            "sqlite://",
            "sqlite:///",
            "sqlite:///:memory:",
            "sqlite:///file::memory:?cache=shared",
            "postgresql://host/db",
            "postgresql:///db",
            "libsql://db.example",
        ],
    )
    def test_other_stores_have_none(self, url):
        assert keys.local_key_path(url) is None

    def test_the_file_is_the_owners_alone_and_nothing_lies_beside_it(self, tmp_path):
        path = tmp_path / "jobs.db.key"
        keys.load_or_create_local_key(path)
        assert path.stat().st_mode & 0o777 == 0o600
        assert list(tmp_path.iterdir()) == [path]

    def test_a_second_start_reads_the_same_key(self, tmp_path):
        path = tmp_path / "jobs.db.key"
        first = keys.load_or_create_local_key(path)
        assert keys.load_or_create_local_key(path) == keys.load_local_key(path) == first

    def test_two_databases_have_two_keys(self, tmp_path):
        made = {keys.load_or_create_local_key(tmp_path / name) for name in ("a", "b")}
        assert len(made) == 2

    def test_it_serves_every_shared_algorithm(self, tmp_path):
        key = keys.load_or_create_local_key(tmp_path / "key")
        assert keys.shared_key(key, list(keys.LEAST_SECRET_BYTES))

    @pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o777])
    def test_a_file_that_others_can_read_is_refused(self, tmp_path, mode):
        path = tmp_path / "key"
        keys.load_or_create_local_key(path)
        path.chmod(mode)
        with pytest.raises(ConfigurationError, match="chmod 600"):
            keys.load_or_create_local_key(path)

    @pytest.mark.parametrize("content", [b"", b"short", b"\xff" * 80])
    def test_a_damaged_file_is_refused(self, tmp_path, content):
        path = tmp_path / "key"
        path.touch(mode=0o600)
        path.write_bytes(content)
        with pytest.raises(ConfigurationError, match="damaged"):
            keys.load_or_create_local_key(path)

    def test_a_missing_file_is_not_made_by_reading(self, tmp_path):
        with pytest.raises(ConfigurationError, match="cannot be read"):
            keys.load_local_key(tmp_path / "key")

    def test_a_missing_folder_is_one_sentence(self, tmp_path):
        with pytest.raises(ConfigurationError, match=r"cannot be made .*JWT_SECRET"):
            keys.load_or_create_local_key(tmp_path / "nowhere" / "key")

    def test_losing_the_race_takes_the_winners_key(self, tmp_path, monkeypatch):
        """Rules, *First start*: the other server makes its file after we looked."""
        path = tmp_path / "key"
        winner = keys.load_or_create_local_key(path)
        monkeypatch.setattr(keys.Path, "exists", lambda _path: False)
        assert keys.load_or_create_local_key(path) == winner
        assert list(tmp_path.iterdir()) == [path]

    def test_eight_servers_at_once_end_with_one_key(self, tmp_path):
        """Rules, *First start*: two servers at once with nothing configured, one key file."""
        path = tmp_path / "jobs.db.key"
        servers = [start_server(path) for _ in range(8)]
        for server in servers:
            assert server.stdout.readline() == "ready\n"
        for server in servers:
            server.stdin.write("go\n")
            server.stdin.flush()
        read = {server.communicate(timeout=30)[0].strip() for server in servers}
        assert [server.returncode for server in servers] == [0] * 8
        assert read == {keys.load_local_key(path)}
        assert list(tmp_path.iterdir()) == [path]


# Each waits at its last step before the file, so that the eight meet there.
SERVER = """
import sys
from pathlib import Path
from jobroom import keys
print("ready", flush=True)
sys.stdin.readline()
print(keys.load_or_create_local_key(Path(sys.argv[1])))
"""


def start_server(path):
    return subprocess.Popen(
        [sys.executable, "-c", SERVER, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )


def test_each_message_names_a_variable_that_the_settings_read(monkeypatch):
    monkeypatch.setenv(keys.variable_name("jwt_issuer"), "https://issuer.example")
    assert JobLibSettings().jwt_issuer == "https://issuer.example"
    assert re.fullmatch(r"[A-Z_]+", keys.variable_name("jwt_issuer"))
