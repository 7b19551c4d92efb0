"""Who is asking, over HTTP: contract *Identity*, RFC 6750."""

from __future__ import annotations

import asyncio
import functools
import inspect
import threading

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from starlette.exceptions import HTTPException

from jobroom import keys, tokens
from jobroom.domain.records import Caller
from jobroom.errors import Forbidden, Unauthorized
from jobroom.http.auth import BearerAuthenticator, CallableAuthenticator

SECRET = "a shared secret of more than 32 bytes"
TOKEN = tokens.issue_token(SECRET, sub="alice", rooms=["r1"]).encode()


def scope_of(*headers):
    return {"type": "http", "method": "GET", "path": "/", "headers": list(headers)}


def bearer():
    return BearerAuthenticator(tokens.TokenVerifier(keys.shared_key(SECRET)))


def authorized(*values):
    return scope_of((b"host", b"x"), *((b"authorization", value) for value in values))


class TestBearer:
    def test_the_token_of_the_header_names_the_caller_at_once(self):
        caller, expires_at = bearer().authenticate(authorized(b"Bearer " + TOKEN))
        assert caller == Caller("alice", rooms=frozenset({"r1"}))
        assert expires_at == jwt.decode(TOKEN, SECRET, algorithms=["HS256"])["exp"]

    @pytest.mark.parametrize("form", [b"bearer %s", b"BEARER %s", b"Bearer   %s", b" Bearer %s  "])
    def test_case_and_spaces_do_not_matter(self, form):
        assert bearer().authenticate(authorized(form % TOKEN)).caller.identity == "alice"

    @pytest.mark.parametrize(
        "value",
        [
            b"",
            b"Bearer",
            b"Bearer ",
            b"Bearer" + TOKEN,
            TOKEN,
            b"Basic YWxpY2U6c2VjcmV0",
            b"Token " + TOKEN,
            b"Bearer Bearer " + TOKEN,
            b"Bearer " + TOKEN + b", Bearer " + TOKEN,
            b"Bearer \xff\xfe",
            b"Bearer " + b"x" * 8192,
        ],
    )
    def test_any_other_header_is_401(self, value):
        with pytest.raises(Unauthorized):
            bearer().authenticate(authorized(value))

    def test_no_header_is_401_and_says_what_to_send(self):
        with pytest.raises(Unauthorized, match="Authorization: Bearer"):
            bearer().authenticate(scope_of((b"accept", b"*/*")))

    def test_two_headers_are_401_even_if_both_are_good(self):
        with pytest.raises(Unauthorized, match="exactly one"):
            bearer().authenticate(authorized(b"Bearer " + TOKEN, b"Bearer " + TOKEN))

    def test_a_token_in_the_query_is_not_looked_at(self):
        scope = scope_of() | {"query_string": b"access_token=" + TOKEN}
        with pytest.raises(Unauthorized):
            bearer().authenticate(scope)


class GatedKeys:
    """Keys that, like an issuer's, may have to be waited for."""

    may_fetch = True
    algorithms = ("HS256",)

    def __init__(self):
        self.gate, self.threads = threading.Event(), []

    def key_for(self, _token):
        self.threads.append(threading.get_ident())
        assert self.gate.wait(10)
        return SECRET


class TestFetching:
    def test_the_loop_goes_on_while_keys_are_fetched(self):
        gated = GatedKeys()

        async def ask():
            pending = BearerAuthenticator(tokens.TokenVerifier(gated)).authenticate(
                authorized(b"Bearer " + TOKEN)
            )
            asking = asyncio.ensure_future(pending)
            asyncio.get_running_loop().call_soon(gated.gate.set)
            return await asking

        assert asyncio.run(ask()).caller.identity == "alice"
        assert gated.threads != [threading.get_ident()]

    def test_a_remembered_token_needs_no_thread(self):
        gated = GatedKeys()
        gated.gate.set()
        authenticator = BearerAuthenticator(tokens.TokenVerifier(gated))
        scope = authorized(b"Bearer " + TOKEN)

        async def ask():
            return await authenticator.authenticate(scope)

        first = asyncio.run(ask())
        assert authenticator.authenticate(scope) is first

    def test_a_bad_token_is_401_from_the_thread_too(self):
        gated = GatedKeys()
        gated.gate.set()
        forged = jwt.encode(
            {"sub": "a", "exp": 4e9}, ec.generate_private_key(ec.SECP256R1()), "ES256"
        )

        async def ask():
            authenticator = BearerAuthenticator(tokens.TokenVerifier(gated))
            await authenticator.authenticate(authorized(b"Bearer " + forged.encode()))

        with pytest.raises(Unauthorized):
            asyncio.run(ask())


def who(request):
    return request.headers["x-user"]


async def who_async(request):
    return request.headers["x-user"]


def who_later(request):
    return who_async(request)


class WhoObject:
    async def __call__(self, request):
        return request.headers["x-user"]


def ask_host(identity=who, admin=None):
    async def ask():
        return await CallableAuthenticator(identity, admin).authenticate(
            scope_of((b"x-user", b"alice"), (b"x-role", b"admin"))
        )

    return asyncio.run(ask())


def raiser(error):
    def raise_it(_request):
        raise error

    return raise_it


class TestHostsCallables:
    """Contract *Identity*: `create_app(get_current_identity=…, get_is_admin=…)`, sync or async."""

    @pytest.mark.parametrize(
        "identity",
        [
            who,
            who_async,
            WhoObject(),
            functools.partial(who_async),
            who_later,
        ],
    )
    def test_sync_and_async_callables_name_the_caller(self, identity):
        assert ask_host(identity) == (Caller("alice"), None)

    def test_a_sync_callable_may_block_because_it_runs_in_a_thread(self):
        threads = []
        ask_host(lambda request: threads.append(threading.get_ident()) or who(request))
        assert threads != [threading.get_ident()]

    def test_an_async_callable_runs_on_the_loop(self):
        threads = []

        async def noting(request):
            threads.append(threading.get_ident())
            return who(request)

        ask_host(noting)
        assert threads == [threading.get_ident()]

    @pytest.mark.parametrize("identity", [None, "", 7, b"alice", "a\nb", "x" * 256, ["alice"]])
    def test_no_usable_identity_is_401(self, identity):
        with pytest.raises(Unauthorized, match="application"):
            ask_host(lambda _request: identity)

    def test_without_get_is_admin_nobody_is_admin(self):
        assert not ask_host().caller.is_admin

    def test_both_callables_see_the_request(self):
        assert ask_host(who, lambda request: request.headers["x-role"] == "admin").caller.is_admin

    def test_get_is_admin_may_be_async(self):
        async def admin(_request):
            return True

        assert ask_host(who_async, admin).caller.is_admin

    @pytest.mark.parametrize("answer", [False, None, 1, "true", "yes", object()])
    def test_only_true_makes_an_admin(self, answer):
        assert ask_host(who, lambda _request: answer).caller.is_admin is False

    def test_the_hosts_401_and_403_become_ours_with_its_words(self):
        with pytest.raises(Unauthorized, match="Log in first"):
            ask_host(raiser(HTTPException(401, "Log in first.")))
        with pytest.raises(Forbidden, match="Guests stay out"):
            ask_host(who, raiser(HTTPException(403, "Guests stay out.")))

    @pytest.mark.parametrize("error", [HTTPException(429, "Slow down."), KeyError("x")])
    def test_other_errors_of_the_host_stay_its_own(self, error):
        with pytest.raises(type(error)) as raised:
            ask_host(raiser(error))
        assert raised.value is error

    def test_it_is_always_awaited(self):
        assert inspect.iscoroutinefunction(CallableAuthenticator(who).authenticate)
