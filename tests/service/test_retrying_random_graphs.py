"""Random graphs, random ends, retries: what a dry run lists is what a retry changes, no more."""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from pathlib import Path

import pytest
from desk import Desk
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from plots import Plot, tangles

from jobroom.domain.graph import Condition, EdgeState, edge_state
from jobroom.domain.records import Caller
from jobroom.errors import InvalidTaskTransition
from jobroom.service import retrying
from jobroom.service.queue import JobQueue
from jobroom.settings import JobLibSettings

ALICE, BOB = Caller("alice"), Caller("bob")
EXAMPLES = 40
MOST_NODES = 8
STEPS = ("complete", "fail", "fail", "cancel", "start", "retry", "retry")


@st.composite
def graphs(draw) -> dict[str, dict[str, str]]:
    """What each node depends on, under which condition; earlier nodes only."""
    count = draw(st.integers(4, MOST_NODES))
    conditions = st.sampled_from([str(each) for each in Condition])
    names = [f"n{n}" for n in range(count)]
    wanted = [
        st.dictionaries(st.sampled_from(names[:n]), conditions, min_size=1, max_size=3)
        for n in range(1, count)
    ]
    return {name: draw(some) for name, some in zip(names, [st.just({}), *wanted], strict=True)}


steps = st.lists(
    st.tuples(st.sampled_from(STEPS), st.integers(0, MOST_NODES - 1)), min_size=15, max_size=40
)


class Site:
    """One graph of one example, in a store that holds those before it as well."""

    def __init__(self, desk: Desk, needs: dict[str, dict[str, str]]) -> None:
        self.needs = needs
        self.met: Counter[str] = Counter()
        """What its retries had to do with."""
        self.plot = Plot(desk, BOB, desk.job(ALICE))
        said = {
            name: " ".join(f"{each}:{how}" for each, how in wanted.items())
            for name, wanted in needs.items()
        }
        self.plot.draw(**said)

    def start(self, name: str) -> None:
        """As a claim would, but this one, whatever waits before it."""
        self.plot.desk.write(
            "UPDATE task SET status = 'running', worker_id = 'alice', attempt = attempt + 1,"  # noqa: S608 - our own id
            f" starts = 1, started_at = 1 WHERE id = '{self.plot.ids[name]}'"
        )

    def do(self, what: str, name: str) -> None:
        """One step, where the state of the task allows it."""
        status = self.plot.statuses()[name]
        if what == "retry":
            self.retry(name)
        elif what == "cancel" and status in {"blocked", "pending", "running"}:
            self.plot.cancel(name)
        elif what != "cancel" and status in {"pending", "running"}:
            if status == "pending":
                self.start(name)
            if what != "start":
                {"complete": self.plot.complete, "fail": self.plot.fail}[what](name, ALICE)

    def retry(self, name: str) -> bool:
        """Retry it; what changes is what the dry run has listed, and what the rules say."""
        run, before = self.plot.desk.queue.run, self.plot.statuses()
        asked = {"caller": BOB, "task_id": self.plot.ids[name]}
        try:
            listed = [self.plot.named(each) for each in run(retrying.plan_retry, **asked).ids]
        except InvalidTaskTransition as refusal:
            with pytest.raises(InvalidTaskTransition, match=str(refusal)):
                run(retrying.retry_task, **asked)
            assert self.plot.statuses() == before
            return False
        expected = self.changed_with(name)
        blamed = {each: row[2] for each, row in self.plot.rows().items()}
        run(retrying.retry_task, **asked)
        after = self.plot.statuses()
        assert listed[0] == name
        assert sorted(listed) == sorted(each for each in after if after[each] != before[each])
        assert sorted(listed) == sorted(expected)
        self.note(name, listed, before, blamed)
        return True

    def note(
        self, root: str, listed: list[str], before: dict[str, str], blamed: dict[str, str | None]
    ) -> None:
        """Count what it was; who stays failed has another to blame by now."""
        for name, (status, _, failed_by, error) in self.plot.rows().items():
            if status == "failed" and failed_by is not None:
                assert failed_by not in listed
                assert error.startswith(f"dependency {failed_by} ")
                self.met["blames another"] += failed_by != blamed[name]
        self.met["retries"] += 1
        self.met["undone"] += sum(before[each] == "failed" for each in listed if each != root)
        self.met["held back"] += sum(before[each] == "pending" for each in listed)
        self.met["blocked"] += self.plot.statuses()[root] == "blocked"

    def changed_with(self, root: str) -> set[str]:
        """By the rules alone: whose dependencies, as they would be then, deny its state."""
        rows = self.plot.rows()
        again = {root}
        while True:
            more = {
                name
                for name, wanted in self.needs.items()
                if rows[name][2] is not None and name not in again and again & wanted.keys()
                if not any(
                    edge_state(how, "pending" if each in again else rows[each][0])
                    == EdgeState.BROKEN
                    for each, how in wanted.items()
                )
            }
            if not more:
                break
            again |= more
        held_back = {
            name
            for name, wanted in self.needs.items()
            if rows[name][0] == "pending" and again & wanted.keys()
        }
        return again | held_back

    def finish(self) -> None:
        """Retry what can be, and complete all; then nothing waits."""
        for _ in range(3 * len(self.needs)):
            for name in self.needs:
                self.do("complete", name)
            again = [name for name in self.needs if self.retry(name)]
            if not again:
                break
        for name in self.needs:
            self.do("complete", name)
        rows = self.plot.rows()
        for name, (status, *_) in rows.items():
            # What is left never runs: a dependency ended, and was to end otherwise.
            assert status == "completed" or any(
                edge_state(how, rows[each][0]) == EdgeState.BROKEN
                for each, how in self.needs[name].items()
            )


@pytest.fixture(scope="module")
def desk(empty_database):
    """One file for all examples; making one takes longer than an example."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "queue.db"
        shutil.copy(empty_database, path)
        known = JobLibSettings(database_url=f"sqlite:///{path}", sqlite_synchronous="NORMAL")
        with JobQueue.open(known) as queue:
            yield Desk(queue)


@settings(
    max_examples=EXAMPLES,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
    # What fails is small as it is, and each run of it goes through a store.
    phases=[Phase.generate],
)
@given(needs=graphs(), steps=steps)
def check_retries(desk, met, needs, steps) -> None:
    site = Site(desk, needs)
    names = list(needs)
    for what, n in steps:
        site.do(what, names[n % len(names)])
    site.finish()
    assert tangles(desk) == []
    desk.write("DELETE FROM edge")
    desk.write("DELETE FROM task")
    met.update(site.met)


def test_a_dry_run_lists_what_the_retry_changes(desk, tally) -> None:
    """Rules, *Retry*: ``?dry_run=true`` lists them first."""
    met: Counter[str] = Counter()
    check_retries(desk, met)
    tally(graphs=EXAMPLES, **{name.replace(" ", "_"): count for name, count in met.items()})
    for name in ("retries", "undone", "held back", "blames another", "blocked"):
        assert met[name] >= EXAMPLES // 10, name
