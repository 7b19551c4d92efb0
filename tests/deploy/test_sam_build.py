"""``sam build``: the template and the Makefile find each other, and make what the tests run."""

from __future__ import annotations

import hashlib
import json
import platform
import re
from pathlib import Path
from typing import Any

import artifact
import pytest
import sam_tools
from tooling import digest, locked

ELF_MACHINES = {"x86_64": 62, "aarch64": 183}
OTHER = {"x86_64": "aarch64", "aarch64": "x86_64"}
TEMPLATES_NAME = {"x86_64": "x86_64", "aarch64": "arm64"}
KEPT = 3


@pytest.fixture(scope="session")
def built(request: pytest.FixtureRequest, tmp_path_factory) -> artifact.Built:
    """What the tests run."""
    cache = getattr(request.config, "cache", None)
    return artifact.prepare(
        Path(cache.mkdir("lambda")) if cache else tmp_path_factory.mktemp("lambda")
    )


@pytest.fixture(scope="session")
def manifests(
    built: artifact.Built, request: pytest.FixtureRequest, tmp_path_factory
) -> dict[str, dict[str, Any]]:
    """What ``sam build`` makes: the API function for this machine, the sweep for the other one."""
    cache = getattr(request.config, "cache", None)
    folder = Path(cache.mkdir("sam")) if cache else tmp_path_factory.mktemp("sam")
    tools = sam_tools.prepare(folder)
    template = sam_tools.TEMPLATE.read_text()
    known = folder / f"build-{digest(built.folder.parent.name, template)}.json"
    with locked(tools.folder):
        if not known.exists():
            before = digest(*artifact._contents())
            made = _build_both(tools, built, tmp_path_factory.mktemp("build"))
            after = digest(*artifact._contents())
            assert after == before, "somebody has changed what was being built: run it again"
            _forget_old(folder)
            known.write_text(json.dumps(made))
        return json.loads(known.read_text())


def _forget_old(folder: Path) -> None:
    known = sorted(folder.glob("build-*"), key=lambda path: path.stat().st_mtime)
    for path in known[: 1 - KEPT]:
        path.unlink()


def _build_both(
    tools: sam_tools.Tools, built: artifact.Built, folder: Path
) -> dict[str, dict[str, Any]]:
    here = platform.machine()
    made = {}
    for function, machine in (("ApiFunction", here), ("SweepFunction", OTHER[here])):
        done = tools.sam(
            "build",
            function,
            "--build-dir",
            folder / function,
            "--parameter-overrides",
            f"Architecture={TEMPLATES_NAME[machine]}",
            AWS_DEFAULT_REGION=sam_tools.REGION,
            LAMBDA_PLATFORM=machine,
            PYTHON=str(built.python),
            PYTHON_VERSION=built.version,
        )
        assert done.returncode == 0, done.stdout
        made[function] = _manifest(folder / function / function)
    return made


def _manifest(folder: Path) -> dict[str, Any]:
    """For each file its digest, or for which processor it is."""
    return {
        path.relative_to(folder).as_posix(): _kind(path)
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def _kind(path: Path) -> str | int:
    content = path.read_bytes()
    if path.suffix == ".pyc":
        return "bytecode"  # the compiler does not write the same bytes each time
    if content[:4] == b"\x7fELF":
        return int.from_bytes(content[18:20], "little")
    return hashlib.sha256(content).hexdigest()


def _without_processor(manifest: dict[str, Any]) -> set[str]:
    """What both machines have: the name of a library that a wheel bundles has a digest in it."""
    names = (name for name in manifest if ".libs/" not in name)
    return {re.sub(r"(x86_64|aarch64)", "", name) for name in names}


def test_sam_builds_what_the_tests_run(
    manifests: dict[str, dict[str, Any]], built: artifact.Built
) -> None:
    assert manifests["ApiFunction"] == _manifest(built.folder)


def test_sam_builds_for_the_other_processor_too(manifests: dict[str, dict[str, Any]]) -> None:
    here, other = manifests["ApiFunction"], manifests["SweepFunction"]
    machine = platform.machine()
    assert _machines(here) == {ELF_MACHINES[machine]}
    assert _machines(other) == {ELF_MACHINES[OTHER[machine]]}
    assert _without_processor(other) == _without_processor(here)


def _machines(manifest: dict[str, Any]) -> set[int]:
    return {kind for kind in manifest.values() if isinstance(kind, int)}


def test_nothing_but_the_function_is_built(manifests: dict[str, dict[str, Any]]) -> None:
    for manifest in manifests.values():
        assert {"app.py", "jobroom/__init__.py", "mangum/__init__.pyc"} <= manifest.keys()
        first = {name.partition("/")[0] for name in manifest}
        assert not first & {"tests", "joblib", "deploy", "benchmarks", "template.yaml", "uvicorn"}
