"""A worker as the users of zndraw-joblib write it; run in an environment that has their client.

``python peer_program.py SCENE URL TOKEN`` plays one scene and prints what it saw as JSON.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from typing import ClassVar

import httpx
from zndraw_joblib import Category, Extension, JobManager

OFTEN_SECONDS = 0.2


class Api:
    """The host's part: what each answer is raised as is what their protocol demands."""

    def __init__(self, url, token):
        self.base_url = url
        self.token = token
        self.http = httpx.Client(timeout=30)

    def get_headers(self):
        return {"Authorization": f"Bearer {self.token}"}

    def raise_for_status(self, response):
        kinds = {404: KeyError, 401: PermissionError, 403: PermissionError}
        kinds |= {409: ValueError, 422: ValueError}
        if response.status_code in kinds:
            raise kinds[response.status_code](response.json()["detail"])
        response.raise_for_status()


class Rotate(Extension):
    category: ClassVar[Category] = Category.MODIFIER
    angle: float = 0.0
    pause: float = 0.0

    def run(self, vis=None, **kwargs):
        if self.angle < 0:
            raise ValueError(f"cannot turn by {self.angle}")
        time.sleep(self.pause)


class Measure(Extension):
    category: ClassVar[Category] = Category.ANALYSIS
    unit: str = "nm"

    def run(self, vis=None, **kwargs):
        return None


def serve(api):
    """Their way to work: threads that beat, claim, start, execute, complete or fail."""
    manager = JobManager(
        api,
        execute=lambda task: task.extension.run(None, **task.run_kwargs),
        heartbeat_interval=OFTEN_SECONDS,
        polling_interval=OFTEN_SECONDS,
    )
    manager.create_worker()
    manager.register(Rotate, room="r1")
    manager.register(room="r1", run_kwargs={"table": {}})(Measure)
    manager.wait()
    return {"registered": len(manager)}


def by_hand(api):
    """Each call of the client that speaks to the server, once."""
    seen = {}
    with JobManager(api, max_startup_retries=1) as manager:
        seen["worker"] = str(manager.create_worker())
        manager.register(Rotate, room="r1")
        manager.register(Rotate, room="r1")
        seen["jobs"] = sorted(manager)
        seen["nothing"] = manager.claim()
        ids = [manager.submit(Rotate(angle=a), room="r1", job_room="r1") for a in (1, 2, 3, 4)]
        seen["submitted"] = ids
        stop = threading.Event()
        for number, task in enumerate(manager.listen(OFTEN_SECONDS, stop)):
            seen.setdefault("claimed", []).append([task.task_id, task.extension.angle])
            manager.heartbeat()
            if number < 3:
                manager.start(task)
            end = [manager.complete, lambda t: manager.fail(t, "broke"), manager.cancel]
            (*end, lambda t: manager.fail_by_id(t.task_id, "never began"))[number](task)
            if number == 3:
                stop.set()
        seen["late"] = refusal(lambda: manager.complete(task))
        seen["global"] = refusal(lambda: manager.register(Rotate))
        seen["schema"] = refusal(lambda: manager.register(other_rotate(), room="r1"))
        seen["unknown"] = refusal(lambda: manager.submit(Measure(), room="r1", job_room="r1"))
        seen["wrong"] = refusal(
            lambda: manager.submit(Rotate.model_construct(angle="x"), room="r1", job_room="r1")
        )
        api.http.delete(
            f"{api.base_url}/v1/joblib/workers/{manager.worker_id}", headers=api.get_headers()
        )
        seen["beat of the deleted"] = refusal(manager.heartbeat)
        seen["claim of the deleted"] = refusal(manager.claim)
    return seen


def other_rotate():
    """A class of the same name with another schema."""

    class Rotate(Extension):
        category: ClassVar[Category] = Category.MODIFIER
        degrees: int

        def run(self, vis=None, **kwargs):
            return None

    return Rotate


def unnamed(api):
    """Register without making a worker first: the server's answer names one."""
    manager = JobManager(api)
    problem = refusal(lambda: manager.register(Rotate, room="r1"))
    if problem:
        return {"problem": problem}
    seen = {"worker": str(manager.worker_id)}
    manager.heartbeat()
    seen["submitted"] = manager.submit(Rotate(angle=5), room="r1", job_room="r1")
    seen["claimed"] = manager.claim().task_id
    return seen


def provider(api):
    """Their newer half, which the contract has not."""
    from zndraw_joblib import Provider

    class Files(Provider):
        category: ClassVar[str] = "filesystem"

    manager = JobManager(api, max_startup_retries=1)
    manager.create_worker()
    return {
        "problem": refusal(lambda: manager.register_provider(Files, name="local", handler=None))
    }


def old(api):
    """The first release: its manager claims and beats; reports are the host's business."""
    manager = JobManager(api)
    seen = {"worker": str(manager.create_worker())}
    manager.register(Rotate, room="r1")
    seen["nothing"] = manager.claim()
    seen["submitted"] = [manager.submit(Rotate(angle=a), room="r1", job_room="r1") for a in (1, 2)]
    for task in manager.listen(OFTEN_SECONDS):
        manager.heartbeat()
        seen.setdefault("claimed", []).append(task.task_id)
        for status in ("running", "completed"):
            answer = api.http.patch(
                f"{api.base_url}/v1/joblib/tasks/{task.task_id}",
                headers=api.get_headers(),
                json={"status": status},
            )
            answer.raise_for_status()
        if len(seen["claimed"]) == 2:
            break
    return seen


def refusal(call):
    """What a call raises, in one line."""
    try:
        call()
    except Exception as error:  # noqa: BLE001 - whatever it is, it is what is asked for
        return f"{type(error).__name__}: {error}"
    return None


SCENES = {
    "serve": serve,
    "by-hand": by_hand,
    "unnamed": unnamed,
    "provider": provider,
    "old": old,
}


if __name__ == "__main__":
    scene, url, token = sys.argv[1:]
    sys.stdout.write(json.dumps(SCENES[scene](Api(url, token))) + "\n")
