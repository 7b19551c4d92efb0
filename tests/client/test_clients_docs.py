"""The examples of the page on clients are run, in order, against the real server."""

from __future__ import annotations

import re
import threading
from pathlib import Path

import live_server
import pytest

PAGE = Path(__file__).parents[2] / "joblib" / "docs" / "clients.md"
EXAMPLES = re.findall(
    r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
)
BASE = live_server.BASE


@pytest.fixture
def server(tmp_path, monkeypatch):
    with live_server.Server(tmp_path, jwt_secret=live_server.SECRET) as running:
        running.until_ready()
        monkeypatch.setenv("JOBROOM_URL", running.url)
        monkeypatch.setenv("JOBROOM_TOKEN", live_server.token_of("w", is_admin=True))
        monkeypatch.delenv("JOBROOM_PROFILE", raising=False)
        yield running


def work(rest, stopped):
    while not stopped.wait(0.02):
        answer = rest.post(f"{BASE}/tasks/claim", json={"start": True, "limit": 100})
        for task in answer.json()["tasks"]:
            body = {"status": "completed", "result": task["payload"], "attempt": task["attempt"]}
            rest.patch(f"{BASE}/tasks/{task['id']}", json={**body, "log": "turned\n"})


def test_the_examples_run(server, capsys):
    stopped = threading.Event()
    with server.client() as rest:
        live_server.register(rest, name="rotate")
        worker = threading.Thread(target=work, args=(rest, stopped))
        worker.start()
        try:
            names = {"__name__": "example"}
            for example in EXAMPLES:
                exec(compile(example, str(PAGE), "exec", dont_inherit=True), names)  # noqa: S102
        finally:
            stopped.set()
            worker.join()
    said = capsys.readouterr().out
    assert said.count("{'angle': 90}") == 2
    assert "completed" in said
    assert "turned" in said
