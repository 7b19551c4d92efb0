"""What the machine draws from: callers, jobs, requests, and how many examples."""

from __future__ import annotations

import os

from doors import ROOT
from hypothesis import Phase, settings
from hypothesis import strategies as st
from model import (
    GLOBAL,
    Order,
    Policy,
)

from jobroom.domain.records import Caller

ALICE, BOB, ADA = Caller("alice"), Caller("bob"), Caller("ada", is_admin=True)
CAROL = Caller("carol", rooms=frozenset({"r1"}))
CALLERS = {caller.identity: caller for caller in (ALICE, BOB, CAROL, ROOT, ADA)}
JOBS = ((GLOBAL, "Turns"), (GLOBAL, "Line"), ("r1", "Own"), ("r2", "Own"))
NAMES = tuple(f"{room}:modifiers:{name}" for room, name in JOBS)

SPANS = (7, 7, 35, 63, 98, 609, 3605, 86_408, 172_802)
"""How much time passes at once: multiples of TICK, each just beyond one of the figures."""

CI = settings(
    max_examples=50,
    stateful_step_count=40,
    database=None,
    derandomize=True,
    phases=[Phase.generate],
    report_multiple_bugs=False,
)
"""For every run: the same examples each time, some ten seconds for both doors on a file."""
DEEP = settings(max_examples=3_000, stateful_step_count=100, database=None)
"""By hand: JOBROOM_STATEFUL=deep pytest tests/stateful."""
BITE = settings(CI, max_examples=2_000)
"""For the mutations: the first failure is enough, nobody reads the smallest one."""
OVER_HTTP = 4
"""A request costs some so much more than a call."""
ACROSS_A_NETWORK = 10
"""A step is some twenty round trips; what the file has found is not looked for again."""


def profile(store: str, *, over_http: bool = False) -> settings:
    """How many examples to try on a store by a door."""
    if os.environ.get("JOBROOM_STATEFUL") == "deep":
        return DEEP
    examples = CI.max_examples // (OVER_HTTP if over_http else 1)
    return settings(CI, max_examples=examples // (1 if store == "sqlite" else ACROSS_A_NETWORK))


identities = st.sampled_from(("alice", "alice", "bob", "carol", "root", "root", "ada"))
picks = st.integers(0, 11)
fences = st.sampled_from((None, 0, 0, 0, -1, 1))
rooms = st.sampled_from(("r1", "r1", "r2", "r2", GLOBAL))
statuses = st.sampled_from(("pending", "claimed", "running", "completed", "failed", "cancelled"))
policies = st.builds(
    Policy,
    on_worker_lost=st.sampled_from(("fail", "requeue")),
    max_attempts=st.sampled_from((None, None, 1, 2, 3)),
    retry_delay=st.sampled_from((None, None, 5)),
    timeout=st.sampled_from((None, None, 20)),
    claim_timeout=st.sampled_from((None, None, 12)),
    result_ttl=st.sampled_from((None, 1000)),
)
payloads = st.sampled_from(((), (("n", 1),), (("n", "x"),)))
orders = st.builds(
    Order,
    payload=payloads,
    priority=st.sampled_from((0, 0, 0, 1, -1)),
    run_in=st.sampled_from((None, None, None, -5, 12, 100)),
    expires_in=st.sampled_from((None, None, None, 13, 104)),
    max_attempts=st.sampled_from((None, None, None, 2)),
    timeout=st.sampled_from((None, None, None, 40)),
)
named_orders = st.builds(
    Order,
    payload=payloads,
    priority=st.sampled_from((0, 1)),
    key=st.sampled_from(("key-1", "key-2")),
) | st.builds(
    Order,
    payload=payloads,
    id=st.sampled_from([f"01900000-0000-7000-8000-00000000000{n}" for n in range(3)]),
)

conditions = st.sampled_from(("afterok", "afterok", "afterok", "afternotok", "afterany"))
needs = st.lists(st.tuples(picks, conditions), min_size=1, max_size=3)
spoilings = st.sampled_from((*[None] * 9, "unknown", "unseen", "twice", "itself", "cycle"))
turns = st.sampled_from(((), (0,), (0, 1), (1, 0), (2, 0, 1), (1, 2, 0, 2)))
"""Which of three tasks are retried, one after the other."""
graph_orders = st.builds(
    Order,
    priority=st.sampled_from((0, 0, 0, 1)),
    run_in=st.sampled_from((None, None, None, 12, 100)),
    max_attempts=st.sampled_from((None, None, 2)),
)
nodes = st.tuples(
    st.sampled_from((0, 1, 1)),
    graph_orders,
    st.lists(st.tuples(picks, conditions), max_size=3),
    st.lists(st.tuples(picks, conditions), max_size=1),
)
graphs = st.lists(nodes, min_size=2, max_size=6)
