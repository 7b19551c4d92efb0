"""When the network, the server or the token fails: the code, and whether anything was applied."""

from __future__ import annotations

import threading
import time

import pytest
import servers

from jobroom.store.hrana import errors
from jobroom.store.hrana.transport import Step

pytest_plugins = ["sqld_for_tests"]

INSERT = "INSERT INTO notes (name) VALUES (?)"
COUNT = [Step("SELECT count(*) FROM notes")]
SLOW = Step(
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 200000000)"
    " SELECT max(i) FROM n"
)
KINDS = ["http", "ws", "plain"]
SHORT = 0.5


def insert(*given):
    return [Step(INSERT, (name,)) for name in given]


def count(transport):
    return transport.batch(COUNT, write=False)[0].rows[0][0]


@pytest.fixture
def proxy(sqld):
    with servers.Proxy(sqld.port) as between:
        yield between


@pytest.fixture
def wire(sqld):
    """A proxy that knows no requests, only bytes: a WebSocket is one long request."""
    with servers.Proxy(sqld.port, protocol="tcp") as between:
        yield between


@pytest.fixture
def own():
    """A server of this test's own, to be killed."""
    with servers.Sqld() as server:
        yield server.start()


@pytest.mark.parametrize("kind", KINDS)
def test_where_nobody_listens_nothing_was_applied(opened, kind):
    transport = opened(kind, f"http://127.0.0.1:{servers.free_port()}")
    for ask in (
        lambda: transport.batch(insert("a"), write=True),
        lambda: transport.batch(COUNT, write=False),
    ):
        with pytest.raises(errors.OperationalError) as raised:
            ask()
        assert (raised.value.code, raised.value.applied) == ("TRANSPORT", False)
        assert raised.value.is_unavailable
        assert not raised.value.is_busy


@pytest.mark.parametrize("kind", KINDS)
def test_an_answer_that_never_comes_ends_with_the_timeout(hrana, opened, wire, kind):
    proxy, transport = wire, opened(kind, wire.url, timeout_seconds=SHORT)
    assert count(transport) == 0
    proxy.stall()
    for write, applied in ((True, None), (False, False)):
        start = time.monotonic()
        with pytest.raises(errors.OperationalError) as raised:
            transport.batch(insert("a") if write else COUNT, write=write)
        assert (raised.value.code, raised.value.applied) == ("TIMEOUT", applied)
        assert raised.value.is_unavailable
        assert time.monotonic() - start < 5
    proxy.heal()
    assert count(transport) == 0


@pytest.mark.parametrize("kind", ["http", "plain"])
def test_an_answer_that_is_lost_after_the_commit_leaves_nobody_knowing(hrana, opened, proxy, kind):
    transport = opened(kind, proxy.url)
    proxy.cut_after_request()
    with pytest.raises(errors.OperationalError) as raised:
        transport.batch(insert("a", "b"), write=True)
    assert (raised.value.code, raised.value.applied) == ("TRANSPORT", None)
    assert count(hrana) == 2


def test_a_commit_whose_answer_is_lost_leaves_nobody_knowing(hrana, opened, proxy):
    stream = opened("http", proxy.url).stream(write=True)
    stream.run(insert("a"))
    proxy.cut_after_request()
    with pytest.raises(errors.OperationalError) as raised:
        stream.commit()
    assert (raised.value.code, raised.value.applied) == ("TRANSPORT", None)
    assert count(hrana) == 1


def test_before_its_commit_a_stream_that_is_lost_has_applied_nothing(hrana, opened, proxy):
    transport = opened("http", proxy.url, most_writers=1)
    stream = transport.stream(write=True)
    stream.run(insert("a"))
    proxy.cut_after_request()
    with pytest.raises(errors.OperationalError) as raised:
        stream.run(insert("b"))
    assert (raised.value.code, raised.value.applied) == ("TRANSPORT", False)
    requests = transport.counters.requests
    stream.rollback()  # by the old key: had the request never come, it would free the lock
    assert transport.counters.requests == requests + 1
    # Its place is free again; the server takes back its lock when somebody wants it (5 s).
    transport.batch(insert("a"), write=True)
    assert count(hrana) == 1


def test_a_read_over_a_dead_connection_is_sent_again_and_a_write_is_not(hrana, opened, proxy):
    transport = opened("http", proxy.url)
    proxy.cut_before_request()
    assert count(transport) == 0
    assert transport.counters.requests == 2
    proxy.cut_before_request()
    with pytest.raises(errors.OperationalError) as raised:
        transport.batch(insert("a"), write=True)
    assert (raised.value.applied, transport.counters.requests) == (None, 3)


@pytest.mark.parametrize("kind", KINDS)
def test_a_server_killed_at_work_leaves_nobody_knowing_and_is_found_again(own, opened, kind):
    transport = opened(kind, own.url)
    transport.batch([Step("CREATE TABLE notes (name TEXT)")], write=True)
    raised = []

    def write():
        try:
            transport.batch([*insert("a"), SLOW], write=True)
        except errors.Error as error:
            raised.append(error)

    thread = threading.Thread(target=write)
    requests = transport.counters.requests
    thread.start()
    while transport.counters.requests == requests:
        time.sleep(0.01)
    time.sleep(0.2)  # on its way is not at work yet; the answer takes minutes
    own.kill()
    thread.join(10)
    assert [(error.code, error.applied) for error in raised] == [("TRANSPORT", None)]
    own.start()
    assert count(transport) == 0
    transport.batch(insert("b"), write=True)
    assert count(transport) == 1


@pytest.mark.parametrize("kind", ["http", "ws"])
def test_after_a_restart_a_stream_is_gone(own, opened, kind):
    transport = opened(kind, own.url)
    transport.batch([Step("CREATE TABLE notes (name TEXT)")], write=True)
    stream = transport.stream(write=True)
    stream.run(insert("a"))
    own.kill()
    own.start()
    with pytest.raises(errors.OperationalError) as raised:
        stream.commit(insert("b"))
    assert raised.value.code == ("STREAM_INVALID" if kind == "http" else "TRANSPORT")
    assert raised.value.applied is False
    assert raised.value.is_unavailable
    assert count(transport) == 0


def test_a_stream_expires_after_ten_seconds_and_one_that_holds_the_lock_after_five(hrana):
    silent = hrana.stream(write=False)
    silent.run(COUNT)
    holder = hrana.stream(write=True)
    holder.run(insert("a"))
    start = time.monotonic()
    hrana.batch(insert("b"), write=True)  # waits until the server takes the lock away
    assert 2 < time.monotonic() - start < 9
    with pytest.raises(errors.OperationalError) as raised:
        holder.run(insert("c"))
    assert (raised.value.code, raised.value.applied) == ("TRANSACTION_TIMEOUT", False)
    assert raised.value.is_busy
    with pytest.raises(errors.OperationalError) as raised:
        holder.commit(insert("d"))
    assert (raised.value.code, raised.value.applied) == ("TRANSACTION_LOST", False)
    time.sleep(max(0.0, start + 11.5 - time.monotonic()))
    with pytest.raises(errors.OperationalError) as raised:
        silent.run(COUNT)
    assert (raised.value.code, raised.value.applied) == ("STREAM_EXPIRED", False)
    assert raised.value.is_unavailable
    assert count(hrana) == 1


@pytest.mark.parametrize("kind", ["http", "ws"])
def test_what_waits_longer_for_the_lock_than_its_timeout_leaves_nobody_knowing(
    hrana, sqld, opened, kind
):
    holder = hrana.stream(write=True)
    holder.run(insert("a"))
    with pytest.raises(errors.OperationalError) as raised:
        opened(kind, sqld.url, timeout_seconds=SHORT).batch(insert("b"), write=True)
    assert (raised.value.code, raised.value.applied) == ("TIMEOUT", None)
    holder.rollback()


def test_the_lock_of_a_stream_is_waited_for_by_another(hrana, sqld, opened):
    holder = hrana.stream(write=True)
    holder.run(insert("a"))
    other = opened("http", sqld.url).stream(write=True)
    done = []
    thread = threading.Thread(target=lambda: done.append(other.run(insert("b"))))
    thread.start()
    holder.commit()
    thread.join(10)
    assert done[0][0].rowid == 2
    other.commit()
    assert count(hrana) == 2


class Tokens:
    """A provider that gives one token after the other, and the last one for ever."""

    def __init__(self, *tokens):
        self.tokens = list(tokens)
        self.asked = 0

    def __call__(self):
        self.asked += 1
        return self.tokens[min(self.asked, len(self.tokens)) - 1]


def refusals(kind):
    """How a refused token may be told: a WebSocket dies of it, now and then without a word."""
    return ("UNAUTHORIZED", "TRANSPORT") if kind == "ws" else ("UNAUTHORIZED",)


@pytest.fixture(scope="module")
def guarded():
    with servers.Sqld(auth=True) as server:
        yield server.start()


@pytest.mark.parametrize("kind", KINDS)
def test_a_token_that_has_expired_is_asked_for_anew(guarded, opened, kind):
    tokens = Tokens(guarded.token(expires_in=-100), guarded.token())
    transport = opened(kind, guarded.url, tokens)
    assert transport.batch([Step("SELECT 1")], write=True)[0].rows == [(1,)]
    assert tokens.asked == 2


def test_a_connection_that_said_401_is_not_used_again(guarded, opened):
    """sqld closes it a moment later: one of 16 writes after a 401 was lost (measured)."""
    bad, good = guarded.token(expires_in=-100), guarded.token()
    tokens = Tokens(*[bad, good] * 80)
    transport = opened("http", guarded.url, tokens)
    for _ in range(80):
        assert transport.batch([Step("SELECT 1")], write=True)[0].rows == [(1,)]
    assert transport.counters.requests == 160


@pytest.mark.parametrize("kind", KINDS)
def test_a_token_that_stays_refused_is_no_fault_of_the_statement(guarded, opened, kind):
    bad = guarded.token(expires_in=-100)
    tokens = Tokens(bad)
    transport = opened(kind, guarded.url, tokens)
    with pytest.raises(errors.OperationalError) as raised:
        transport.batch([Step("SELECT 1")], write=True)
    assert raised.value.code in refusals(kind)
    assert raised.value.applied is False
    assert raised.value.is_unavailable
    assert bad not in str(raised.value)
    assert tokens.asked == 2
    assert kind == "ws" or transport.counters.requests == 1


@pytest.mark.parametrize("kind", KINDS)
def test_without_a_token_a_guarded_server_answers_nobody(guarded, opened, kind):
    with pytest.raises(errors.OperationalError) as raised:
        opened(kind, guarded.url).batch([Step("SELECT 1")], write=False)
    assert raised.value.code in refusals(kind)


@pytest.mark.parametrize("kind", KINDS)
def test_a_token_that_may_only_read_does_not_write(guarded, opened, kind):
    token = guarded.token(read_only=True)
    transport = opened(kind, guarded.url, lambda: token)
    assert transport.batch([Step("SELECT 1")], write=False)[0].rows == [(1,)]
    with pytest.raises(errors.OperationalError) as raised:
        transport.batch([Step("CREATE TABLE never (a)")], write=True)
    # A WebSocket is closed without a word (measured).
    expected = ("TRANSPORT", None) if kind == "ws" else ("FORBIDDEN", False)
    assert (raised.value.code, raised.value.applied) == expected
    assert raised.value.is_unavailable


def test_a_token_that_expires_while_a_stream_is_open_ends_it(guarded, opened):
    tokens = Tokens(guarded.token(), guarded.token(expires_in=-100))
    stream = opened("http", guarded.url, tokens).stream(write=False)
    stream.run([Step("SELECT 1")])
    with pytest.raises(errors.OperationalError) as raised:
        stream.run([Step("SELECT 1")])
    assert raised.value.code == "UNAUTHORIZED"
    with pytest.raises(errors.OperationalError, match="begin another"):
        stream.run([Step("SELECT 1")])


def test_no_error_and_no_attribute_of_it_holds_the_token(guarded, opened):
    token = guarded.token(read_only=True)
    transport = opened("http", guarded.url, lambda: token)
    for sql in ("CREATE TABLE never (a)", "SELEC 1"):
        with pytest.raises(errors.Error) as raised:
            transport.batch([Step(sql)], write=True)
        cause = raised.value.__cause__
        assert token not in f"{raised.value!r} {vars(raised.value)} {cause!r}"
