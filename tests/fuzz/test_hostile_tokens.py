"""Tokens made to come in, or to break who reads them (contract, *Identity*; RFC 7519, RFC 8725)."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from fuzz_kit import SECRET, Target, b64, examples, sign
from hypothesis import example, given
from hypothesis import strategies as st

HS256 = '{"alg":"HS256","typ":"JWT"}'
LATER = int(time.time()) + 10_000
GOOD = f'{{"sub":"eve","exp":{LATER}}}'
ME = "/v1/me"

NUMBERS = [
    *(
        "NaN",
        "Infinity",
        "-Infinity",
        "1e400",
        "-1e400",
        "1" + "0" * 400,
        "-1" + "0" * 400,
        "1e308",
    ),
    *(
        "9" * 5000,
        "0",
        "-0",
        "0.0",
        "1.5",
        f"{LATER}.5",
        f'"{LATER}"',
        "true",
        "false",
        "null",
        "[]",
    ),
    *(
        f"[{LATER}]",
        "{}",
        '""',
        '"x"',
        "253402300800",
        "9223372036854775808",
        "99999999999999999999",
    ),
]
OTHERS = [
    *(
        "null",
        "0",
        "1",
        "true",
        "false",
        '""',
        '"x"',
        "[]",
        "{}",
        '["r1"]',
        '["r1",1]',
        '[["r1"]]',
        "[null]",
    ),
    *(
        r'"\ud800"',
        r'["\ud800"]',
        r'"\u0000"',
        r'["\u0000"]',
        '"' + "x" * 300 + '"',
        "1e400",
        "NaN",
    ),
    *("[" * 5000, "[" * 2000 + "]" * 2000, '{"a":' * 2000 + "1" + "}" * 2000, '"true"', '"\u202e"'),
]
HEADERS = [
    *(
        '{"alg":"none"}',
        '{"alg":"None"}',
        '{"alg":""}',
        "{}",
        "[]",
        "null",
        '"HS256"',
        '{"alg":null}',
    ),
    *(
        '{"alg":["HS256"]}',
        '{"alg":{"HS256":1}}',
        '{"alg":1}',
        '{"alg":"HS384"}',
        '{"alg":"RS256"}',
    ),
    *('{"alg":"ES256"}', '{"alg":"EdDSA"}', '{"alg":"hs256"}', '{"alg":"HS256","alg":"none"}'),
    *('{"alg":"HS256","kid":1}', '{"alg":"HS256","kid":{}}', '{"alg":"HS256","crit":["x"]}'),
    *('{"alg":"HS256","crit":[]}', '{"alg":"HS256","crit":1}', '{"alg":"HS256","crit":[{}]}'),
    *(
        '{"alg":"HS256","b64":false}',
        '{"alg":"HS256","b64":false,"crit":["b64"]}',
        '{"alg":"HS256","b64":0}',
    ),
    *(
        '{"alg":' + "[" * 5000,
        '{"alg":' + "9" * 5000 + "}",
        '{"alg":NaN}',
        '{"alg":"\\ud800"}',
        "\x00",
    ),
]
# Nothing of a header but the algorithm may choose what the token is checked by.
INJECTIONS = [
    *(
        '"kid":"../../../dev/null"',
        '"kid":"x\' UNION SELECT \'key"',
        '"kid":"/etc/passwd"',
        '"kid":""',
    ),
    *(
        '"jku":"http://127.0.0.1:1/keys"',
        '"x5u":"file:///etc/passwd"',
        '"jwk":{"kty":"oct","k":"AA"}',
    ),
    *('"x5c":["AA"]', '"zip":"DEF"', '"enc":"A128GCM"', '"cty":"JWT"'),
]
claim = st.tuples(
    st.sampled_from(["exp", "nbf", "iat", "sub", "is_admin", "rooms", "aud", "iss", "jti"]),
    st.sampled_from(NUMBERS + OTHERS),
)


def ask(target: Target, token: bytes) -> int:
    """What /v1/me says to a token: it comes in or it is 401, and never as somebody else."""
    answer = target.send("tokens", "GET", ME, token=token)
    assert answer.status in {200, 401}
    return answer.status


@given(claims=st.lists(claim, min_size=1, max_size=4), with_the_rest=st.booleans())
@examples(600)
def test_no_claims_do_anything_but_identify_or_401(
    target: Target, claims: list[tuple[str, str]], with_the_rest: bool
) -> None:
    """Rules, *Who sees what*: true alone makes an admin, a list of strings alone gives rooms."""
    members = dict(claims)
    if with_the_rest:
        members = {"sub": '"eve"', "exp": str(LATER), **members}
    text = ",".join(f'"{name}":{value}' for name, value in members.items())
    answer = target.send("tokens", "GET", ME, token=sign(HS256, f"{{{text}}}".encode()))
    assert answer.status in {200, 401}
    if answer.status == 200:
        found = answer.json()
        assert found["is_admin"] is (members.get("is_admin") == "true")
        assert (found["rooms"] is None) == ("rooms" not in members)
        assert isinstance(json.loads(members["exp"]), int | float)


@given(header=st.sampled_from(HEADERS), claims=st.sampled_from([GOOD, "", "[]", "{", "\x00"]))
@examples(150)
def test_no_header_but_the_right_one_comes_in(target: Target, header: str, claims: str) -> None:
    """RFC 8725, 3.1: the algorithm is ours to choose; none and its like never come in."""
    status = ask(target, sign(header.encode("utf-8", "replace"), claims))
    is_ours = '"alg":"HS256"' in header and "crit" not in header
    assert status == 401 or is_ours
    unsigned = b".".join((b64(header.encode()), b64(claims.encode()), b""))
    assert ask(target, unsigned) == 401


@given(injection=st.sampled_from(INJECTIONS))
@examples(20)
def test_a_header_chooses_no_key(target: Target, injection: str) -> None:
    """RFC 8725, 3.10: what ``kid`` and its like name is neither opened nor fetched nor used."""
    header = f'{{"alg":"HS256",{injection}}}'
    for secret in ("", "AA", "key", "\x00"):
        assert ask(target, sign(header, GOOD, secret=secret)) == 401
    ask(target, sign(header, GOOD))


@given(token=st.binary(max_size=200).map(lambda value: value.translate(None, b"\r\n\0 ")))
@example(token=b"." * 16_000)
@example(token=b"." * 100_000)
@example(token=b64(b"[" * 11_000) + b".e30.")
@example(token=b64(b'{"alg":' * 1500) + b".e30.AA")
@example(token=b"a." * 5000)
@example(token=sign(HS256, "[" * 8000))
@example(token=sign(HS256, '{"sub":"' + "x" * 8000 + '"}'))
@examples(200)
def test_no_bytes_do_anything_but_401(target: Target, token: bytes) -> None:
    """Contract, *Identity*: what is no token is 401, however large or deep it is."""
    assert ask(target, token or b"x") == 401


@given(at=st.integers(0, 400), flip=st.integers(1, 255), cut=st.booleans())
@examples(300)
def test_a_token_with_one_byte_changed_does_not_come_in(
    target: Target, at: int, flip: int, cut: bool
) -> None:
    """A signature holds for the bytes that were signed."""
    good = sign(HS256, GOOD)
    at %= len(good)
    changed = good[:at] + (b"" if cut else bytes([good[at] ^ flip])) + good[at + 1 :]
    # The last character of base64 carries bits that say nothing.
    if changed.translate(None, b"\r\n\0 ") == changed and at < len(good) - 1:
        assert ask(target, changed) == 401


@pytest.fixture(scope="module")
def by_public_key(
    tmp_path_factory: pytest.TempPathFactory, empty_database: Path
) -> Iterator[tuple[Target, bytes, str]]:
    """An application that checks by a public key; with it the private key, and the public text."""
    private = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    public = private.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    pem = private.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    path = tmp_path_factory.mktemp("fuzz-keys") / "queue.db"
    shutil.copy(empty_database, path)
    target = Target(path, jwt_secret=None, jwt_public_key=public.decode())
    yield target, pem, public.decode()
    target.close()


@pytest.mark.parametrize(
    "algorithm", ["HS256", "HS384", "HS512", "none", "RS256", "PS256", "ES256"]
)
def test_what_is_public_signs_nothing(
    by_public_key: tuple[Target, bytes, str], algorithm: str
) -> None:
    """RFC 8725, 2.1: the public key used as a shared secret, under any name of an algorithm."""
    target, _, public = by_public_key
    for secret in (public, public.strip(), public.replace("\n", "\\n"), "", SECRET):
        token = sign(json.dumps({"alg": algorithm}), GOOD, secret=secret)
        assert ask(target, token) == 401


@given(claims=st.lists(claim, min_size=1, max_size=3))
@examples(100)
def test_no_claims_signed_by_an_issuer_do_anything_but_identify_or_401(
    by_public_key: tuple[Target, bytes, str], claims: list[tuple[str, str]]
) -> None:
    """The same edges behind RS256."""
    target, private, _ = by_public_key
    members = {"sub": '"eve"', "exp": str(LATER), **dict(claims)}
    text = ",".join(f'"{name}":{value}' for name, value in members.items())
    token = jwt.api_jws.encode(f"{{{text}}}".encode(), private, algorithm="RS256")
    ask(target, token.encode())
