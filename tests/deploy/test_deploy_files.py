"""The compose files, Fly's file and the page of the container: whole, and true of the image."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import container_file
import pytest
import servers
import yaml
from compose_spec import PyCompose
from container_file import ROOT

from jobroom.settings import PREFIX, JobLibSettings

DEPLOY = ROOT / "deploy"
PAGE = ROOT / "joblib" / "docs" / "container.md"
COMPOSED = {"sqld": DEPLOY / "compose.sqld.yaml", "postgres": DEPLOY / "compose.postgres.yaml"}
SETTINGS = {PREFIX + name.upper() for name in JobLibSettings.model_fields}
UNPINNED = "CL-0019"
"""compose-lint asks for digests; a tag is what a reader can judge and renew."""


@pytest.fixture(params=COMPOSED)
def composed(request):
    """One of the compose files, its merges resolved."""
    return yaml.safe_load(COMPOSED[request.param].read_text())


@pytest.fixture
def services(composed):
    return composed["services"]


def test_a_parser_of_the_specification_takes_it(composed):
    """It refuses keys and values that the compose specification has not."""
    parsed = PyCompose.from_json(json.dumps(composed)).to_dict()
    assert set(parsed["services"]) == {"api", "upgrade", "store"}


@pytest.mark.parametrize(("key", "value"), [("helthcheck", {}), ("restart", "sometimes")])
def test_that_parser_would_see_a_slip(composed, key, value):
    composed["services"]["api"][key] = value
    with pytest.raises(ValueError, match=f"`({key}|{value})`"):
        PyCompose.from_json(json.dumps(composed))


@pytest.mark.parametrize("path", COMPOSED.values(), ids=COMPOSED)
def test_a_linter_for_its_safety_finds_nothing(path):
    lint = Path(sys.executable).parent / "compose-lint"
    done = subprocess.run(
        [lint, "check", "--no-env", "--format", "json", path],
        capture_output=True,
        text=True,
        check=False,
    )
    found = json.loads(done.stdout)["findings"]
    assert {each["rule_id"] for each in found} <= {UNPINNED}, found


def test_every_container_is_shut_in(services):
    for name, service in services.items():
        assert service["read_only"] is True, name
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert "cap_add" not in service, name
        assert {"mem_limit", "cpus", "pids_limit"} <= set(service), name
    assert services["store"]["user"] not in {"root", "0", "0:0"}


def test_the_server_starts_when_the_database_is_ready_and_of_its_schema(services):
    """``jobroom db upgrade``, once, between the store and the server."""
    assert services["upgrade"]["command"] == ["jobroom", "db", "upgrade"]
    assert services["upgrade"]["restart"] == "no"
    assert services["upgrade"]["depends_on"] == {"store": {"condition": "service_healthy"}}
    finished = {"condition": "service_completed_successfully"}
    assert services["api"]["depends_on"] == {"upgrade": finished}
    for name in ("api", "store"):
        assert services[name]["healthcheck"]["test"][0] == "CMD", name
        assert services[name]["restart"] == "unless-stopped", name


def test_the_server_keeps_the_command_and_the_health_check_of_the_image(services):
    api = services["api"]
    assert not {"command", "entrypoint", "user"} & set(api)
    (check,) = container_file.last_stage("HEALTHCHECK")
    assert api["healthcheck"]["test"] == ["CMD", *check.listed]
    assert services["upgrade"]["image"] == api["image"]
    grace = int(container_file.environment()["UVICORN_TIMEOUT_GRACEFUL_SHUTDOWN"])
    assert int(api["stop_grace_period"].removesuffix("s")) > grace


def test_only_the_server_is_reached_from_outside_and_only_from_this_host(services, composed):
    port = container_file.environment()["PORT"]
    assert services["api"]["ports"] == [f"127.0.0.1:{port}:{port}"]
    for name in ("store", "upgrade"):
        assert "ports" not in services[name]
        assert services[name]["networks"] == ["inside"]
    assert composed["networks"]["inside"] == {"internal": True}


def test_secrets_are_files_and_in_no_variable(services, composed):
    """``docker inspect`` shows every variable."""
    for service in services.values():
        given = service.get("environment", {})
        for name, value in given.items():
            assert not re.search("SECRET|TOKEN|PASSWORD", name) or name.endswith("_FILE")
            assert "@" not in value
        assert {name for name in given if name.startswith(PREFIX)} <= SETTINGS
    for name, secret in composed["secrets"].items():
        assert re.fullmatch(r"secrets/\w+", secret["file"])
        if name.startswith(PREFIX.lower()):
            assert name.upper() in SETTINGS


def test_what_must_last_is_on_a_volume(services, composed):
    (volume,) = services["store"]["volumes"]
    assert volume.partition(":")[0] in composed["volumes"]


def test_the_images_of_others_are_pinned(services):
    assert re.search(r":v?\d+\.\d+\S*$", services["store"]["image"])


def test_the_health_check_of_sqld_tells_a_running_one_from_none():
    """The one of the compose file, word for word, against the real server."""
    service = yaml.safe_load(COMPOSED["sqld"].read_text())["services"]["store"]
    _, *check = service["healthcheck"]["test"]
    with servers.Sqld() as sqld:
        command = [word.replace("/8080", f"/{sqld.port}") for word in check]
        assert subprocess.run(command, stderr=subprocess.DEVNULL, check=False).returncode != 0
        sqld.start()
        assert subprocess.run(command, timeout=30, check=False).returncode == 0


@pytest.fixture
def fly():
    return tomllib.loads((DEPLOY / "fly.toml").read_text())


def test_fly_builds_the_file_that_is_there(fly):
    assert (DEPLOY / fly["build"]["dockerfile"]).resolve() == container_file.FILE
    assert fly["deploy"]["release_command"] == "jobroom db upgrade"


def test_fly_speaks_to_the_port_of_the_image_and_waits_for_its_end(fly):
    variables = container_file.environment()
    assert fly["http_service"]["internal_port"] == int(variables["PORT"])
    assert fly["kill_signal"] == "SIGTERM"
    assert fly["kill_timeout"] > int(variables["UVICORN_TIMEOUT_GRACEFUL_SHUTDOWN"])


def test_on_fly_no_poll_waits_longer_than_its_proxy(fly):
    """It ends connections on which nothing came for 60 s."""
    assert float(fly["env"][f"{PREFIX}LONG_POLL_MAX_WAIT_SECONDS"]) < 60
    assert {name for name in fly["env"] if name.startswith(PREFIX)} <= SETTINGS


def test_on_fly_nothing_runs_while_nothing_is_asked(fly):
    assert fly["http_service"]["min_machines_running"] == 0
    assert fly["http_service"]["auto_start_machines"] is True


def test_the_page_names_settings_that_there_are():
    named = set(re.findall(rf"{PREFIX}[A-Z_]+", PAGE.read_text()))
    assert named <= SETTINGS
    assert named


def test_the_page_names_files_that_there_are():
    page = PAGE.read_text()
    for path in re.findall(r"(?:tests/)?deploy/[\w.]+\.(?:yaml|toml|py)", page):
        assert (ROOT / path).exists(), path
    for link in re.findall(r"\]\((?!http)([^)#]+)", page):
        assert (PAGE.parent / link).exists(), link


def test_on_cloud_run_no_poll_waits_longer_than_its_request_may(fly):
    """The recipe of the page."""
    (timeout,) = re.findall(r"--timeout[= ](\d+)", PAGE.read_text())
    (wait,) = re.findall(rf"{PREFIX}LONG_POLL_MAX_WAIT_SECONDS=(\d+)", PAGE.read_text())
    assert int(wait) < int(timeout)


def test_the_snippet_for_kubernetes_fits_the_image():
    (text,) = re.findall(r"```yaml\n(apiVersion.*?)```", PAGE.read_text(), re.DOTALL)
    documents = list(yaml.safe_load_all(text))
    (deployment,) = [each for each in documents if each["kind"] == "Deployment"]
    pod = deployment["spec"]["template"]["spec"]
    (server,) = pod["containers"]
    variables = container_file.environment()
    assert server["ports"] == [{"name": "http", "containerPort": int(variables["PORT"])}]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert server["securityContext"]["readOnlyRootFilesystem"] is True
    grace = int(variables["UVICORN_TIMEOUT_GRACEFUL_SHUTDOWN"])
    assert pod["terminationGracePeriodSeconds"] > grace
    for probe, path in (("livenessProbe", "/healthz"), ("readinessProbe", "/readyz")):
        assert server[probe]["httpGet"] == {"path": path, "port": "http"}
    (upgrade,) = pod["initContainers"]
    assert upgrade["command"] == ["jobroom", "db", "upgrade"]
    for each in (*server["env"], *upgrade["env"]):
        assert each["name"] in SETTINGS
        assert "secretKeyRef" in each["valueFrom"]
