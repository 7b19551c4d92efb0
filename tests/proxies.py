"""A proxy on loopback that loses connections, requests and answers when it is told to."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Literal, Self

import exchanges
from exchanges import Connection, Protocol, Writer
from server_process import free_port

Match = Callable[[bytes], bool]

SECONDS = 15


@dataclasses.dataclass
class _Rule:
    """What happens to the next ``left`` requests that match."""

    fault: Literal["hold", "lose request", "lose answer"]
    match: Match | None
    left: int | None = None

    def takes(self, text: bytes) -> bool:
        if self.left == 0 or not (self.match is None or self.match(text)):
            return False
        if self.left is not None:
            self.left -= 1
        return True


class Proxy:
    """Stands on ``port`` in front of ``target_port``, both on 127.0.0.1, from its making on.

    ``http`` and ``postgresql`` are cut into requests and answers; ``tcp`` into what one read
    returns. A match sees a whole request: an HTTP one with its head, or all of PostgreSQL's
    messages up to its Sync, with the SQL of the prepared statements that they name. It is called
    in the proxy's thread.
    """

    def __init__(
        self, target_port: int, *, protocol: Protocol = "http", port: int | None = None
    ) -> None:
        self.target_port = target_port
        self.port = port or free_port()
        self.requests = 0  # that came whole
        self.faults = 0  # requests that met a rule
        self.connections = 0  # that were taken
        self.bytes_to_server = 0
        self.bytes_to_client = 0
        self._protocol: Protocol = protocol
        self._delay = 0.0
        self._cuts = 0
        self._rules: list[_Rule] = []
        self._open: set[Connection] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._changed = threading.Condition()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=asyncio.run, args=[self._main()], daemon=True)
        self._thread.start()
        assert self._ready.wait(SECONDS), "the proxy did not start"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """End it and all its connections."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join(SECONDS)
        assert not self._thread.is_alive(), "the proxy did not end"

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def in_front_of(self, url: str) -> str:
        """The URL of a database behind this proxy."""
        return url.replace(f":{self.target_port}", f":{self.port}", 1)

    def cut(self) -> None:
        """Close all connections at once, and refuse new ones until it is healed."""
        self._call(self._cut())

    def heal(self, *, deliver: bool = False) -> None:
        """Be an honest proxy again.

        Connections with requests that were held are closed; or the requests reach the server
        after all, as packets do that a network delayed.
        """
        self._call(self._heal(deliver))

    def stall(self, match: Match | None = None, *, times: int | None = None) -> None:
        """Hold requests that match until it is healed: nobody answers, nobody closes."""
        self._add(_Rule("hold", match, times))

    def cut_before_request(self, match: Match | None = None, *, times: int | None = 1) -> None:
        """Close a client's connection on such a request, which never reaches the server."""
        self._add(_Rule("lose request", match, times))

    def cut_after_request(self, match: Match | None = None, *, times: int | None = 1) -> None:
        """Let the server carry the request out and answer; then close without delivering that."""
        self._add(_Rule("lose answer", match, times))

    def delay(self, seconds: float) -> None:
        """Let each request wait so long on its way."""
        self._delay = seconds

    def until_faults(self, count: int = 1, seconds: float = SECONDS) -> None:
        """Wait until so many requests have met a rule; for a lost answer: until it is lost."""
        with self._changed:
            done = self._changed.wait_for(lambda: self.faults >= count, seconds)
        assert done, f"{self.faults} of {count} faults after {seconds} s"

    def _add(self, rule: _Rule) -> None:
        async def add() -> None:
            self._rules.append(rule)

        self._call(add())

    def _call(self, what: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(what, self._loop).result(SECONDS)

    async def _main(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._end = asyncio.Event()
        self._healed: asyncio.Future[bool] = self._loop.create_future()
        await self._listen()
        self._ready.set()
        await self._end.wait()
        await self._cut()
        self._healed.set_result(False)
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=SECONDS)

    async def _listen(self) -> None:
        self._listener = await asyncio.start_server(self._serve, "127.0.0.1", self.port)

    async def _cut(self) -> None:
        self._cuts += 1
        self._listener.close()
        for connection in self._open:
            connection.abort()

    async def _heal(self, deliver: bool) -> None:
        self._rules.clear()
        self._delay = 0.0
        self._healed.set_result(deliver)
        self._healed = self._loop.create_future()
        if not self._listener.is_serving():
            await self._listen()

    async def _serve(self, client_reader: asyncio.StreamReader, client: Writer) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        self.connections += 1
        cuts = self._cuts
        try:
            server_reader, server = await asyncio.open_connection("127.0.0.1", self.target_port)
        except OSError:
            client.transport.abort()
            return
        connection = Connection(client, server)
        if self._cuts > cuts:
            connection.abort()
            return
        self._open.add(connection)
        ways = [self._carry_requests(connection, client_reader)]
        ways.append(self._carry_answers(connection, server_reader))
        try:
            await asyncio.gather(*(self._until_closed(connection, way) for way in ways))
        finally:
            self._open.discard(connection)

    async def _until_closed(self, connection: Connection, way: Coroutine[Any, Any, None]) -> None:
        """One end's farewell ends the other way as well; a lost connection is no event here."""
        try:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                await way
        finally:
            connection.answered.set()
            connection.client.close()  # sends what is still to be sent
            connection.server.close()

    async def _carry_requests(self, connection: Connection, reader: asyncio.StreamReader) -> None:
        async for request in exchanges.requests(self._protocol, connection, reader):
            rule = None
            if request.is_answered:
                self.requests += 1
                rule = next((one for one in self._rules if one.takes(request.text)), None)
                await self._wait(self._delay)
            if rule is not None and rule.fault == "hold":
                self._count_fault()
                if not await asyncio.shield(self._healed):
                    return
            elif rule is not None and rule.fault == "lose request":
                connection.abort()
                self._count_fault()
                return
            if request.is_answered:
                connection.lost.append(rule is not None and rule.fault == "lose answer")
                connection.heads.append(request.is_head)
                connection.answered.clear()
            self.bytes_to_server += len(request.raw)
            connection.server.write(request.raw)
            await connection.server.drain()
            if rule is not None and rule.fault == "hold":
                # Its client has often gone by now; to tell the server would undo the request.
                await connection.answered.wait()

    async def _carry_answers(self, connection: Connection, reader: asyncio.StreamReader) -> None:
        async for answer in exchanges.answers(self._protocol, connection, reader):
            connection.is_tunnel = connection.is_tunnel or answer.is_tunnel
            is_lost = bool(connection.lost) and connection.lost[0]
            if answer.is_last and connection.lost:
                connection.lost.popleft()
                connection.answered.set()
            if is_lost and answer.is_last:
                connection.abort()
                self._count_fault()
                return
            if not is_lost:
                self.bytes_to_client += len(answer.raw)
                connection.client.write(answer.raw)
                await connection.client.drain()

    async def _wait(self, seconds: float) -> None:
        if seconds:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._end.wait(), seconds)

    def _count_fault(self) -> None:
        with self._changed:
            self.faults += 1
            self._changed.notify_all()
