"""The shape of the repository: what may lie where, who may import whom, what is shipped."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import jobroom

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "joblib" / "jobroom"
COMMAND_START = "python3 -m venv .venv && "
UNTRACKED = re.compile(
    r"\.git|\.venv.*|__pycache__|build|dist|.*\.egg-info|\..*_cache|\.hypothesis|.*\.db(-.*|\.key.*)?|\.jobroom.*"
    r"|\.aws-sam|samconfig\.toml"
)


def run_python(
    code: str, *, cwd: Path, path: tuple[Path, ...] = ()
) -> subprocess.CompletedProcess[str]:
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("ZNDRAW_JOBLIB_", "JOBROOM_", "PYTHONPATH"))
    }
    environment["PYTHONPATH"] = os.pathsep.join(map(str, (*path, PACKAGE.parent)))
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def own_files(folder: Path) -> list[Path]:
    found: list[Path] = []
    for entry in sorted(folder.iterdir()):
        if UNTRACKED.fullmatch(entry.name):
            continue
        found.extend(own_files(entry) if entry.is_dir() else [entry])
    return found


def readme_commands() -> list[str]:
    lines = (ROOT / "README.md").read_text().splitlines()
    return [line for line in lines if line.startswith(COMMAND_START)]


def test_the_folder_joblib_is_never_a_package() -> None:
    assert not (ROOT / "joblib" / "__init__.py").exists()
    assert [path.name for path in (ROOT / "joblib").glob("*.py")] == []


def test_the_top_level_holds_only_what_the_layout_allows() -> None:
    needed = {"app.py", "joblib", "tests", "pyproject.toml", "README.md"}
    allowed = {"template.yaml", "Containerfile", "uv.lock", "benchmarks", "examples", "deploy"}
    there = {
        entry.name
        for entry in ROOT.iterdir()
        if not entry.name.startswith(".") and not UNTRACKED.fullmatch(entry.name)
    }
    assert needed <= there
    assert there - needed <= allowed


def test_scikit_learn_keeps_its_own_joblib_beside_ours() -> None:
    code = (
        "import sklearn, jobroom, app, joblib\n"
        "print(joblib.__file__)\n"
        "print(joblib.Parallel(n_jobs=1)([joblib.delayed(abs)(-3)]))\n"
    )
    done = run_python(code, cwd=ROOT, path=(ROOT,))
    assert done.returncode == 0, done.stderr
    file, answer = done.stdout.splitlines()
    assert not Path(file).is_relative_to(PACKAGE.parent)
    assert answer == "[3]"


def test_importing_the_app_opens_nothing(tmp_path: Path) -> None:
    code = "import threading, app; print(app.app is not None, threading.active_count())"
    done = run_python(code, cwd=tmp_path, path=(ROOT,))
    assert done.stdout.split() == ["True", "1"], done.stderr
    assert list(tmp_path.iterdir()) == []


def test_importing_the_app_leaves_out_what_only_some_doors_need(tmp_path: Path) -> None:
    code = (
        "import sys, app\n"
        "parts = {'apscheduler', 'httpx', 'uvicorn', 'alembic', 'mangum', 'sqlalchemy.orm'}\n"
        "print(sorted(parts & set(sys.modules)))\n"
    )
    done = run_python(code, cwd=tmp_path, path=(ROOT,))
    assert done.stdout.strip() == "[]", done.stderr


def test_imports_run_one_way() -> None:
    done = subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-cache"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(PACKAGE.parent)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_wheel_holds_the_package_and_nothing_else(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        timeout=120,
        check=True,
    )
    (wheel,) = tmp_path.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    dist_info = f"jobroom-{jobroom.__version__}.dist-info"
    assert {name.partition("/")[0] for name in names} == {"jobroom", dist_info}
    ours = {path.relative_to(PACKAGE.parent).as_posix() for path in own_files(PACKAGE)}
    assert ours <= names
    assert "jobroom/py.typed" in names


@pytest.mark.parametrize("name", jobroom.__all__)
def test_each_public_name_is_there(name: str) -> None:
    assert getattr(jobroom, name) is not None
    assert name in dir(jobroom)


def test_type_checkers_see_the_same_public_names() -> None:
    tree = ast.parse((PACKAGE / "__init__.py").read_text())
    (block,) = (node for node in tree.body if isinstance(node, ast.If))
    seen = {
        alias.name
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert seen | {"__version__"} == set(jobroom.__all__)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        jobroom.nonsense  # noqa: B018


def test_importing_jobroom_loads_no_third_party_module(tmp_path: Path) -> None:
    code = (
        "import sys, jobroom\n"
        "parts = {'httpx', 'pydantic', 'sqlalchemy', 'starlette', 'typer', 'orjson', 'jwt'}\n"
        "print(sorted(parts & set(sys.modules)))\n"
    )
    done = run_python(code, cwd=tmp_path)
    assert done.stdout.strip() == "[]", done.stderr


@pytest.mark.parametrize(
    ("name", "missing", "extra"),
    [
        ("create_app", "starlette", "server"),
        ("ProblemException", "starlette", "server"),
        ("JobQueue", "sqlalchemy", "queue"),
        ("JobLibSettings", "pydantic_settings", "queue"),
        ("metadata", "sqlalchemy", "queue"),
    ],
)
def test_a_name_whose_extra_is_missing_says_how_to_get_it(
    name: str, missing: str, extra: str, tmp_path: Path
) -> None:
    code = f"import sys; sys.modules[{missing!r}] = None\nfrom jobroom import {name}\n"
    done = run_python(code, cwd=tmp_path)
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("ImportError: ")
    assert f"jobroom.{name} needs {missing}" in last
    assert f'pip install "jobroom[{extra}]"' in last


def test_the_readme_has_its_two_commands() -> None:
    demo, tests = readme_commands()
    assert demo.endswith(" demo")
    assert tests.endswith(" -m pytest")


def test_ci_runs_the_tests_by_the_command_of_the_readme() -> None:
    done = subprocess.run(
        ["bash", ROOT / ".ci" / "run", "--print-test-command"],
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    assert done.stdout.strip() == readme_commands()[1]


def test_no_file_names_a_place_on_somebodys_machine() -> None:
    place = re.compile(r"(?<![\w.~-])/(?:root|home|work|Users)/[\w.]")
    named = [
        f"{path.relative_to(ROOT)}: {found.group()}"
        for path in own_files(ROOT)
        if (found := place.search(path.read_text(errors="replace")))
    ]
    assert named == []
