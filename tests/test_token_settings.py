"""Tokens that we make, and what the settings make of keys: design 6, contract *Settings*."""

from __future__ import annotations

import math
import time

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from jobroom import keys, tokens
from jobroom.domain.records import Caller
from jobroom.errors import ConfigurationError, Unauthorized, ValidationFailed
from jobroom.settings import JobLibSettings

SECRET = "a shared secret of more than 32 bytes"
PUBLIC_PEM = (
    ec.generate_private_key(ec.SECP256R1())
    .public_key()
    .public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    .decode()
)


def verifier():
    return tokens.TokenVerifier(keys.shared_key(SECRET))


class TestIssuing:
    def test_what_is_issued_verifies(self):
        token = tokens.issue_token(SECRET, sub="alice", is_admin=True, rooms=["r1"], hours=1)
        identity = verifier().verify(token.encode())
        assert identity.caller == Caller("alice", is_admin=True, rooms=frozenset({"r1"}))
        assert identity.expires_at == pytest.approx(time.time() + 3600, abs=30)

    def test_a_token_lasts_eight_hours_unless_told(self):
        identity = verifier().verify(tokens.issue_token(SECRET, sub="alice").encode())
        assert identity.expires_at == pytest.approx(time.time() + 8 * 3600, abs=30)

    def test_no_rooms_named_is_every_room_and_an_empty_list_none(self):
        issued = [tokens.issue_token(SECRET, sub="a", rooms=rooms) for rooms in (None, [])]
        rooms = [verifier().verify(token.encode()).caller.rooms for token in issued]
        assert rooms == [None, frozenset()]

    @pytest.mark.parametrize("sub", ["", "x" * 256, "a\tb"])
    def test_a_sub_that_would_be_refused_is_not_signed(self, sub):
        with pytest.raises(ValidationFailed, match="sub"):
            tokens.issue_token(SECRET, sub=sub)

    @pytest.mark.parametrize("hours", [0, -1, math.inf, math.nan, 1e12])
    def test_impossible_hours_are_refused(self, hours):
        with pytest.raises(ValidationFailed, match="hours"):
            tokens.issue_token(SECRET, sub="alice", hours=hours)


class TestFromSettings:
    def test_nothing_configured_beside_a_sqlite_file_is_local_mode(self, tmp_path):
        """Design 6: with nothing configured a random key lies beside the database."""
        path = tmp_path / "jobs.db.key"
        checking, secret = tokens.verifier_from_settings(JobLibSettings(), local_key_path=path)
        assert secret == keys.load_local_key(path)
        assert checking.verify(tokens.issue_token(secret, sub="alice").encode())

    @pytest.mark.parametrize(
        ("chosen", "has_path", "allow_local"),
        [
            ({}, False, True),
            ({}, True, False),
            ({"auth_mode": "local"}, False, True),
            ({"auth_mode": "local"}, True, False),
            ({"auth_mode": "jwt"}, True, True),
        ],
    )
    def test_elsewhere_nothing_configured_says_what_to_set(
        self, tmp_path, chosen, has_path, allow_local
    ):
        """Design 6: on Lambda and in the container it is a start-up error."""
        path = tmp_path / "key" if has_path else None
        with pytest.raises(ConfigurationError) as refusal:
            tokens.verifier_from_settings(
                JobLibSettings(**chosen), local_key_path=path, allow_local=allow_local
            )
        for name in ("SECRET", "PUBLIC_KEY", "JWKS_URL"):
            assert f"ZNDRAW_JOBLIB_JWT_{name}" in str(refusal.value)
        assert not (tmp_path / "key").exists()

    def test_a_configured_secret_makes_no_key_file(self, tmp_path):
        path = tmp_path / "key"
        chosen = JobLibSettings(jwt_secret=SECRET)
        checking, local_key = tokens.verifier_from_settings(chosen, local_key_path=path)
        assert (local_key, path.exists()) == (None, False)
        assert checking.verify(tokens.issue_token(SECRET, sub="alice").encode())

    def test_issuer_audience_and_exp_settings_reach_the_verifier(self):
        chosen = JobLibSettings(
            jwt_secret=SECRET, jwt_issuer="us", jwt_audience="here", jwt_require_exp=False
        )
        checking, _ = tokens.verifier_from_settings(chosen, local_key_path=None)
        endless = {"sub": "alice", "iss": "us", "aud": "here"}
        assert checking.verify(jwt.encode(endless, SECRET).encode()).expires_at is None
        for claim in ("iss", "aud"):
            with pytest.raises(Unauthorized, match=claim):
                checking.verify(jwt.encode(endless | {claim: "another"}, SECRET).encode())

    def test_a_token_for_the_local_key_verifies_at_a_server_that_starts_later(self, tmp_path):
        chosen = JobLibSettings(database_url=f"sqlite:///{tmp_path}/jobs.db")
        token = tokens.token_for_settings(chosen, sub="alice", rooms=["r1"])
        path = keys.local_key_path(chosen.database_url)
        checking, _ = tokens.verifier_from_settings(chosen, local_key_path=path)
        assert checking.verify(token.encode()).caller == Caller("alice", rooms=frozenset({"r1"}))

    def test_a_token_for_a_secret_fits_all_its_settings(self):
        chosen = JobLibSettings(
            jwt_secret=SECRET * 2, jwt_algorithms=["HS512"], jwt_issuer="us", jwt_audience="here"
        )
        token = tokens.token_for_settings(chosen, sub="root", is_admin=True)
        checking, _ = tokens.verifier_from_settings(chosen, local_key_path=None)
        assert checking.verify(token.encode()).caller.is_admin

    @pytest.mark.parametrize(
        "chosen",
        [
            {"jwt_public_key": PUBLIC_PEM},
            {"jwt_jwks_url": "https://issuer.example/keys"},
        ],
    )
    def test_where_only_an_issuer_signs_no_token_is_made(self, chosen):
        with pytest.raises(ConfigurationError, match="issuer"):
            tokens.token_for_settings(JobLibSettings(**chosen), sub="alice")

    def test_a_server_database_without_a_secret_makes_no_token(self):
        chosen = JobLibSettings(database_url="postgresql://host/db")
        with pytest.raises(ConfigurationError, match="ZNDRAW_JOBLIB_JWT_SECRET"):
            tokens.token_for_settings(chosen, sub="alice")
