"""What the deploy's build makes for AWS Lambda, and the locked requirements that it is made of."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import tomllib
import zipfile
from importlib import metadata
from pathlib import Path

import artifact
import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

MOST_MEGABYTES = 24
"""So that it does not grow unnoticed. Four native libraries alone are 16 of them."""
LEAN_MEGABYTES = 15
UNCHECKED_HASH = 0b01
# Our packages for people and their workers, which no function runs.
OF_OTHER_DOORS = {"cli", "client", "compat", "demo", "testing", "worker"}
ARM_ON_LAMBDA = {
    "implementation_name": "cpython",
    "platform_machine": "aarch64",
    "platform_python_implementation": "CPython",
    "platform_system": "Linux",
    "python_version": "3.13",
    "python_full_version": "3.13.9",
    "sys_platform": "linux",
    "os_name": "posix",
}
IMPORT_ALL = """
import importlib, json, pkgutil, sys
import app, jobroom
assert callable(app.handler) and callable(app.sweep)
lacking = {}
for module in pkgutil.walk_packages(jobroom.__path__, "jobroom.", onerror=lambda name: None):
    try:
        if not module.name.endswith("__main__") and ".migrations" not in module.name:
            importlib.import_module(module.name)
    except ImportError as error:
        lacking[module.name] = error.name
places = {name: getattr(module, "__file__", None) for name, module in sys.modules.items()}
print(json.dumps({"lacking": lacking, "places": places, "base": sys.base_prefix}))
"""

OPEN = """
from jobroom import keys
from jobroom.errors import ConfigurationError
from jobroom.settings import JobLibSettings
from jobroom.store import dialect
settings = JobLibSettings()
try:
    keys.configured_keys(settings)
    dialect.open_database(settings).close()
    print("ready")
except ConfigurationError as error:
    print(error)
"""


@pytest.fixture(scope="module")
def built(request):
    return artifact.prepare(request.config.cache.mkdir("lambda"))


@pytest.fixture(scope="module")
def names(built):
    with zipfile.ZipFile(built.archive) as packed:
        return packed.namelist()


@pytest.fixture(scope="module")
def installed(built):
    """The dependencies, as their metadata in the artifact tell of them."""
    found = metadata.distributions(path=[str(built.folder)])
    return {canonicalize_name(each.metadata["Name"]): each for each in found}


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location(
        "build_lambda", artifact.DEPLOY / "build_lambda.py"
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_it_is_small_and_tells_its_ten_largest_parts(built, script, tally):
    lines = script.size_lines(built.archive)
    for line in lines:
        tally(f"artifact: {line}")
    assert built.archive.stat().st_size <= MOST_MEGABYTES * 1_000_000
    assert len(lines) == 11


def test_it_holds_the_deploys_file_the_package_and_its_dependencies_alone(names, installed):
    tops = {name.partition("/")[0] for name in names}
    allowed = {"app.py", "jobroom", "__pycache__"}
    for each in installed.values():
        folder = f"{each.metadata['Name'].replace('-', '_')}-{each.version}.dist-info"
        allowed |= {top for top in tops if top.lower() == folder.lower()}
        name = each.metadata["Name"].lower().replace("-", "_")
        allowed |= {top for top in tops if top.lower().removesuffix(".pyc") == name}
    others = {
        "_cffi_backend",
        "dotenv",
        "jwt",
        "psycopg_binary",
    }  # called otherwise than their projects
    assert {top for top in tops - allowed if top.partition(".")[0] not in others} == set()


def test_it_holds_nothing_called_joblib_and_no_tests(names):
    """scikit-learn's joblib is another package: what shadows it breaks whoever imports it."""
    parts = {part for name in names for part in name.split("/")}
    assert parts & {"joblib", "tests", "test", "testing", "conftest.py", "bin"} == set()
    assert not [name for name in names if name.endswith((".pyi", ".pyx", ".pxd", ".c", ".h"))]


def test_it_holds_the_whole_package_but_for_what_no_function_runs(names):
    source = artifact.ROOT / "joblib"
    own = source / "jobroom"
    package = {
        path.relative_to(source).as_posix()
        for path in (source / "jobroom").rglob("*")
        if path.is_file()
        and "__pycache__" not in path.parts
        and path.relative_to(own).parts[0] not in OF_OTHER_DOORS
    }
    packed = {name for name in names if name.startswith("jobroom/") and not name.endswith(".pyc")}
    assert packed == package


def test_each_module_has_bytecode_of_the_functions_python_that_is_never_checked(built, names):
    """What unpacks a zip sets other times than its sources had, and the folder is read-only."""
    tag = f".cpython-{built.version.replace('.', '')}.pyc"
    bytecode = [name for name in names if name.endswith(".pyc")]
    made_for = {
        str(Path(name).parent.parent / Path(name).name.replace(tag, ".py"))
        for name in bytecode
        if "__pycache__/" in name
    }
    assert made_for == {name for name in names if name.endswith(".py")}
    assert {name.partition("/")[0] for name in made_for} == {"app.py", "jobroom"}
    flags = {(built.folder / name).read_bytes()[4:8] for name in bytecode}
    assert flags == {UNCHECKED_HASH.to_bytes(4, "little")}
    own = built.folder / "__pycache__" / f"app{tag}"
    assert b"/var/task/app.py" in own.read_bytes()  # where a trace says that it is


def test_of_its_dependencies_it_holds_the_bytecode_alone_without_docstrings(built):
    told = "import sqlalchemy; print(sqlalchemy.__file__, sqlalchemy.select.__doc__)"
    environment = {"PYTHONPATH": str(built.folder)}
    said = artifact.run(built.python, "-c", told, environment=environment)
    assert said.split() == [str(built.folder / "sqlalchemy" / "__init__.pyc"), "None"]


def test_of_a_projects_metadata_it_holds_what_scanners_read(built, installed):
    files = {path.name for path in built.folder.glob("*.dist-info/**/*") if path.is_file()}
    assert files == {"METADATA"}
    assert installed["starlette"].metadata["License-Expression"] == "BSD-3-Clause"


def test_it_runs_beside_the_packages_of_the_runtime_alone(built):
    """Every module that is there can be imported, and nothing warns."""
    done = subprocess.run(
        [built.python, "-B", "-W", "error", "-c", IMPORT_ALL],
        cwd=built.folder,
        env={},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["lacking"] == {}
    allowed = (str(built.folder), said["base"], str(built.python.parents[1]))
    strangers = [
        place for place in said["places"].values() if place and not place.startswith(allowed)
    ]
    assert strangers == []


def test_a_deploy_that_says_what_it_uses_does_not_carry_the_rest(built, request, tmp_path):
    kept = request.config.cache.mkdir("lambda") / "dependencies"
    folder, packed = tmp_path / "lean", tmp_path / "lean.zip"
    artifact.build(
        built.python,
        folder,
        built.version,
        *("--keep-in", kept, "--store", "libsql", "--keys", "secret", "--zip", packed),
    )
    assert not [*folder.glob("psycopg*"), *folder.glob("cryptography*")]
    assert packed.stat().st_size < LEAN_MEGABYTES * 1_000_000
    for given, said in (
        ({"DATABASE_URL": "postgresql://db.example/queue"}, "A PostgreSQL store needs its driver"),
        ({"JWT_PUBLIC_KEY": "any"}, "Public keys need a library"),
        ({"JWT_SECRET": "s" * 32}, "ready"),
    ):
        told = {"DATABASE_URL": "libsql://db.example", **given}
        environment = {f"ZNDRAW_JOBLIB_{name}": value for name, value in told.items()}
        environment["PYTHONPATH"] = str(folder)
        assert artifact.run(built.python, "-c", OPEN, environment=environment).startswith(said)


def test_the_same_sources_make_the_same_zip(built, request, tmp_path):
    """Else each deploy would replace functions of which nothing has changed."""
    kept = request.config.cache.mkdir("lambda") / "dependencies"
    again = tmp_path / "again.zip"
    arguments = (built.version, "--keep-in", kept, "--zip", again)
    artifact.build(built.python, tmp_path / "again", *arguments)
    assert again.read_bytes() == built.archive.read_bytes()


def test_without_the_functions_python_it_is_built_and_says_what_is_missing(
    script, tmp_path, capsys
):
    (tmp_path / "module.py").write_text("x = 1\n")
    script._compile(tmp_path, tmp_path, "3.99")
    assert "the function's is 3.99. Name one of that version: PYTHON=" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["module.py"]


def test_the_makefile_builds_each_function_of_the_template(built):
    template = (artifact.ROOT / "template.yaml").read_text()
    functions = re.findall(
        r"^  (\w+):\n    Type: AWS::Serverless::Function$", template, re.MULTILINE
    )
    makefile = (artifact.DEPLOY / "Makefile").read_text()
    (targets,) = re.findall(r"^(build-.*):$", makefile, re.MULTILINE)
    assert targets.split() == [f"build-{name}" for name in functions]


def test_the_makefile_builds_for_the_templates_runtime_and_architecture():
    template = (artifact.ROOT / "template.yaml").read_text()
    makefile = (artifact.DEPLOY / "Makefile").read_text()
    (version,) = set(re.findall(r"Runtime: python(\S+)", template))
    (architecture,) = re.findall(
        r"^  Architecture:\n(?:    .*\n)*?    Default: (\w+)", template, re.MULTILINE
    )
    assert f"PYTHON_VERSION ?= {version}\n" in makefile
    assert f"LAMBDA_PLATFORM ?= {architecture}\n" in makefile


@pytest.mark.parametrize("name", ["requirements-lambda.txt", "requirements-server.txt"])
def test_the_requirements_are_pinned_and_hashed_and_name_no_index(name):
    text = (artifact.DEPLOY / name).read_text()
    assert "://" not in text
    assert not re.search(r"^\s*-(?!-hash=sha256:[0-9a-f]{64}( \\)?$)", text, re.MULTILINE)
    entries = re.split(r"\n(?=[a-z])", re.sub(r"^\s*#.*\n", "", text, flags=re.MULTILINE).strip())
    assert len(entries) > 20
    for entry in entries:
        assert re.match(r"[a-z0-9-]+==\S+( ; [^\\]+)? \\\n    --hash=sha256:", entry), entry


def test_the_functions_requirements_hold_for_either_architecture():
    """pip would judge a marker by the machine that builds."""
    assert ";" not in (artifact.DEPLOY / "requirements-lambda.txt").read_text()


def test_the_artifact_has_what_the_extra_asks_for_and_nothing_else(installed):
    """All but the command line's; an edit of pyproject.toml needs a new lock."""
    left_out = _names(artifact.DEPLOY / "not-on-lambda.txt")
    wanted = [each for each in _asked("lambda") if canonicalize_name(each.name) not in left_out]
    met = set()
    while wanted:
        requirement = wanted.pop()
        name = canonicalize_name(requirement.name)
        assert name in installed, f"{requirement} is missing: make -C deploy lock"
        version = installed[name].version
        assert requirement.specifier.contains(version), f"{requirement}: {version} is too old"
        if (name, *requirement.extras) not in met:
            met.add((name, *requirement.extras))
            wanted += _needs(installed[name], requirement.extras)
    assert {name for name, *_ in met} == set(installed)


def test_the_servers_requirements_satisfy_its_extras():
    text = (artifact.DEPLOY / "requirements-server.txt").read_text()
    pinned = dict(re.findall(r"^([a-z0-9-]+)==([^\s;]+)", text, re.MULTILINE))
    for requirement in [*_asked("server"), *_asked("postgres")]:
        version = pinned[canonicalize_name(requirement.name)]
        assert requirement.specifier.contains(version), f"{requirement}: {version}"


def _names(path):
    return {line for line in path.read_text().splitlines() if line and not line.startswith("#")}


def _asked(extra):
    """What the project's base and one of its extras ask for."""
    project = tomllib.loads((artifact.ROOT / "pyproject.toml").read_text())["project"]
    asked = [Requirement(each) for each in project["dependencies"]]
    for each in map(Requirement, project["optional-dependencies"][extra]):
        if each.name == project["name"]:
            asked += [more for name in sorted(each.extras) for more in _asked(name)]
        else:
            asked.append(each)
    return asked


def _needs(distribution, extras):
    for each in map(Requirement, distribution.requires or ()):
        if each.marker is None or any(
            each.marker.evaluate({**ARM_ON_LAMBDA, "extra": extra}) for extra in ("", *extras)
        ):
            yield each
