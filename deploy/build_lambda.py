"""Builds what AWS Lambda unpacks: app.py, the package and what they need, and nothing else."""

from __future__ import annotations

import argparse
import compileall
import fcntl
import hashlib
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from py_compile import PycInvalidationMode

ROOT = Path(__file__).resolve().parents[1]
REQUIREMENTS = ROOT / "deploy" / "requirements-lambda.txt"
KEPT = ROOT / "deploy" / "build" / "dependencies"
TASK_ROOT = "/var/task"
ARCHITECTURES = {"arm64": "aarch64", "aarch64": "aarch64", "x86_64": "x86_64"}
GLIBC_MINORS = range(34, 16, -1)
"""Wheels for these run there: its python3.13 is on Amazon Linux 2023, with glibc 2.34."""
BUILT_AT = 315_619_200
"""1980-01-02, for a zip knows nothing older; of every file, so the same input is the same zip."""

# What wheels bring along and no function reads.
NEEDLESS_FOLDERS = (
    "bin",
    "certifi/tests",
    "cffi",  # compiles; what it compiled asks for _cffi_backend alone
    "pycparser",
    "pydantic/v1",
    "sqlalchemy/dialects/mssql",
    "sqlalchemy/dialects/mysql",
    "sqlalchemy/dialects/oracle",
    "sqlalchemy/ext/asyncio",
    "sqlalchemy/ext/declarative",
    "sqlalchemy/orm",
    "sqlalchemy/testing",
)
OF_OTHER_DOORS = ("cli", "client", "compat", "demo", "testing", "worker")
"""Our packages for people and their workers."""
NEEDLESS_FOR_STORE = {"any": (), "libsql": ("psycopg*",)}
NEEDLESS_FOR_KEYS = {
    "any": (),
    "secret": ("cryptography*", "cffi*", "_cffi_backend*", "pycparser*"),
}
"""What a function does not need whose store and keys are known when it is built."""
NEEDLESS_SUFFIXES = (".pyi", ".pyx", ".pxd", ".c", ".h")


def main() -> None:
    """The command line; the Makefile has the only users of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, help="where to build; emptied first")
    parser.add_argument("--platform", default="arm64", choices=ARCHITECTURES)
    parser.add_argument("--python-version", default="3.13")
    parser.add_argument("--store", default="any", choices=NEEDLESS_FOR_STORE)
    parser.add_argument("--keys", default="any", choices=NEEDLESS_FOR_KEYS)
    parser.add_argument("--keep-in", type=Path, default=KEPT, help="where dependencies are kept")
    parser.add_argument("--zip", type=Path, help="also pack it into this file")
    parser.add_argument("--sizes-of", type=Path, help="print what in this zip is large")
    asked = parser.parse_args()
    if asked.folder is not None:
        build(
            asked.folder,
            platform=asked.platform,
            python_version=asked.python_version,
            needless=(*NEEDLESS_FOR_STORE[asked.store], *NEEDLESS_FOR_KEYS[asked.keys]),
            kept=asked.keep_in,
        )
    if asked.folder is not None and asked.zip is not None:
        pack(asked.folder, asked.zip)
    if asked.sizes_of is not None:
        print("\n".join(size_lines(asked.sizes_of)))  # noqa: T201 - that is what it is for


def build(
    folder: Path, *, platform: str, python_version: str, needless: Iterable[str], kept: Path
) -> None:
    """Make the folder anew; its dependencies are ``kept`` for the next build from the same lock."""
    if folder.exists():
        shutil.rmtree(folder)
    with _locked(kept):  # SAM may build its functions side by side
        dependencies = _dependencies(kept, ARCHITECTURES[platform], python_version)
        shutil.copytree(dependencies, folder)
    for path in [path for pattern in needless for path in folder.glob(pattern)]:
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    shutil.copy(ROOT / "app.py", folder)
    source = ROOT / "joblib" / "jobroom"
    left_out = shutil.ignore_patterns("__pycache__", *OF_OTHER_DOORS)
    shutil.copytree(source, folder / "jobroom", ignore=left_out)
    _compile(folder / "jobroom", folder, python_version)
    _compile(folder / "app.py", folder, python_version)
    _settle(folder)


def pack(folder: Path, archive: Path) -> None:
    """Pack a built folder as Lambda takes it."""
    archive.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
        for path in _files(folder):
            packed.write(path, path.relative_to(folder))


def size_lines(archive: Path, count: int = 10) -> list[str]:
    """How large a zip is, and its largest parts."""
    sizes: Counter[str] = Counter()
    unpacked = 0
    with zipfile.ZipFile(archive) as packed:
        for item in packed.infolist():
            sizes[item.filename.partition("/")[0]] += item.compress_size
            unpacked += item.file_size
    megabyte = 1_000_000
    total = archive.stat().st_size / megabyte
    head = f"{archive.name}: {total:.1f} MB packed, {unpacked / megabyte:.1f} MB unpacked"
    return [
        head,
        *(f"{size / megabyte:6.2f} MB  {part}" for part, size in sizes.most_common(count)),
    ]


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _dependencies(kept: Path, platform: str, python_version: str) -> Path:
    """The folder with the dependencies, ready to be copied."""
    running = ".".join(map(str, sys.version_info))
    made_of = [REQUIREMENTS.read_bytes(), Path(__file__).read_bytes()]
    made_of += [word.encode() for word in (platform, python_version, running)]
    ready = kept / hashlib.sha256(b"\0".join(made_of)).hexdigest()[:16]
    if not ready.exists():
        with tempfile.TemporaryDirectory(dir=kept, prefix="making-") as scratch:
            made = Path(scratch) / "made"
            _install(made, platform=platform, python_version=python_version)
            _prune(made)
            _compile(made, made, python_version, keep_sources=False)
            for old in kept.glob("[0-9a-f]*"):
                shutil.rmtree(old)
            made.rename(ready)
    return ready


def _install(folder: Path, *, platform: str, python_version: str) -> None:
    """Install the locked wheels; pip refuses a lock that lacks a package or a hash."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    command += ["--no-compile", "--no-warn-conflicts", "--only-binary=:all:", "--require-hashes"]
    command += ["--python-version", python_version, "--implementation", "cp"]
    for minor in GLIBC_MINORS:
        command += ["--platform", f"manylinux_2_{minor}_{platform}"]
    command += ["--platform", f"manylinux2014_{platform}", "--target", str(folder)]
    command += ["--requirement", str(REQUIREMENTS)]
    if subprocess.run(command, check=False).returncode != 0:
        sys.exit("pip could not install the locked requirements; it says above why.")


def _prune(folder: Path) -> None:
    for name in NEEDLESS_FOLDERS:
        shutil.rmtree(folder / name, ignore_errors=True)
    for path in _files(folder):
        if path.suffix in NEEDLESS_SUFFIXES:
            path.unlink()
        elif ".so" in path.suffixes:
            _cut_symbols(path)
        elif path.relative_to(folder).parts[0].endswith(".dist-info"):
            _keep_what_names_it(path)


def _keep_what_names_it(path: Path) -> None:
    """Of a package's metadata keep its name, version and needs, which scanners read."""
    if path.name == "METADATA":
        head, _, _ = path.read_text(encoding="utf-8").partition("\n\n")
        path.write_text(head + "\n", encoding="utf-8")
    else:
        path.unlink()


def _cut_symbols(path: Path) -> None:
    """Cut off what a library carries for debuggers: all that follows its last loaded segment.

    Some wheels are built with symbols ten times the size of the code. Unlike ``strip`` this works
    for each architecture on each machine.
    """
    library = bytearray(path.read_bytes())
    if library[:6] != b"\x7fELF\x02\x01":  # 64 bits, little-endian, as both architectures are
        return
    (table,) = struct.unpack_from("<Q", library, 0x20)
    size, count = struct.unpack_from("<HH", library, 0x36)
    starts = range(table, table + size * count, size)
    ends = [sum(struct.unpack_from("<Q16xQ", library, start + 8)) for start in starts]
    struct.pack_into("<Q", library, 0x28, 0)  # no table of sections any more,
    struct.pack_into("<HH", library, 0x3C, 0, 0)  # with no entries
    path.write_bytes(library[: max(ends)])


def _compile(path: Path, root: Path, python_version: str, *, keep_sources: bool = True) -> None:
    """Put bytecode in, which a function could never keep: its folder is read-only.

    It is never compared with its source, so the times that a zip loses do not matter. Without
    sources it stands in their place, and is made without docstrings and assertions.
    """
    running = ".".join(map(str, sys.version_info[:2]))
    if running != python_version:
        sys.stderr.write(
            f"No bytecode for {path.name}, so cold starts take longer: this is Python {running}, "
            f"the function's is {python_version}. Name one of that version: PYTHON=...\n"
        )
        return
    compiled = compileall.compile_dir if path.is_dir() else compileall.compile_file
    if not compiled(
        path,
        quiet=1,
        stripdir=root,
        prependdir=TASK_ROOT,
        invalidation_mode=PycInvalidationMode.UNCHECKED_HASH,
        optimize=-1 if keep_sources else 2,
        legacy=not keep_sources,
    ):
        sys.exit("A module could not be compiled; the reason is above.")
    if not keep_sources:
        for source in path.rglob("*.py"):
            source.unlink()


def _settle(folder: Path) -> None:
    """Readable by the function's user, of one time, and without empty folders."""
    for path in sorted(folder.rglob("*"), reverse=True):
        if path.is_dir() and not any(path.iterdir()):
            path.rmdir()
            continue
        path.chmod(0o755 if path.is_dir() or path.suffix == ".so" else 0o644)
        os.utime(path, (BUILT_AT, BUILT_AT))


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


if __name__ == "__main__":
    main()
