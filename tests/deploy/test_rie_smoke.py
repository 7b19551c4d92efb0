"""The built function behind AWS's own Runtime Interface Emulator: one request, cold, then warm."""

from __future__ import annotations

import json
import platform
import shutil
import subprocess
import time
import zipfile
from pathlib import Path

import artifact
import httpx
import lambda_events as events
import live_server
import pytest
from environments import platform_variables
from live_server import free_port
from sam_tools import SAM
from tooling import locked

PROGRAM = {"x86_64": "x86_64", "aarch64": "arm64"}
INVOKE = "/2015-03-31/functions/function/invocations"
SECONDS = 60


@pytest.fixture(scope="module")
def emulator(request):
    """The program out of the wheel of the SAM command line, which ships it."""
    folder = request.config.cache.mkdir("lambda")
    built = artifact.prepare(folder)
    program = folder / f"aws-lambda-rie-{SAM.rpartition('=')[2]}"
    with locked(folder):
        if not program.exists():
            download(built.python, folder / "wheel", program)
    return program


def download(python, folder: Path, program: Path):
    command = [python, "-m", "pip", "download", "-q", "--no-deps", "-d", folder, SAM]
    subprocess.run(command, check=True, timeout=300)
    (wheel,) = folder.glob("*.whl")
    name = f"samcli/local/rapid/aws-lambda-rie-{PROGRAM[platform.machine()]}"
    unfinished = program.with_suffix(".new")
    with zipfile.ZipFile(wheel) as packed:
        unfinished.write_bytes(packed.read(name))
    unfinished.chmod(0o755)
    unfinished.rename(program)
    shutil.rmtree(folder)


@pytest.fixture
def invoke(request, emulator, stores, tmp_path):
    """Invokes the function; one event at a time, for two at once end the emulator."""
    built = artifact.prepare(request.config.cache.mkdir("lambda"))
    port, api_port = free_port(), free_port()
    url = stores.fresh("libsql", tmp_path)
    command = [emulator, "--runtime-interface-emulator-address", f"127.0.0.1:{port}"]
    command += ["--runtime-api-address", f"127.0.0.1:{api_port}"]
    command += [built.python, "-m", "awslambdaric", "app.handler"]
    variables = {
        **platform_variables("app.handler", built, ()),
        "AWS_LAMBDA_FUNCTION_TIMEOUT": str(SECONDS),
        "ZNDRAW_JOBLIB_DATABASE_URL": url,
        "ZNDRAW_JOBLIB_JWT_SECRET": live_server.SECRET,
    }
    output = tmp_path / "output.txt"
    with output.open("wb") as said:
        process = subprocess.Popen(
            command,
            cwd=built.folder,
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
        )
    try:
        until_listening(port, process, output)
        yield lambda event: post(port, event)
    finally:
        process.terminate()
        process.wait(SECONDS)
        stores.release(url)


def until_listening(port, process, output):
    ends = time.monotonic() + SECONDS
    while time.monotonic() < ends:
        assert process.poll() is None, output.read_text()
        try:
            httpx.get(f"http://127.0.0.1:{port}/", trust_env=False, timeout=SECONDS)
        except httpx.ConnectError:
            time.sleep(0.05)
        else:
            return
    raise AssertionError(output.read_text())


def post(port, event):
    answer = httpx.post(
        f"http://127.0.0.1:{port}{INVOKE}",
        content=json.dumps(event),
        timeout=SECONDS,
        trust_env=False,
    )
    return events.read(event, answer.json())


def test_awss_own_emulator_runs_the_artifact(invoke, tally):
    bearer = ("authorization", f"Bearer {live_server.token_of('w', is_admin=True)}")
    began = time.monotonic()
    assert invoke(events.http_api("GET", "/healthz")).json() == {"status": "ok"}
    cold = time.monotonic() - began
    answer = invoke(events.http_api("GET", "/v1/me", [bearer]))
    assert answer.json() == {"id": "w", "is_admin": True, "rooms": None}
    body = b'{"category": "modifiers", "name": "Rotate"}'
    kind = ("content-type", "application/json")
    jobs = "/v1/joblib/rooms/r1/jobs"
    assert invoke(events.http_api("PUT", jobs, [bearer, kind], body)).status == 201
    refused = invoke(events.http_api("GET", "/v1/me"))
    assert (refused.status, refused.header("content-type")) == (401, "application/problem+json")
    tally(cold_seconds=round(cold, 2))
