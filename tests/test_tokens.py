"""Making and verifying tokens: contract *Identity*, rules *Who sees what*, design 6."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import math
import string
import time

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from hypothesis import given, settings
from hypothesis import strategies as st

from jobroom import keys, tokens
from jobroom.domain.records import Caller
from jobroom.errors import Unauthorized

SECRET = "a shared secret of more than 32 bytes"
FAR = 4_000_000_000
RSA_KEY = rsa.generate_private_key(65537, 2048)


def public_pem(key):
    encoding, form = serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    return key.public_key().public_bytes(encoding, form)


def verifier(**options):
    return tokens.TokenVerifier(keys.shared_key(SECRET), **options)


def signed(**claims):
    """Sign these claims as an issuer would; `...` leaves one out."""
    claims = {"sub": "alice", "exp": FAR} | claims
    kept = {name: value for name, value in claims.items() if value is not ...}
    return signed_text(json.dumps(kept))


def signed_text(claims, header='{"alg":"HS256","typ":"JWT"}'):
    """Sign any bytes, also such as no library would make."""
    parts = [header.encode(), claims if isinstance(claims, bytes) else claims.encode()]
    text = b".".join(base64.urlsafe_b64encode(part).rstrip(b"=") for part in parts)
    digest = hmac.digest(SECRET.encode(), text, hashlib.sha256)
    return text + b"." + base64.urlsafe_b64encode(digest).rstrip(b"=")


def refusal_of(token, **options):
    with pytest.raises(Unauthorized) as refusal:
        verifier(**options).verify(token)
    message = str(refusal.value)
    assert message.endswith(".")
    assert not any(part and part in message for part in token.decode("latin-1").split("."))
    return message


class TestWhoIsIt:
    def test_sub_is_the_identity(self):
        assert verifier().verify(signed()) == (Caller("alice"), FAR)

    def test_all_that_is_optional_is_absent_by_default(self):
        caller = verifier().verify(signed()).caller
        assert (caller.is_admin, caller.rooms) == (False, None)

    @pytest.mark.parametrize("sub", ["a", "Zoë Ωmega", "auth0|5f7c8ec7", "x" * 255, "a b"])
    def test_any_plain_text_names_a_caller(self, sub):
        assert verifier().verify(signed(sub=sub)).caller.identity == sub

    @pytest.mark.parametrize(
        "sub", [..., None, "", 7, True, ["alice"], "x" * 256, "a\nb", "a\0", "\x7f", "\ud800"]
    )
    def test_a_sub_that_names_nobody_is_401(self, sub):
        assert "sub" in refusal_of(signed(sub=sub))

    @pytest.mark.parametrize("is_admin", [True, False])
    def test_is_admin_is_json_true_or_false(self, is_admin):
        assert verifier().verify(signed(is_admin=is_admin)).caller.is_admin is is_admin

    @pytest.mark.parametrize("is_admin", ["true", 1, 0, None, [], {}, "", 1.0])
    def test_any_other_is_admin_is_401(self, is_admin):
        """Rules: `is_admin` is true only for JSON `true`; anything else in a token is 401."""
        assert "is_admin" in refusal_of(signed(is_admin=is_admin))

    @pytest.mark.parametrize("rooms", [[], ["r1"], ["r1", "r2", "r1"], ["@global"]])
    def test_rooms_is_a_list_of_strings(self, rooms):
        """Rules: `rooms: []` is none, an absent one every room."""
        assert verifier().verify(signed(rooms=rooms)).caller.rooms == frozenset(rooms)

    @pytest.mark.parametrize(
        "rooms", ["r1", None, [1], ["r1", None], [["r1"]], {"r1": True}, 0, True, ["\ud800"]]
    )
    def test_any_other_rooms_is_401(self, rooms):
        """Rules: `rooms` only as a list of strings; anything else in a token is 401."""
        assert "rooms" in refusal_of(signed(rooms=rooms))


class TestWhen:
    def test_an_expired_token_is_401(self):
        assert "expired" in refusal_of(signed(exp=int(time.time()) - 60))

    def test_expiry_has_no_grace(self):
        assert "expired" in refusal_of(signed(exp=int(time.time()) - 1))

    def test_a_token_ends_at_its_exp_and_not_after_it(self):
        assert "expired" in refusal_of(signed(exp=FAR), clock=lambda: float(FAR))
        assert verifier(clock=lambda: FAR - 0.001).verify(signed(exp=FAR))

    @pytest.mark.parametrize("exp", [..., None])
    def test_exp_is_required(self, exp):
        assert "lacks the claim exp" in refusal_of(signed(exp=exp))

    def test_a_setting_allows_tokens_that_never_end(self):
        assert verifier(require_exp=False).verify(signed(exp=...)).expires_at is None

    @pytest.mark.parametrize("exp", [str(FAR), True, [FAR], math.nan, math.inf, "x", {}])
    @pytest.mark.parametrize("require_exp", [True, False])
    def test_an_exp_that_is_no_number_is_401(self, exp, require_exp):
        refusal_of(signed(exp=exp), require_exp=require_exp)

    def test_an_exp_beyond_all_calendars_is_taken_as_the_last_year(self):
        token = signed_text(f'{{"sub": "alice", "exp": 1{"0" * 400}}}')
        assert verifier().verify(token).expires_at == tokens.YEAR_9999

    @pytest.mark.parametrize("claim", ["nbf", "iat"])
    def test_a_token_of_the_future_is_401(self, claim):
        assert "not valid yet" in refusal_of(signed(**{claim: int(time.time()) + 60}))

    @pytest.mark.parametrize("claim", ["nbf", "iat"])
    def test_an_issuers_clock_may_be_a_little_ahead(self, claim):
        assert verifier().verify(signed(**{claim: int(time.time()) + 2}))


class TestForWhom:
    @pytest.mark.parametrize("iss", [..., "https://other.example", ["https://us.example"], None])
    def test_a_wrong_or_absent_issuer_is_401(self, iss):
        assert "iss" in refusal_of(signed(iss=iss), issuer="https://us.example")

    @pytest.mark.parametrize("aud", [..., "other", ["other"], 7, [], None])
    def test_a_wrong_or_absent_audience_is_401(self, aud):
        assert "aud" in refusal_of(signed(aud=aud), audience="us")

    def test_a_token_for_some_audience_is_401_where_none_is_configured(self):
        assert "audience" in refusal_of(signed(aud="other"))

    @pytest.mark.parametrize("aud", ["us", ["them", "us"]])
    def test_the_right_issuer_and_audience_come_in(self, aud):
        checks = {"issuer": "https://us.example", "audience": "us"}
        assert verifier(**checks).verify(signed(iss="https://us.example", aud=aud))


class TestForgery:
    def test_another_secret_is_401(self):
        token = tokens.issue_token(SECRET + "!", sub="alice").encode()
        assert "signature" in refusal_of(token)

    def test_changed_claims_are_401(self):
        header, _, signature = signed().split(b".")
        _, claims, _ = signed(is_admin=True).split(b".")
        assert "signature" in refusal_of(b".".join([header, claims, signature]))

    @pytest.mark.parametrize("name", ["none", "None", "NONE", "nOnE", ""])
    def test_an_unsigned_token_is_401(self, name):
        header = json.dumps({"alg": name, "typ": "JWT"})
        unsigned = signed_text('{"sub": "alice", "exp": 4000000000}', header).rsplit(b".", 1)[0]
        assert refusal_of(unsigned + b".")

    def test_an_unsigned_token_of_a_library_is_401(self):
        assert "algorithm" in refusal_of(
            jwt.encode({"sub": "a", "exp": FAR}, None, "none").encode()
        )

    @pytest.mark.parametrize("name", ["HS384", "RS256", "ES256", 7, None, ["HS256"], {}])
    def test_another_algorithm_than_the_fixed_ones_is_401(self, name):
        assert refusal_of(signed_text('{"sub": "a", "exp": 4000000000}', json.dumps({"alg": name})))

    def test_a_token_signed_with_the_public_key_as_a_secret_is_401(self):
        """The classic confusion: HS256 over the PEM that everybody may read."""
        pem = public_pem(RSA_KEY)
        head, claims, _ = signed().split(b".")
        digest = hmac.digest(pem, head + b"." + claims, hashlib.sha256)
        forged = b".".join([head, claims, base64.urlsafe_b64encode(digest).rstrip(b"=")])
        with pytest.raises(Unauthorized, match="algorithm"):
            tokens.TokenVerifier(keys.public_key(pem.decode())).verify(forged)

    @pytest.mark.parametrize("name", ["ES256", "EdDSA", "PS256", "RS384"])
    def test_a_header_cannot_choose_the_algorithm_of_a_public_key(self, name):
        header = json.dumps({"alg": name})
        token = signed_text('{"sub": "alice", "exp": 4000000000}', header)
        with pytest.raises(Unauthorized, match="algorithm"):
            tokens.TokenVerifier(keys.public_key(public_pem(RSA_KEY).decode())).verify(token)

    @pytest.mark.parametrize(
        ("key", "algorithm"),
        [
            (RSA_KEY, "RS256"),
            (ec.generate_private_key(ec.SECP256R1()), "ES256"),
            (ed25519.Ed25519PrivateKey.generate(), "EdDSA"),
        ],
    )
    def test_a_token_of_the_private_key_verifies_by_the_public_one(self, key, algorithm):
        token = jwt.encode({"sub": "alice", "exp": FAR}, key, algorithm).encode()
        checking = tokens.TokenVerifier(keys.public_key(public_pem(key).decode()))
        assert checking.verify(token).caller == Caller("alice")

    @pytest.mark.parametrize(
        "token",
        [
            b"",
            b".",
            b"..",
            b"...",
            b"garbage",
            b"\xff\xfe.\x00.\x00",
            "ünïcode.ü.ü".encode(),
            b"e30.e30.e30",
            b"bnVsbA.bnVsbA.bnVsbA",
            b"[" * 5000,
            b"eyJhbGciOiJIUzI1NiJ9" + b"." * 50,
            signed()[:-2],
            signed() + b"A",
            signed().replace(b".", b" ."),
            b"x" * 8192,
            signed_text("[]"),
            signed_text(b"\xff\xff"),
            signed_text("[" * 3000),
            signed_text('{"sub": "a", "exp": 4e9}', '{"alg": "HS256", "crit": ["exp"]}'),
            signed_text('{"sub": "a", "exp": 4e9}', '{"alg": "HS256", "kid": 7}'),
            signed_text('{"sub": "a", "exp": 4e9}', '{"alg": "HS256", "b64": false}'),
        ],
    )
    def test_what_is_no_token_is_401(self, token):
        assert refusal_of(token)

    def test_an_endless_token_is_refused_unread(self):
        assert "longer" in refusal_of(b"x" * (tokens.MAX_TOKEN_BYTES + 1))

    def test_an_honest_token_of_8_kib_comes_in(self):
        rooms = [f"room-{number:04}" for number in range(500)]
        token = signed(rooms=rooms)
        assert len(token) > 8192
        assert verifier().verify(token).caller.rooms == frozenset(rooms)

    @settings(max_examples=200)
    @given(st.binary(max_size=200) | st.text(string.printable, max_size=200).map(str.encode))
    def test_no_bytes_do_anything_but_401(self, token):
        with pytest.raises(Unauthorized):
            verifier().verify(token)

    JSON = st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
        max_leaves=6,
    )
    CLAIMS = ("sub", "exp", "nbf", "iat", "iss", "aud", "jti", "is_admin", "rooms")

    @settings(max_examples=300)
    @given(
        claims=st.dictionaries(st.sampled_from(CLAIMS), JSON),
        header=st.dictionaries(st.sampled_from(["alg", "kid", "crit", "typ", "b64"]), JSON),
        forced=st.sampled_from([{}, {"sub": "alice", "exp": FAR}]),
    )
    def test_no_claims_do_anything_but_identify_or_401(self, claims, header, forced):
        token = signed_text(json.dumps(claims | forced), json.dumps({"alg": "HS256"} | header))
        try:
            identity = verifier().verify(token)
        except Unauthorized:
            return
        assert tokens.is_identity(identity.caller.identity)


class TestRemembering:
    def test_a_verified_token_is_not_verified_again(self, monkeypatch):
        """Design 6: checking it again must not cost more than the claim."""
        checking, token = verifier(), signed()
        first = checking.verify(token)
        monkeypatch.setattr(tokens.jwt, "decode", None)
        assert checking.verify(token) is checking.recall(token) is first

    def test_a_refused_token_is_not_remembered(self):
        checking, token = verifier(), signed(is_admin="true")
        for _ in range(2):
            with pytest.raises(Unauthorized):
                checking.verify(token)
        assert checking.recall(token) is None

    def test_a_remembered_token_ends_with_its_exp(self):
        now = [FAR - 1.0]
        checking, token = verifier(clock=lambda: now[0]), signed()
        checking.verify(token)
        now[0] = float(FAR)
        assert checking.recall(token) is None
        with pytest.raises(Unauthorized, match="expired"):
            checking.verify(token)

    def test_a_token_without_exp_is_remembered(self):
        checking, token = verifier(require_exp=False), signed(exp=...)
        assert checking.verify(token) is checking.recall(token)

    def test_the_memory_is_bounded_and_drops_the_oldest(self):
        checking = verifier(remembered=3)
        told = [signed(sub=name) for name in "abcd"]
        for token in told:
            checking.verify(token)
        assert [checking.recall(token) is not None for token in told] == [False, True, True, True]

    def test_the_default_bound_is_4096_tokens(self):
        checking = verifier()
        for number in range(tokens.REMEMBERED_TOKENS + 10):
            checking._remember(str(number).encode(), tokens.Identity(Caller("alice")))
        assert len(checking._known) == tokens.REMEMBERED_TOKENS == 4096
