"""What every test may use: a queue on a real store, whose clock the test moves."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import servers
from hypothesis import HealthCheck, settings

from jobroom.domain.records import Caller
from jobroom.service.queue import JobQueue
from jobroom.settings import JobLibSettings
from jobroom.store import dialect, migrate

# A busy machine is no fault of what is tested: no example fails for being slow.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")

SECOND = 1_000_000
STORES = ("sqlite", "libsql", "libsql+client", "postgresql")
"""``libsql+client`` is the libSQL server, spoken to by the ``libsql-client`` library."""
CONFORMANCE = ("conformance", "migrations", "service", "stateful", "store")
"""The folders whose tests run on every store; those elsewhere have a SQLite file."""
# Kept with a test's result, which may come from another process.
COUNTED = "counted"
ON_STORE = "store"
ABOUT_SOME = "about some stores"
THROUGH_DOOR = "door"


def pytest_xdist_auto_num_workers() -> int:
    """One more than there are cores: many tests wait for servers, and not for a core."""
    return (os.cpu_count() or 1) + 1


def pytest_configure(config: pytest.Config) -> None:
    """Name what a test of conformance or of the contract may say of itself."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # A shell that runs this in its background lets Ctrl-C be ignored, here and in all children.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    config.addinivalue_line("markers", "only_on(*stores): it is about these stores and no other")
    config.addinivalue_line("markers", "in_process_only(reason): no server lets its inside be seen")
    config.addinivalue_line("markers", "path_as_sent(reason): no gateway may decode the path")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a conformance test that needs a store on each, or on those that it is about."""
    folder = metafunc.definition.path.relative_to(Path(__file__).parent).parts[0]
    if "store" in metafunc.fixturenames and folder in CONFORMANCE:
        mark = metafunc.definition.get_closest_marker("only_on")
        metafunc.parametrize("store", mark.args if mark else STORES, indirect=True)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the counts: a test that passed says nothing of how much it went through."""
    reports = [
        report
        for each in terminalreporter.stats.values()
        for report in each
        if isinstance(report, pytest.TestReport)
    ]
    _print_section(terminalreporter, "counts", _lines_counted(reports))
    _print_section(terminalreporter, "conformance", _lines_of_stores(reports))
    _print_section(terminalreporter, "contract", _lines_of_doors(reports))


def _print_section(terminal: pytest.TerminalReporter, title: str, lines: list[str]) -> None:
    if lines:
        terminal.section(title)
    for line in lines:
        terminal.write_line(line)


def _lines_counted(reports: list[pytest.TestReport]) -> list[str]:
    return [
        str(value)
        for report in reports
        if report.when == "teardown"
        for name, value in report.user_properties
        if name == COUNTED
    ]


def _lines_of_stores(reports: list[pytest.TestReport]) -> list[str]:
    """A line for each store; it says why its number may not be another's."""
    on: dict[str, list[pytest.TestReport]] = {}
    for report in reports:
        told = dict(report.user_properties)
        if ON_STORE in told:
            on.setdefault(str(told[ON_STORE]), []).append(report)
    return [_line_of_store(store, on[store]) for store in STORES if store in on]


def _lines_of_doors(reports: list[pytest.TestReport]) -> list[str]:
    """A line for each door that the contract's tests went through, the first door first."""
    through: dict[str, list[pytest.TestReport]] = {}
    for report in reports:
        if door := dict(report.user_properties).get(THROUGH_DOOR):
            through.setdefault(str(door), []).append(report)
    return [f"{door} {_outcomes(found)}" for door, found in through.items()]


def _line_of_store(store: str, reports: list[pytest.TestReport]) -> str:
    passed = [report for report in reports if report.passed and report.when == "call"]
    about_some = sum(ABOUT_SOME in dict(report.user_properties) for report in passed)
    line = f"{store} {_outcomes(reports)}"
    if about_some:
        line += f": {len(passed) - about_some} on every store, {about_some} about some stores alone"
    return line


def _outcomes(reports: list[pytest.TestReport]) -> str:
    passed = [report for report in reports if report.passed and report.when == "call"]
    others = Counter(report.outcome for report in reports if not report.passed)
    said = f"{len(passed)} passed"
    said += "".join(f", {count} {outcome}" for outcome, count in sorted(others.items()))
    return said + f" in {sum(report.duration for report in reports):.0f} s"


@pytest.fixture
def tally(request: pytest.FixtureRequest) -> Callable[..., None]:
    """Call it with counts that are to be printed at the end of the run, or with a line."""
    node = request.node

    def note(line: str = "", **counts: object) -> None:
        said = " ".join(f"{key}={value}" for key, value in counts.items())
        node.user_properties.append((COUNTED, line or f"{node.name}: {said}"))

    return note


@pytest.fixture(scope="session")
def empty_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A migrated, empty database file: copying it is a hundred times faster than migrating."""
    path = tmp_path_factory.mktemp("template") / "empty.db"
    JobQueue.open(JobLibSettings(database_url=f"sqlite:///{path}")).close()
    return path


def migrated(url: str) -> None:
    """Do what ``jobroom db upgrade`` does."""
    database = dialect.open_database(JobLibSettings(database_url=url))
    try:
        migrate.upgrade(database)
    finally:
        database.close()


@pytest.fixture(scope="session")
def stores() -> Iterator[servers.Stores]:
    """The real servers, each started when a test first needs it; one of a kind per process."""
    with servers.Stores(migrated) as opened:
        yield opened


@pytest.fixture
def store(request: pytest.FixtureRequest) -> str:
    """The kind of store that the test runs on: a SQLite file, but for conformance tests."""
    kind = str(getattr(request, "param", "sqlite"))
    if hasattr(request, "param"):
        request.node.user_properties.append((ON_STORE, kind))
        if request.node.get_closest_marker("only_on"):
            request.node.user_properties.append((ABOUT_SOME, "yes"))
    return kind


@pytest.fixture
def fresh_database(
    store: str, stores: servers.Stores, tmp_path: Path
) -> Iterator[Callable[[], str]]:
    """Makes an empty, migrated database of this test's store; its URL.

    With the ``libsql-client`` library there is one at a time: the next call empties it.
    """
    made: list[str] = []

    def fresh() -> str:
        if store == "libsql+client":
            url = stores.fresh("libsql", tmp_path, at_root=True)
            return f"libsql+client://{url.removeprefix('http://')}?tls=0"
        made.append(stores.fresh(store, tmp_path))
        return made[-1]

    yield fresh
    for url in made:
        stores.release(url)


@pytest.fixture
def settings(fresh_database: Callable[[], str]) -> JobLibSettings:
    """Settings for a fresh database of this test; FULL is for power cuts, which tests have not."""
    return JobLibSettings(database_url=fresh_database(), sqlite_synchronous="NORMAL")


@pytest.fixture
def queue(settings: JobLibSettings) -> Iterator[JobQueue]:
    """An open queue; ``queue.clock_offset += 5 * SECOND`` lets five seconds pass."""
    with JobQueue.open(settings) as opened:
        yield opened


@pytest.fixture
def alice() -> Caller:
    """A user who sees every room."""
    return Caller("alice")


@pytest.fixture
def bob() -> Caller:
    """Another user who sees every room."""
    return Caller("bob")


@pytest.fixture
def admin() -> Caller:
    """An admin of every room."""
    return Caller("root", is_admin=True)
