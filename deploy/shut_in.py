"""What a container engine does, by buildah and the kernel: images, and processes in them."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import httpx

ROOT = Path(__file__).resolve().parents[1]
OFFICIAL = "docker.io/library/python:3.13-slim"
SUITE = "trixie"
PACKAGES = "ca-certificates,python-is-python3,python3,python3-pip"
CERTIFICATES = Path("etc/ssl/certs/ca-certificates.crt")
UNSHARE = ("unshare", "--mount", "--pid", "--fork", "--kill-child")
WAIT_SECONDS = 60
# What an engine does, without the engine: mounts and processes of its own, a root that is read
# only, volumes, no capability, and the command as process 1.
ENTER = """
set -eu
root=$1 mounts=$2 user=$3 group=$4 folder=$5
shift 5
mount --make-rprivate /
mount --bind "$root" "$root"
for each in $mounts; do
    mkdir -p "$root${each#*:}"
    mount --bind "${each%:*}" "$root${each#*:}"
done
mount -o remount,bind,ro "$root"
mount -t proc -o nosuid,nodev,noexec proc "$root/proc"
mount --rbind /dev "$root/dev"
exec chroot "$root" /usr/bin/setpriv --reuid "$user" --regid "$group" --clear-groups \
    --bounding-set=-all --inh-caps=-all --no-new-privs \
    /usr/bin/env -i --chdir="$folder" "$@"
"""


class FailedError(Exception):
    """Something is not as it should be."""


def run(*command: str | Path, quiet: bool = True, **more: Any) -> str:
    """Run a command to its end; what it printed."""
    output = subprocess.PIPE if quiet else None
    done = subprocess.run(
        command, stdout=output, stderr=subprocess.STDOUT, text=True, check=False, **more
    )
    if done.returncode != 0:
        raise FailedError(
            f"{command[0]} ended with {done.returncode}:\n{(done.stdout or '')[-4000:]}"
        )
    return done.stdout or ""


class Images:
    """buildah with a store of its own."""

    def __init__(self, work: Path) -> None:
        self._work = work
        self._buildah = ("buildah", "--root", work / "images", "--runroot", work / "run")

    def __call__(self, *arguments: str | Path, **more: Any) -> str:
        """Run buildah."""
        return run(*self._buildah, "--storage-driver", "vfs", *arguments, **more)

    def has(self, name: str) -> bool:
        """Whether this image is there."""
        listed = self("images", "--format", "{{.Name}}:{{.Tag}}")
        return name in listed.splitlines()

    def size(self, name: str) -> int:
        """Bytes, of all its layers."""
        (found,) = json.loads(self("images", "--json", name))
        return parse_size(found["size"])

    def make_base(self) -> None:
        """The stand-in, with the certificates and the package index of this machine."""
        tree = self._work / "base"
        shutil.rmtree(tree, ignore_errors=True)
        run("debootstrap", "--variant=minbase", f"--include={PACKAGES}", SUITE, tree)
        if Path("/", CERTIFICATES).exists():
            shutil.copyfile(Path("/", CERTIFICATES), tree / CERTIFICATES)
        index = subprocess.run(
            [sys.executable, "-m", "pip", "config", "get", "global.index-url"],
            capture_output=True,
            text=True,
            check=False,
        )
        if index.returncode == 0:
            (tree / "etc" / "pip.conf").write_text(f"[global]\nindex-url = {index.stdout}")
        recipe = self._work / "base.Containerfile"
        recipe.write_text('FROM scratch\nCOPY . /\nCMD ["python"]\n')
        self("bud", "--isolation", "chroot", "-f", recipe, "-t", OFFICIAL, tree)
        shutil.rmtree(tree)

    def build(self, base: str) -> None:
        """The image, from the checkout."""
        pull = "--pull" if base != OFFICIAL else "--pull-never"
        options = ("--isolation", "chroot", "--network", "host", "--format", "docker", pull)
        arguments = ("--build-arg", f"PYTHON_IMAGE={base}", "--build-arg", "REVISION=tried")
        self("bud", *options, *arguments, "-f", ROOT / "Containerfile", "-t", "jobroom", ROOT)

    def config(self) -> dict[str, Any]:
        """What an engine reads of the image."""
        found = json.loads(self("inspect", "--type", "image", "jobroom"))
        config: dict[str, Any] = found["Docker"]["config"]
        return config

    @contextmanager
    def mounted(self, name: str) -> Iterator[Path]:
        """The files of an image."""
        container = self("from", "--pull-never", name).strip()
        try:
            yield Path(self("mount", container).strip())
        finally:
            self("rm", container)


class Container:
    """A process in the image, shut in as an engine would."""

    def __init__(self, image: Image, command: list[str], environment: Mapping[str, str]) -> None:
        variables = [f"{name}={value}" for name, value in image.environment(environment).items()]
        mounts = " ".join(f"{source}:{target}" for target, source in image.mounts.items())
        enter = ["sh", "-c", ENTER, "enter", str(image.root), mounts]
        self._output = tempfile.TemporaryFile("w+")  # noqa: SIM115 - open while the process runs
        self._process = subprocess.Popen(
            [*UNSHARE, *enter, *image.user, image.config["WorkingDir"], *variables, *command],
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=self._output,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._process.kill()
        self._process.wait()

    @property
    def output(self) -> str:
        """What it has printed."""
        self._output.seek(0)
        return self._output.read()

    @property
    def pid(self) -> int:
        """Its first process, by the number outside."""
        parent = self._process.pid
        return int(Path(f"/proc/{parent}/task/{parent}/children").read_text().split()[0])

    def wait(self) -> int:
        """Wait for its end; the exit code."""
        return self._process.wait(WAIT_SECONDS)

    def until_healthy(self, url: str) -> float:
        """Seconds until it answers."""
        began = time.monotonic()
        while time.monotonic() < began + WAIT_SECONDS:
            if self._process.poll() is not None:
                break
            with contextlib.suppress(httpx.TransportError):
                if httpx.get(f"{url}/readyz").status_code == 200:  # noqa: PLR2004
                    return time.monotonic() - began
            time.sleep(0.02)
        raise FailedError(f"no answer at /readyz:\n{self.output[-3000:]}")


class Image:
    """The built image: its files, and what an engine would make of its configuration."""

    def __init__(self, root: Path, config: dict[str, Any], folder: Path) -> None:
        self.root, self.config = root, config
        self.user = config["User"].split(":")
        self.mounts = {"/data": folder / "data", "/run/secrets": folder / "secrets"}
        shutil.rmtree(folder, ignore_errors=True)
        for source in self.mounts.values():
            source.mkdir(parents=True)
            os.chown(source, *map(int, self.user))

    def environment(self, more: Mapping[str, str]) -> dict[str, str]:
        """The image's variables and these."""
        return {**dict(each.split("=", 1) for each in self.config["Env"]), **more}

    def run(self, *command: str, **settings: str) -> Container:
        """A command in the image, the image's own if none is given."""
        variables = {
            name if name == "PORT" else f"ZNDRAW_JOBLIB_{name.upper()}": value
            for name, value in settings.items()
        }
        return Container(self, list(command) or self.config["Cmd"], variables)

    def done(self, *command: str, **settings: str) -> tuple[int, str]:
        """A command run to its end: exit code and output."""
        with self.run(*command, **settings) as container:
            return container.wait(), container.output


def parse_size(text: str) -> int:
    """A size as buildah writes it: ``419 MB``."""
    number, unit = text.split()
    return int(float(number) * {"B": 1, "KB": 1e3, "MB": 1e6, "GB": 1e9}[unit.upper()])
