"""The container: its file by what it says, its command by being run. Issue 5, *The container*.

What needs root and Debian's packages, the image itself, is built and run by
``deploy/try_container.py``.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import container_file
import httpx
import live_server
import pytest
from container_file import ROOT, Served, last_stage
from docker.utils.build import exclude_paths
from packaging.requirements import Requirement

LOCKED = ("deploy/requirements-build.txt", "deploy/requirements-server.txt")
SHIPPED = {
    "README.md",
    "app.py",
    "deploy/healthcheck.py",
    "joblib/jobroom/__init__.py",
    "joblib/jobroom/py.typed",
    "joblib/jobroom/demo/molecule.xyz",
    "pyproject.toml",
    *LOCKED,
}
KEPT_OUT = {
    ".env",
    ".git/config",
    ".venv/bin/python",
    "deploy/fly.toml",
    "deploy/secrets/jwt_secret",
    "id_rsa",
    "jobroom.db",
    "jobroom.db.key",
    "joblib/CHANGELOG.md",
    "joblib/docs/trust.md",
    "joblib/jobroom/.env",
    "joblib/jobroom/.mypy_cache/x.json",
    "joblib/jobroom/__pycache__/x.cpython-313.pyc",
    "joblib/jobroom/http/__pycache__/x.cpython-313.pyc",
    "template.yaml",
    "tests/conftest.py",
}


def test_hadolint_has_nothing_to_say():
    """Issue 5, *Done when*: hadolint clean."""
    hadolint = Path(sys.executable).parent / "hadolint"
    done = subprocess.run(
        [hadolint, container_file.FILE], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_it_is_shipped_without_what_builds_it():
    before, build, shipped = container_file.stages()
    assert [each.text for each in before] == [
        "PYTHON_IMAGE=docker.io/library/python:3.13-slim",
    ]
    assert build[0].text == "${PYTHON_IMAGE} AS build"
    assert shipped[0].text == "${PYTHON_IMAGE}"
    assert [each.words[0] for each in last_stage("COPY")] == ["--from=build"] * 2


def test_the_user_is_a_number_and_not_root():
    """A number is what ``runAsNonRoot`` can judge."""
    assert [each.text for each in last_stage("USER")] == ["10001:10001"]


def test_the_command_makes_way_for_the_server():
    """Exec form, and ``exec``: the server is process 1, which gets SIGTERM."""
    shell, option, line = container_file.command()
    assert (shell, option) == ("sh", "-c")
    assert line.startswith("exec uvicorn app:app ")
    assert "--workers 1" in line
    assert not last_stage("ENTRYPOINT"), "`docker run jobroom jobroom db upgrade` is a command"


def test_requests_end_before_the_platform_loses_patience():
    """Cloud Run and docker wait 10 s after SIGTERM."""
    assert int(container_file.environment()["UVICORN_TIMEOUT_GRACEFUL_SHUTDOWN"]) < 10
    assert [each.text for each in last_stage("STOPSIGNAL")] == ["SIGTERM"]


def test_the_port_that_is_told_is_the_one_that_is_listened_on():
    assert [each.text for each in last_stage("EXPOSE")] == [container_file.environment()["PORT"]]


def test_no_secret_can_come_into_a_layer():
    """Nothing is fetched by address, given as an argument of the build, or set as a variable."""
    everything = [each for stage in container_file.stages() for each in stage]
    assert not [each for each in everything if each.name == "ADD"]
    named = [each.text for each in everything if each.name in {"ARG", "ENV"}]
    assert not [text for text in named if re.search("SECRET|TOKEN|PASSWORD|KEY=|_URL", text)]


def test_only_what_is_locked_is_installed():
    (installing, building) = [
        each.text for each in container_file.stages()[1] if each.name == "RUN"
    ]
    commands = [part for part in installing.split("&&") if " install " in part]
    assert [re.search(r"-r (\S+)", part)[1] for part in commands] == list(LOCKED)
    for part in commands:
        assert "--require-hashes --no-deps --only-binary :all:" in part
    assert "--no-build-isolation" in building
    assert "--no-index" in building


@pytest.mark.parametrize("path", LOCKED)
def test_each_locked_package_has_a_version_and_hashes(path):
    text = re.sub(r"#.*", "", (ROOT / path).read_text()).replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line.strip()]
    for line in lines:
        requirement = Requirement(line.partition("--hash")[0].strip())
        assert str(requirement.specifier).startswith("=="), line
        assert line.count("--hash=sha256:") >= 1, line


def test_the_locked_builder_is_the_one_that_the_project_asks_for():
    (asked,) = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    wanted = Requirement(asked)
    (version,) = re.findall(rf"^{wanted.name}==(\S+)", (ROOT / LOCKED[0]).read_text(), re.MULTILINE)
    assert version in wanted.specifier


@pytest.fixture
def context(tmp_path):
    """Which files of a folder get into the build, by the rules that the client itself goes by."""
    for name in SHIPPED | KEPT_OUT:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    return files_in_context(tmp_path)


def files_in_context(folder):
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    patterns = [line for line in lines if line and not line.startswith("#")]
    chosen = exclude_paths(str(folder), patterns)
    # The client always sends the files that steer the build; no COPY names them.
    steering = {".dockerignore", "Containerfile", "Dockerfile"}
    return {path for path in chosen if (folder / path).is_file()} - steering


def test_the_build_gets_what_is_listed_and_nothing_else(context):
    """``.dockerignore`` is a list of what may come in."""
    assert context == SHIPPED


def test_everything_that_the_build_copies_is_in_its_context():
    found = files_in_context(ROOT)
    for each in container_file.stages()[1]:
        if each.name == "COPY":
            for source in each.words[:-1]:
                assert any(path == source or path.startswith(source) for path in found), source
    assert not [path for path in found if path.endswith((".pyc", ".db", ".key"))]


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """The image's command, with its work in a file elsewhere, as on a volume."""
    folder = tmp_path_factory.mktemp("served")
    (folder / "data").mkdir()
    with Served(
        folder,
        ZNDRAW_JOBLIB_DATABASE_URL=f"sqlite:///{folder}/data/jobroom.db",
        ZNDRAW_JOBLIB_JWT_SECRET=live_server.SECRET,
    ) as running:
        yield running.until_ready()


def test_it_listens_on_the_port_that_the_platform_names(served):
    """``PORT`` is how Cloud Run and others say it."""
    assert httpx.get(f"{served.url}/healthz").status_code == 200


def test_the_server_is_the_process_that_was_started(served):
    """No shell is left in front of it, which would not pass on SIGTERM."""
    assert Path(f"/proc/{served.process.pid}/comm").read_text().strip() == "uvicorn"


def test_it_does_not_say_what_serves_it(served):
    assert "server" not in httpx.get(f"{served.url}/healthz").headers


def test_its_log_has_one_line_of_json_for_each_request(served):
    """And not a second one by the server beneath."""
    with served.client() as client:
        client.get("/v1/me", headers={"x-request-id": "look-for-me"})
    until = time.monotonic() + 20
    while "look-for-me" not in served.output and time.monotonic() < until:
        time.sleep(0.02)  # the line is written when the answer has gone
    lines = [line for line in served.output.splitlines() if "look-for-me" in line]
    assert [json.loads(line)["status"] for line in lines] == [200]
    assert "HTTP/1.1" not in served.output


def test_work_is_done_in_a_folder_that_cannot_be_written(served):
    """A root that is read only."""
    with served.client() as client:
        live_server.register(client)
        task_id = live_server.submit(client)
        claimed = client.post(f"{live_server.BASE}/tasks/claim", json={"start": True}).json()
        done = client.patch(f"{live_server.BASE}/tasks/{task_id}", json={"status": "completed"})
    assert claimed["task"]["id"] == task_id
    assert done.json()["status"] == "completed"
    assert sorted(path.name for path in served.folder.iterdir()) == ["app.py"]


def test_that_folder_really_cannot_be_written(served):
    """Else the test before it, and the one of what is not configured, would say nothing."""
    writing = [*container_file.unprivileged(), "touch", served.folder / "x"]
    done = subprocess.run(writing, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "Permission denied" in done.stderr


def test_the_health_check_is_content_with_a_server_that_answers(served):
    """Whatever proxy the container has for the way out."""
    for proxy in ({}, {"http_proxy": "http://127.0.0.1:9", "HTTP_PROXY": "http://127.0.0.1:9"}):
        done = served.health(**proxy)
        assert (done.returncode, done.stderr) == (0, "")


def test_the_health_check_says_in_a_line_that_nobody_answers(served):
    done = served.health(PORT=str(live_server.free_port()))
    assert done.returncode == 1
    assert re.fullmatch("no answer: .*\n", done.stderr)


def test_at_sigterm_a_long_poll_is_answered_and_the_server_ends(tmp_path):
    """Well inside the grace of any platform, whatever was asked for."""
    database = {"ZNDRAW_JOBLIB_DATABASE_URL": f"sqlite:///{tmp_path}/jobroom.db"}
    with (
        Served(tmp_path, ZNDRAW_JOBLIB_JWT_SECRET=live_server.SECRET, **database) as server,
        server.until_ready().client() as client,
        ThreadPoolExecutor(1) as pool,
    ):
        live_server.register(client)
        path = f"{live_server.BASE}/tasks/{live_server.submit(client)}"
        poll = pool.submit(client.get, path, headers={"prefer": "wait=20"})
        until_waiting(client, server)
        began = time.monotonic()
        server.terminate()
        answer = poll.result(60)
        server.process.wait(60)
        assert time.monotonic() - began < 3
        assert (answer.status_code, answer.json()["status"]) == (200, "pending")
        assert server.health().returncode == 1


def until_waiting(client, server):
    """Requests on other connections are answered after one that was sent before them."""
    with httpx.Client(base_url=server.url, headers=client.headers) as other:
        for _ in range(20):
            assert other.get("/v1/me").status_code == 200
            time.sleep(0.02)


@pytest.mark.parametrize(
    ("variables", "sentence"),
    [
        ({}, "ZNDRAW_JOBLIB_DATABASE_URL"),
        (
            {"ZNDRAW_JOBLIB_DATABASE_URL": "sqlite:///{folder}/jobroom.db"},
            "set ZNDRAW_JOBLIB_JWT_SECRET, ZNDRAW_JOBLIB_JWT_PUBLIC_KEY or",
        ),
        (
            {"ZNDRAW_JOBLIB_DATABASE_URL": "sqlite:////nowhere/jobroom.db"},
            "The folder /nowhere does not exist; make it, or set ZNDRAW_JOBLIB_DATABASE_URL",
        ),
    ],
    ids=["nothing", "no key", "no volume"],
)
def test_what_is_not_configured_is_told_in_one_sentence(tmp_path, variables, sentence):
    """Design 6: in the container nothing configured is an error that says what to set."""
    given = {name: value.format(folder=tmp_path) for name, value in variables.items()}
    with Served(tmp_path, **given) as server:
        assert server.process.wait(60) not in (0, -9)
        said = server.output
        assert len([line for line in said.splitlines() if sentence in line]) == 1, said
        assert "Traceback" not in said
        assert [path.name for path in server.folder.iterdir()] == ["app.py"]
