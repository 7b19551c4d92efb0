"""What a task raises, and what it leaves behind, costs its slot nothing (docs, *workers*)."""

from __future__ import annotations

import pytest
from worker_shop import Room

NASTY = """
    import sys

    class Nasty(Exception):
        def __init__(self, raised):
            self.raised = raised

        def __str__(self):
            raise self.raised

    @job
    def nasty(how: str) -> int:
        raise Nasty(SystemExit(3) if how == "exit" else KeyboardInterrupt())

    @job
    def traced() -> int:
        sys.settrace(lambda *seen: None)
        sys.setprofile(lambda *seen: None)
        return 1

    @job
    def watched() -> bool:
        return sys.gettrace() is not None or sys.getprofile() is not None
"""

BOUND = """
    import functools

    class Scaler:
        def __init__(self, factor):
            self.factor = factor

        def scale(self, x: int) -> int:
            return x * self.factor

    @job
    def plus(x: int, y: int = 3) -> int:
        return x + y

    thrice = job(name="thrice")(Scaler(3).scale)
    fourfold = job(name="fourfold")(Scaler(4).scale)
    added = job(name="added")(functools.partial(plus, y=10))
"""


@pytest.fixture(scope="module", params=["thread", "process"])
def room(shop, request, tmp_path_factory):
    made = Room(shop, tmp_path_factory.mktemp("nasty"))
    made.isolate = ("--isolate", request.param)
    yield made
    made.close()


@pytest.mark.parametrize("how", ["exit", "interrupt"])
def test_an_error_whose_text_ends_the_program_ends_its_task_alone(room, how):
    room.worker(NASTY, *room.isolate, jobs=3)
    failed = room.until_status(room.submit("nasty", how=how), "failed")
    assert failed["error"].startswith("Nasty: (its message cannot be shown)")
    room.until_completed(room.submit("watched"))


def test_a_debugger_that_a_task_leaves_on_looks_at_nothing_after_it(room):
    room.worker(NASTY, *room.isolate, jobs=3)
    room.until_completed(room.submit("traced"))
    task = room.submit("watched")
    room.until_completed(task)
    assert room.task(task)["result"] is False


def test_bound_methods_and_partials_are_found_by_the_names_of_their_jobs(room):
    room.worker(BOUND, *room.isolate, jobs=3)
    tasks = [room.submit(name, x=2) for name in ("thrice", "fourfold", "added", "plus")]
    assert room.until_completed(*tasks) == [6, 8, 12, 5]
