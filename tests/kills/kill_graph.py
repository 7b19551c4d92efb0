"""A random graph of jobs that end as planned, and what must come of it, reckoned from the plan.

A job that is there before the workers begin may depend on any other such job before it, and may
add jobs of its own while it runs, which what waits for it then waits for as well. A job that comes
later depends on jobs that add none: else it would hang on the moment of its coming what it waits
for. So the plan alone says how each job ends.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

GROUP = 60
"""Failures spread within a group only; from one to another leads ``afterany`` alone."""
MOST_NEEDS = 20
FAILING, ADDING, GRANDCHILDREN = 0.03, 0.1, 0.2
CONDITIONS, WEIGHTS = ("afterok", "afterany", "afternotok"), (80, 13, 7)


@dataclass
class Job:
    """``needs``: name -> condition. ``dies``: what becomes of it when its worker is killed."""

    name: str
    needs: dict[str, str]
    ends_well: bool = True
    children: list[Job] = field(default_factory=list)
    dies: str | None = None

    def added(self, *, first: bool = False):
        """Its children, or those that it adds before its worker is killed."""
        return self.children[: len(self.children) // 2] if first else self.children


@dataclass
class Fate:
    """``needs`` are with those handed on by jobs that added others; ``broken`` of them."""

    job: Job
    parent: str | None
    needs: dict[str, str]
    broken: set[str]
    end: str
    """``well``, ``badly``, ``lost`` with its worker, or ``never begun``."""
    children: list[str]

    @property
    def runs(self):
        return self.end != "never begun"

    @property
    def status(self):
        return "completed" if self.end == "well" else "failed"


def fates(jobs):
    """What becomes of each job that is added; each depends on those before it, in this order."""
    found: dict[str, Fate] = {}
    for job in jobs:
        _follow(job, None, found)
    return found


def _follow(job, parent, found):
    needs: dict[str, str] = {}
    for name, condition in job.needs.items():
        _need(name, condition, needs, found)
    broken = {name for name, how in needs.items() if name in found and not _met(found[name], how)}
    # Only a job that fails anyway may name one that never comes.
    assert broken or needs.keys() <= found.keys()
    end = "well" if job.ends_well else "badly"
    end = "never begun" if broken else "lost" if job.dies == "lost" else end
    fate = found[job.name] = Fate(job, parent, needs, broken, end, [])
    for child in job.added(first=end == "lost") if fate.runs else ():
        fate.children.append(child.name)
        _follow(child, job.name, found)


def _need(name, condition, needs, found):
    needs.setdefault(name, condition)
    if name in found:
        for child in found[name].children:
            _need(child, condition, needs, found)


def _met(fate, condition):
    return condition == "afterany" or (condition == "afterok") == (fate.end == "well")


def _group_of(before):
    """What there is of the group to which the next job belongs."""
    return before[len(before) // GROUP * GROUP :]


class Maker:
    """Makes a graph of which exactly ``size`` jobs are added, of one seed always the same.

    ``is_mixed``: a job may have its dependencies on various conditions.
    """

    def __init__(self, size, seed, *, is_mixed):
        self._random, self._is_mixed = random.Random(seed), is_mixed
        self.early: list[Job] = []
        self.late: list[Job] = []
        # Of those that jobs add not all come, as not all jobs run.
        while len(self.early) < size * 0.63:
            self.early.append(self._early())
        for part, dies in ((1 / 4, "lost"), (1 / 2, "again")):
            self._doom(int(len(self.early) * part), dies)
        plain = [job for job in self.early if not job.children]
        for _ in range(size - len(fates(self.early))):
            self.late.append(self._late(plain))
        self.jobs = [*self.early, *self.late]
        self.fates = fates(self.jobs)
        assert len(self.fates) == size

    def _early(self):
        before = self.early
        needs = self._needs(before, _group_of(before))
        job = Job(f"early-{len(before)}", needs, self._random.random() > FAILING)
        if self._random.random() < ADDING:
            plain = [each.name for each in before[-2 * GROUP :] if not each.children]
            self._add_children(job, plain, deeper=True)
        return job

    def _late(self, plain):
        before = self.late
        group = [*self._random.sample(plain, GROUP // 4), *_group_of(before)]
        needs = self._needs(plain + before, group)
        return Job(f"late-{len(before)}", needs, self._random.random() > FAILING)

    def _needs(self, before, group):
        most = self._random.choice((0, 1, 1, 2, 2, 2, 3, 3, 5, MOST_NEEDS))
        if len(before) >= GROUP and self._random.random() < 0.15:
            far = self._random.sample(before[-20 * GROUP :], min(most, GROUP))
            return {each.name: "afterany" for each in far}
        needs: dict[str, str] = {}
        (condition,) = self._random.choices(CONDITIONS, WEIGHTS)
        for each in self._random.sample(group, min(most, len(group))):
            if self._is_mixed:
                (condition,) = self._random.choices(CONDITIONS, WEIGHTS)
            needs[each.name] = condition
            # What comes only while that runs may be named before, if without that all is over.
            if not self._is_mixed and condition == "afterok" and self._random.random() < 0.3:
                needs |= {child.name: condition for child in each.children}
        return needs

    def _add_children(self, job, plain, *, deeper):
        for n in range(self._random.randint(1, 4)):
            names = [*plain, *(each.name for each in job.children if not each.children)]
            chosen = self._random.sample(names, min(len(names), self._random.choice((0, 0, 1, 2))))
            (condition,) = self._random.choices(CONDITIONS, WEIGHTS)
            needs = dict.fromkeys(chosen, condition)
            child = Job(f"{job.name}.{n}", needs, self._random.random() > FAILING)
            if deeper and self._random.random() < GRANDCHILDREN:
                self._add_children(child, plain, deeper=False)
            job.children.append(child)

    def _doom(self, start, dies):
        """The first job from there on that runs, and adds some before its worker is killed."""
        there = fates(self.early)
        wanted = {name for fate in there.values() if fate.runs for name in fate.needs}
        for job in self.early[start:] + self.early[:start]:
            fate = there[job.name]
            if fate.end == "well" and job.added(first=True) and job.name in wanted:
                job.dies = dies
                return
        raise AssertionError("no job of this graph can lose its worker")
