"""The example pipelines that pyantz ships come to the same with our class as with its own."""

from __future__ import annotations

import json
import re

import pytest
from pyantz_runs import EXAMPLES

each_example = pytest.mark.parametrize("run", EXAMPLES)


def test_each_example_that_runs_on_one_machine_is_among_them(client):
    pipelines = {
        path.parent.name: json.loads(path.read_text())["submitter"]["type_"]
        for path in client.examples.glob("*/pipeline.json")
    }
    # The others ask for a Slurm cluster and for a host with ssh.
    others = {"08_slurm": "slurm_sbatch", "09_remote_ssh": "local_proc"}
    assert pipelines == dict.fromkeys(EXAMPLES, "local_proc") | others


@each_example
@pytest.mark.parametrize("queue_class", ["pyantz"])
def test_an_example_succeeds_with_the_class_of_pyantz(facts):
    assert set(facts["exits"]) == {0}
    assert re.fullmatch(r"Jobs: [1-9]\d*", facts["told"][0])
    assert facts["told"][2] == "  failed:    0"


@each_example
@pytest.mark.parametrize("queue_class", ["jobroom"])
def test_an_example_comes_to_the_same_with_our_class(run, runs, facts):
    assert facts == runs.facts_of(run, "pyantz")
