"""pyantz itself, on a Python that it runs on, and what the tests saw of its runs."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import newer_python
import pytest
from pyantz_client import CLASSES, VERSION, Client, prepare
from pyantz_runs import EXAMPLES, Facts, Runs

collect_ignore = ["on_path"]  # the modules there need pyantz
# Kept with a test's result, which may come from another process.
CHECKED = "checked with pyantz"
PIPELINE, EXAMPLE = "pipeline", "example"
ON_PYTHON = "pyantz on Python"


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Note what a test of our class is about, before it may be skipped."""
    parameters = item.callspec.params if hasattr(item, "callspec") else {}
    if parameters.get("queue_class") == "jobroom":
        kind = EXAMPLE if parameters["run"] in EXAMPLES else PIPELINE
        item.user_properties.append((CHECKED, kind))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say whether pyantz was run at all: a test that is skipped is easily overlooked."""
    reports = [
        report
        for each in terminalreporter.stats.values()
        for report in each
        if isinstance(report, pytest.TestReport) and CHECKED in dict(report.user_properties)
    ]
    if reports:
        terminalreporter.section("pyantz")
        terminalreporter.write_line(_line_of(reports))


def _line_of(reports: list[pytest.TestReport]) -> str:
    for report in reports:
        if report.skipped and isinstance(report.longrepr, tuple):
            return f"NOT RUN: {report.longrepr[2].removeprefix('Skipped: ')}"
    every, held, pythons = Counter(), Counter(), set()
    for report in reports:
        properties = dict(report.user_properties)
        kind = properties[CHECKED]
        every[kind] += report.when == "call" or (report.when == "setup" and report.failed)
        held[kind] += report.when == "call" and report.passed
        pythons.add(properties.get(ON_PYTHON))
    return (
        f"real pyantz {VERSION} on Python {', '.join(sorted(pythons - {None}))}: "
        f"{held[PIPELINE]} of {every[PIPELINE]} checks of real pipelines, "
        f"{held[EXAMPLE]} of {len(EXAMPLES)} example pipelines"
    )


@pytest.fixture(scope="session")
def newer() -> newer_python.Found:
    """The Python that pyantz runs on."""
    found = newer_python.find()
    if found is None:
        pytest.skip(newer_python.MISSING)
    return found


@pytest.fixture(scope="session")
def client(newer: newer_python.Found, request: pytest.FixtureRequest, tmp_path_factory) -> Client:
    """pyantz, installed beside this checkout; pytest's cache keeps it for the next run."""
    cache = getattr(request.config, "cache", None)
    folder = Path(cache.mkdir("pyantz")) if cache else tmp_path_factory.mktemp("pyantz")
    return prepare(newer, folder)


@pytest.fixture(scope="session")
def runs(client: Client, request: pytest.FixtureRequest, tmp_path_factory) -> Iterator[Runs]:
    """The runs that the tests of this session look at, all of them begun at once."""
    begun = Runs(client, tmp_path_factory.mktemp("runs"))
    if "PYTEST_XDIST_WORKER" not in os.environ:  # there each process has some of the tests
        for item in request.session.items:
            if "facts" in getattr(item, "fixturenames", ()):
                parameters = item.callspec.params
                begun.begin(parameters["run"], parameters["queue_class"])
    yield begun
    begun.close()


@pytest.fixture(params=CLASSES)
def queue_class(request: pytest.FixtureRequest) -> str:
    """Which class pyantz has: its own, or the one in its place."""
    return request.param


@pytest.fixture
def facts(
    run: str,
    queue_class: str,
    newer: newer_python.Found,
    runs: Runs,
    request: pytest.FixtureRequest,
) -> Facts:
    """What was seen of the run that the test is about."""
    request.node.user_properties.append((ON_PYTHON, newer.version))
    return runs.facts_of(run, queue_class)
