"""Builds the image and runs it where no container engine can: buildah, and the kernel's namespaces.

As root, on a Debian, by the Python of an environment that has the extra ``test``:

    apt-get install buildah debootstrap
    .venv/bin/python deploy/try_container.py

Not everybody can pull the base image, so a stand-in is made of Debian's packages: the release and
the Python of the official one, in another place. ``--base`` names an image to be pulled instead.
With ``--work`` a folder keeps the base for the next run.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
from shut_in import OFFICIAL, ROOT, Container, FailedError, Image, Images, run

sys.path[:0] = [str(ROOT / "joblib"), str(ROOT / "tests")]

import live_server  # noqa: E402 - found by the line above
import servers  # noqa: E402

TOOLS = ("buildah", "debootstrap", "unshare", "setpriv")
STOP_SECONDS = 3
ON_VOLUME = "sqlite:////data/jobroom.db"
OURS = re.compile(
    r"(opt/jobroom|srv|data|etc/(passwd|group|shadow|gshadow|subuid|subgid)-?)(/|$)"
    r"|usr/(local/)?lib/python3\.\d+/.*\.pyc$|usr/local/lib/python3\.\d+/.*__pycache__$"
)
"""What the image may hold beside its base."""


def say(text: str) -> None:
    """Print a line at once."""
    print(text, flush=True)  # noqa: T201 - that is what it is for


def check(fact: object, what: str) -> None:
    """Say that it is so, or end."""
    if not fact:
        raise FailedError(what)
    say(f"  ok  {what}")


def check_config(image: Image) -> None:
    """What an engine is told."""
    config = image.config
    check(config["User"] == "10001:10001", f"user by number: {config['User']}")
    check(config["StopSignal"] == "SIGTERM", f"stop signal: {config['StopSignal']}")
    check(
        config["Healthcheck"]["Test"][0] == "CMD", f"health check: {config['Healthcheck']['Test']}"
    )
    check(config["Cmd"][2].startswith("exec "), f"command: {config['Cmd']}")
    check(config["Labels"]["org.opencontainers.image.revision"] == "tried", "labels")
    names = [each.partition("=")[0] for each in config["Env"]]
    check(not any(re.search("SECRET|TOKEN|_URL", name) for name in names), f"environment: {names}")


def check_files(base: Path, root: Path) -> None:
    """What came into the image, and who may write."""
    added = sorted(files_of(root) - files_of(base))
    strange = [path for path in added if not OURS.match(path)]
    if strange:
        raise FailedError(f"not ours: {strange[:20]}")
    say(f"  ok  {len(added):,} files and folders beside the base, each where it belongs")
    found = run("find", root, "-xdev", "-uid", "10001", "-printf", "%P ").split()
    check(found == ["data"], f"files that belong to the user: {found}")


def files_of(root: Path) -> set[str]:
    """Every path below."""
    return set(run("find", root, "-xdev", "-printf", "%P\n").splitlines())


def check_start_errors(image: Image) -> None:
    """What is not configured is told, with what to set."""
    nothing, no_key = image.done(), image.done(database_url=ON_VOLUME)
    for title, (code, said), wanted in (
        ("nothing configured", nothing, "ZNDRAW_JOBLIB_DATABASE_URL"),
        (
            "a database, but no key",
            no_key,
            "set ZNDRAW_JOBLIB_JWT_SECRET, ZNDRAW_JOBLIB_JWT_PUBLIC",
        ),
    ):
        sentences = [line for line in said.splitlines() if wanted in line]
        check(
            code != 0 and len(sentences) == 1 and "Traceback" not in said, f"{title}: exit {code}"
        )
        say(f"        {sentences[0]}")


def check_server(image: Image, title: str, **settings: str) -> None:
    """The whole life of a server on a real store."""
    say(f"{title}:")
    for again in ("", ", again"):
        code, said = image.done("jobroom", "db", "upgrade", **settings)
        check(code == 0, f"db upgrade{again}: {' '.join(said.split())}")
    port = servers.free_port()
    url = f"http://127.0.0.1:{port}"
    with image.run(PORT=str(port), **settings) as container:
        say(f"  ok  ready {container.until_healthy(url):.2f} s after its start, on PORT")
        check_shut_in(container)
        health = image.config["Healthcheck"]["Test"][1:]
        check(image.done(*health, PORT=str(port))[0] == 0, "the health check is content")
        headers = {"authorization": f"Bearer {live_server.token_of('w', is_admin=True)}"}
        with httpx.Client(base_url=url, headers=headers, timeout=30) as client:
            check_work(client)
            check("server" not in client.get("/healthz").headers, "no Server header")
            check_stop(container, client)
        check(
            image.done(*health, PORT=str(port))[0] != 0, "the health check is not, once it is gone"
        )


def check_shut_in(container: Container) -> None:
    """What the kernel says of the process."""
    told = dict(
        line.split(":\t", 1)
        for line in Path(f"/proc/{container.pid}/status").read_text().splitlines()
        if ":\t" in line
    )
    facts = {name: told[name].split()[-1] for name in ("Uid", "Gid", "NSpid", "CapEff", "CapBnd")}
    facts["Name"] = told["Name"]
    none = "0" * 16
    wanted = {"Uid": "10001", "Gid": "10001", "NSpid": "1", "CapEff": none, "CapBnd": none}
    check(facts == {**wanted, "Name": "uvicorn"}, f"shut in: {facts}")
    options = Path(f"/proc/{container.pid}/mountinfo").read_text().splitlines()
    (root,) = [line.split()[5] for line in options if line.split()[4] == "/"]
    check("ro" in root.split(","), f"root is read only: {root}")


def check_work(client: Any) -> None:
    """A task from its submission to its result."""
    live_server.register(client)
    task_id = live_server.submit(client)
    (task,) = client.post(f"{live_server.BASE}/tasks/claim", json={"start": True}).json()["tasks"]
    report = {"status": "completed", "result": {"turned": 90}}
    answer = client.patch(f"{live_server.BASE}/tasks/{task['id']}", json=report).json()
    check(
        (task["id"], answer["status"]) == (task_id, "completed"), "a task: submitted to completed"
    )
    swept = client.post(f"{live_server.BASE}/sweep")
    check(swept.is_success, f"a sweep by request: {swept.text[:90]}")


def check_stop(container: Container, client: Any) -> None:
    """SIGTERM while a long poll is held."""
    path = f"{live_server.BASE}/tasks/{live_server.submit(client)}"
    with ThreadPoolExecutor(1) as pool:
        poll = pool.submit(client.get, path, headers={"prefer": "wait=20"})
        time.sleep(1)  # on its way by then; if not, it is refused, and that is seen below
        began = time.monotonic()
        os.kill(container.pid, signal.SIGTERM)
        answer, code = poll.result(), container.wait()
        seconds = time.monotonic() - began
    text = f"SIGTERM: the poll of 20 s answered {answer.status_code}, ended {seconds:.2f} s later"
    check(answer.is_success and seconds < STOP_SECONDS, f"{text} with exit code {code}")


def try_all(work: Path, base: str) -> None:
    """Build, look at it, run it."""
    images = Images(work)
    if base == OFFICIAL and not images.has(OFFICIAL):
        timed("a stand-in for the base image", images.make_base)
    timed("the image", lambda: images.build(base))
    ours, theirs = images.size("jobroom"), images.size(base)
    say(f"  size {ours / 1e6:.0f} MB, {(ours - theirs) / 1e6:.0f} MB of it above the base")
    with images.mounted(base) as below, images.mounted("jobroom") as root:
        image = Image(root, images.config(), work / "mounts")
        say("its configuration:")
        check_config(image)
        check_files(below, root)
        say(image.done("python", "--version")[1].strip())
        check_start_errors(image)
        run_on_stores(image)


def run_on_stores(image: Image) -> None:
    """On each kind of store, the real ones."""
    key = live_server.SECRET
    with servers.Sqld() as sqld:
        check_server(image, "libSQL", database_url=sqld.start().url, jwt_secret=key)
    with servers.Postgres() as postgres:
        secrets = {"database_url": postgres.start().url(), "jwt_secret": key}
        for name, value in secrets.items():
            (image.mounts["/run/secrets"] / f"zndraw_joblib_{name}").write_text(f"{value}\n")
        check_server(image, "PostgreSQL, configured by files in /run/secrets")
        for name in secrets:
            (image.mounts["/run/secrets"] / f"zndraw_joblib_{name}").unlink()
    check_server(image, "a SQLite file on a volume", database_url=ON_VOLUME, jwt_secret=key)


def timed(what: str, step: Any) -> None:
    """Say what is made, and how long it took."""
    began = time.monotonic()
    say(f"making {what} ...")
    step()
    say(f"  ok  {what}, in {time.monotonic() - began:.0f} s")


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--work", type=Path, help="a folder that keeps the base image")
    parser.add_argument("--base", default=OFFICIAL, help="an image to be pulled as the base")
    asked = parser.parse_args()
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    if os.geteuid() != 0 or missing:
        sys.exit(f"Needs root, and: apt-get install {' '.join(missing)}".rstrip(": "))
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="jobroom-image-") as scratch:
        work = asked.work or Path(scratch)
        work.mkdir(parents=True, exist_ok=True)
        work.chmod(0o755)  # the user of the image passes through
        try:
            try_all(work.resolve(), asked.base)
        except FailedError as error:
            sys.exit(f"FAILED  {error}")
    say(f"all of it is as it should be, after {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
