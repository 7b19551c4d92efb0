"""The use cases over HTTP: what must be there before each, and the one request that it is."""

from __future__ import annotations

from outage_scene import BASE, ROOM, sound


def submit(scene):
    sound(scene.register())
    sound(scene.submit())  # the server knows the job from now on
    return lambda: scene.submit(payload={"number": 1})


def submit_to_unknown(scene):
    sound(scene.register())
    return lambda: scene.submit(payload={"number": 1})


def submit_with_key(scene):
    sound(scene.register())
    return lambda: scene.submit(key="a key", payload={"number": 1})


def submit_with_id(scene):
    sound(scene.register())
    chosen = f"00000000-0000-7000-8000-{scene.number:012}"
    return lambda: scene.submit(id=chosen, payload={"number": 1})


def submit_in_turn(scene):
    sound(scene.register(order="fair"))
    sound(scene.submit())
    return lambda: scene.submit(payload={"number": 1})


def submit_to_hidden(scene):
    worker = sound(scene.client.post(f"{BASE}/workers", json={}))["id"]
    sound(scene.register(worker_id=worker))
    assert scene.client.delete(f"{BASE}/workers/{worker}").status_code == 204
    return lambda: scene.submit(payload={"number": 1})


def claim(scene):
    sound(scene.register())
    for number in range(3):
        sound(scene.submit(payload={"number": number}))
    return scene.claim


def claim_by_request_id(scene):
    claim(scene)
    return lambda: scene.claim(request_id="asked once")


def claim_and_start(scene):
    claim(scene)
    return lambda: scene.claim(start=True)


def claim_several(scene):
    claim(scene)
    return lambda: scene.claim(limit=2, start=True)


def claim_nothing(scene):
    sound(scene.register())
    return scene.claim


def start(scene):
    task = scene.held()
    return lambda: scene.report(task, status="running")


def progress(scene):
    task = scene.held(start=True)
    return lambda: scene.report(task, progress=0.5, message="half")


def complete(scene):
    task = scene.held(start=True)
    return lambda: scene.report(task, status="completed", result={"is": [1, 2]})


def complete_without_attempt(scene):
    task = scene.held(start=True)
    return lambda: scene.report(task, status="completed", result=7, attempt=None)


def complete_and_claim(scene):
    task = scene.held(start=True, tasks=3)
    return lambda: scene.report(task, status="completed", result=7, claim_next=True)


def fail(scene):
    task = scene.held(start=True)
    return lambda: scene.report(task, status="failed", error="it broke")


def fail_with_attempts_left(scene):
    task = scene.held(start=True, max_attempts=3, on_worker_lost="requeue")
    return lambda: scene.report(task, status="failed", error="it broke")


def hand_back(scene):
    task = scene.held()
    return lambda: scene.report(task, status="pending")


def hand_back_running(scene):
    task = scene.held(start=True, max_attempts=3, on_worker_lost="requeue")
    return lambda: scene.report(task, status="pending")


def cancel(scene):
    task = scene.held(start=True)
    return lambda: scene.client.patch(f"{BASE}/tasks/{task['id']}", json={"status": "cancelled"})


def retry(scene):
    task = scene.held(start=True)
    sound(scene.report(task, status="failed", error="it broke"))
    return lambda: scene.client.post(f"{BASE}/tasks/{task['id']}/retry")


def heartbeat(scene):
    sound(scene.register())
    return lambda: scene.client.patch(f"{BASE}/workers/{scene.who}")


def heartbeat_told_to_cancel(scene):
    task = scene.held(start=True)
    creator = scene.client.patch(f"{BASE}/tasks/{task['id']}", json={"status": "cancelled"})
    sound(creator)
    return lambda: scene.client.patch(f"{BASE}/workers/{scene.who}")


def register(scene):
    return scene.register


def register_again(scene):
    sound(scene.register())
    return lambda: scene.register(description="another")


def replace_schema(scene):
    sound(scene.register())
    return lambda: scene.register(schema={"type": "object"}, replace=True)


def create_worker(scene):
    return lambda: scene.client.post(f"{BASE}/workers", json={"name": scene.job})


def delete_worker(scene):
    scene.held(start=True, tasks=2)
    return lambda: scene.client.delete(f"{BASE}/workers/{scene.who}")


def delete_instance_worker(scene):
    worker = sound(scene.client.post(f"{BASE}/workers", json={}))["id"]
    sound(scene.register(worker_id=worker))
    sound(scene.submit())
    sound(scene.claim(worker_id=worker))
    return lambda: scene.client.delete(f"{BASE}/workers/{worker}")


def show_task(scene):
    task = scene.held()
    return lambda: scene.client.get(f"{BASE}/tasks/{task['id']}")


def list_tasks(scene):
    scene.held(tasks=3)
    return lambda: scene.client.get(f"{ROOM}/tasks", params={"job": f"r1:modifiers:{scene.job}"})


USES = [
    submit,
    submit_to_unknown,
    submit_with_key,
    submit_with_id,
    submit_in_turn,
    submit_to_hidden,
    claim,
    claim_by_request_id,
    claim_and_start,
    claim_several,
    claim_nothing,
    start,
    progress,
    complete,
    complete_without_attempt,
    complete_and_claim,
    fail,
    fail_with_attempts_left,
    hand_back,
    hand_back_running,
    cancel,
    retry,
    heartbeat,
    heartbeat_told_to_cancel,
    register,
    register_again,
    replace_schema,
    create_worker,
    delete_worker,
    delete_instance_worker,
    show_task,
    list_tasks,
]
