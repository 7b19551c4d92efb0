"""What the demo asks the server, as any HTTP client would."""

from __future__ import annotations

from http import HTTPStatus

import httpx

from jobroom.demo.processes import DemoError
from jobroom.demo.scans import FULL_NAME, ROOM, Scan
from jobroom.wire import answers

PREFIX = "/v1/joblib"
TIMEOUT_SECONDS = 5.0
READY_SECONDS = 1.0
MOST_IN_A_PAGE = 500


class Rest:
    """A connection to the demo's server with the token of the one who submits."""

    def __init__(
        self, url: str, token: str, *, transport: httpx.BaseTransport | None = None
    ) -> None:
        self._client = httpx.Client(
            base_url=url,
            headers={"Authorization": f"Bearer {token}"},
            timeout=TIMEOUT_SECONDS,
            trust_env=False,
            transport=transport,
        )

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def is_ready(self) -> bool:
        """Whether the server takes work."""
        try:
            return self._client.get("/readyz", timeout=READY_SECONDS).status_code == HTTPStatus.OK
        except httpx.TransportError:
            return False

    def workers(self) -> dict[str, str]:
        """Return the workers that registered the job, id to who they are."""
        content = self._send("GET", f"/rooms/{ROOM}/workers")
        page = answers.WorkerPage.model_validate_json(content)
        return {worker.id: worker.identity for worker in page.items if worker.job_count}

    def submit(self, scan: Scan) -> str:
        """Submit one scan and return the id of its task."""
        content = self._send(
            "POST", f"/rooms/{ROOM}/tasks/{FULL_NAME}", json={"payload": scan.payload}
        )
        return answers.TaskBody.model_validate_json(content).id

    def tasks(self) -> dict[str, answers.TaskBody]:
        """Return the tasks of the room by id, as they stand now."""
        content = self._send("GET", f"/rooms/{ROOM}/tasks", params={"limit": MOST_IN_A_PAGE})
        page = answers.TaskPage.model_validate_json(content)
        return {task.id: task for task in page.items}

    def _send(
        self,
        method: str,
        path: str,
        *,
        json: object = None,
        params: dict[str, int] | None = None,
    ) -> bytes:
        try:
            response = self._client.request(method, PREFIX + path, json=json, params=params)
        except httpx.TransportError as error:
            what = str(error) or type(error).__name__
            raise DemoError(
                f"The server did not answer {method} {PREFIX + path}: {what}."
            ) from error
        if response.is_success:
            return response.content
        raise DemoError(f"The server refused {method} {PREFIX + path}: {_detail(response)}")


def _detail(response: httpx.Response) -> str:
    try:
        return answers.Problem.model_validate_json(response.content).detail
    except ValueError:
        return f"{response.status_code} {response.reason_phrase}."
