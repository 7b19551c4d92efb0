"""Tokens that expire while a worker works, and the callables that renew them."""

from __future__ import annotations

import threading
import time

import faultproxy as fp
import httpx
import live_server
import pytest
from workshop import until

from jobroom import tokens
from jobroom.client import search, task
from jobroom.client.connection import Connection
from jobroom.client.task import current_task
from jobroom.errors import ConfigurationError, StoreUnavailable, Unauthorized


def short_token(seconds=2):
    """Made for whole seconds: this one is good for one to ``seconds``."""
    return tokens.issue_token(live_server.SECRET, sub="w", hours=(seconds - 1) / 3600)


class Issuer:
    """A callable that keeps a token for as long as its clock says, as users write them."""

    def __init__(self, seconds=2):
        self.seconds = seconds
        self.given = 0
        self.fault = None
        self._token = None
        self._until = 0.0

    def __call__(self):
        if self.fault is not None:
            raise self.fault
        if time.monotonic() >= self._until:
            self._token, self.given = short_token(self.seconds), self.given + 1
            self._until = time.monotonic() + self.seconds - 1
        return self._token


def test_work_goes_on_over_many_tokens(patient_shop, told):
    """Heartbeats, claims that wait, task bodies and reports all take the next token."""
    shop, issuer, seen = patient_shop, Issuer(), []

    def work(one):
        before = issuer.given
        while issuer.given < before + 1:
            seen.append(current_task().progress(0.5))
            time.sleep(0.1)
        return one.number

    worker = shop.hire(work, api=shop.connect(issuer))
    worker.jobs.worker._instance.timeout_seconds = 0.9
    first = shop.submit(1)
    shop.until_status(first, "completed")
    before = issuer.given
    until(lambda: issuer.given >= before + 1)  # nothing to do meanwhile
    second = shop.submit(2)
    done = shop.until_status(second, "completed")
    assert (done["attempt"], done["starts"], done["result"]) == (1, 1, 2)
    assert set(seen) == {True}
    assert told.events == []
    assert worker.error is None


def test_a_claim_whose_token_ends_while_it_waits_is_made_with_the_next_one(patient_shop, told):
    """Rules, *Who sees what*: while waiting only ``exp`` is looked at again."""
    shop, old, new = patient_shop, short_token(), live_server.token_of("w")

    def refused():
        return [one for one in shop.proxy.asked("POST", "/claim") if one.status == 401]

    worker = shop.hire(api=shop.connect(lambda: new if refused() else old))
    until(refused)
    assert shop.until_status(shop.submit(4), "completed")["result"] == 4
    assert len(refused()) == 1
    assert told.events == []
    assert worker.error is None


def test_a_callable_that_raises_for_a_while_is_borne_like_an_outage(patient_shop, told):
    """A result is kept over it, with one line at its begin and one at its end."""
    shop, issuer, fault = patient_shop, Issuer(30), OSError("no route to the issuer, secret-1")

    def work(one):
        issuer.fault = fault
        return one.number

    worker = shop.hire(work, api=shop.connect(issuer))
    task_id = shop.submit(1)
    until(lambda: told.of("token.unavailable"))
    time.sleep(0.5)
    assert shop.task(task_id)["status"] == "running"
    issuer.fault = None
    done = shop.until_status(task_id, "completed")
    assert (done["result"], done["starts"]) == (1, 1)
    until(lambda: told.of("token.accepted"))
    assert told.events == ["token.unavailable", "token.accepted"]
    assert type(fault).__name__ in told.lines[0]
    assert "secret" not in told.lines[0]
    assert worker.error is None


def test_a_token_file_that_is_just_being_written_is_borne(patient_shop, told):
    """What a callable reads may be empty or half for a moment."""
    shop, holder, bad = patient_shop, [live_server.token_of("w")], ["", "a b\n", None]

    def work(one):
        holder.append(bad[one.number])
        threading.Timer(0.25, holder.pop).start()
        return one.number

    worker = shop.hire(work, api=shop.connect(lambda: holder[-1]))
    for number in range(3):
        done = shop.until_status(shop.submit(number), "completed")
        assert (done["result"], done["starts"]) == (number, 1)
    assert set(told.events) <= {"token.unavailable", "token.refused", "token.accepted"}
    assert worker.error is None


def test_a_callable_that_never_gave_a_token_is_told_at_once(patient_shop):
    def broken():
        raise KeyError("CLUSTER_TOKEN")

    began = time.monotonic()
    with pytest.raises(StoreUnavailable, match=r"callable.*KeyError") as raised:
        patient_shop.hire(api=patient_shop.connect(broken))
    assert isinstance(raised.value.__cause__, KeyError)
    assert time.monotonic() - began < 30

    async def coroutine():
        return "t"

    with pytest.raises(ConfigurationError, match="async"):
        patient_shop.hire(api=patient_shop.connect(coroutine))


def test_a_callable_that_goes_on_giving_an_expired_token_ends_the_loop_with_one_sentence(
    patient_shop, told, monkeypatch
):
    """It says what to do; the server was asked again and again, but not without pauses."""
    monkeypatch.setattr(search, "REFUSED_SECONDS", 1.0)
    monkeypatch.setattr(task, "REPORT", task.Patience(3600.0, refused_seconds=0.5))
    shop, token = patient_shop, short_token()

    def work(one):
        until(lambda: shop.direct.get("/v1/me", headers=bearer(token)).status_code == 401)
        return one.number

    worker = shop.hire(work, api=shop.connect(lambda: token))
    shop.submit(1)
    worker.join(30)
    assert isinstance(worker.error, Unauthorized)
    assert "expired" in str(worker.error)
    assert "callable" in str(worker.error)
    assert "clock" in str(worker.error)
    refused = [one for one in shop.proxy.seen if one.status == 401]
    assert 3 <= len(refused) <= 30
    assert told.events.count("token.refused") == 2  # that it is refused, and the task's report


def test_a_token_that_comes_late_is_waited_for(patient_shop, told):
    """The file is renewed by somebody else, some seconds after the token in it expired."""
    shop, holder = patient_shop, [short_token()]

    def work(one):
        until(lambda: shop.direct.get("/v1/me", headers=bearer(holder[0])).status_code == 401)
        threading.Timer(0.7, lambda: holder.insert(0, short_token(60))).start()
        return one.number

    worker = shop.hire(work, api=shop.connect(lambda: holder[0]))
    done = shop.until_status(shop.submit(1), "completed")
    assert (done["result"], done["starts"]) == (1, 1)
    until(lambda: told.of("token.accepted"))
    assert told.events == ["token.refused", "token.accepted"]
    assert worker.error is None


def bearer(token):
    return {"authorization": f"Bearer {token}"}


def test_a_gateways_authorizer_that_says_403_to_an_old_token_gets_the_next_one(patient_shop):
    """Some authorizers answer so, and not with 401."""
    shop, given = patient_shop, []

    def token():
        given.append(live_server.token_of("w", hours=1 + len(given)))
        return given[-1]

    shop.proxy.fail_next(fp.page(403))
    worker = shop.hire(api=shop.connect(token))
    assert shop.until_status(shop.submit(1), "completed")["result"] == 1
    assert worker.error is None


def test_two_threads_never_ask_the_callable_at_once():
    """Refresh tokens that may be used once would be used twice."""
    inside, most = [], []

    def token():
        inside.append(1)
        most.append(len(inside))
        time.sleep(0.01)
        inside.pop()
        return "t"

    with Connection("http://127.0.0.1:1", token, http=httpx.Client(verify=False)) as connection:  # noqa: S501
        threads = [threading.Thread(target=connection.get_headers) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        connection.http.close()
    assert max(most) == 1
