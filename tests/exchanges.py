"""Requests and answers, as HTTP, PostgreSQL and the bare TCP show them to a proxy."""

from __future__ import annotations

import asyncio
import dataclasses
from collections import deque
from collections.abc import AsyncIterator
from typing import Literal, NamedTuple

Protocol = Literal["http", "postgresql", "tcp"]
Writer = asyncio.StreamWriter

CHUNK = 65_536
SSL_REQUEST, GSS_REQUEST, CANCEL_REQUEST = 80877103, 80877104, 80877102
ENDS_REQUEST = b"QSF"  # what the server answers with ReadyForQuery
GOES_AT_ONCE = b"HdcfXp"  # what belongs to no request, or must not wait for its end


class Request(NamedTuple):
    """What a client has sent: the bytes, and the text in which a rule looks for its match."""

    raw: bytes
    text: bytes
    is_answered: bool = True
    is_head: bool = False


class Answer(NamedTuple):
    """What the server has sent: whether that is the end of an answer, or the start of a tunnel."""

    raw: bytes
    is_last: bool = True
    is_tunnel: bool = False


@dataclasses.dataclass(eq=False)
class Connection:
    """A client's connection and ours to the server, with the requests that have no answer yet."""

    client: Writer
    server: Writer
    lost: deque[bool] = dataclasses.field(default_factory=deque)
    heads: deque[bool] = dataclasses.field(default_factory=deque)
    is_tunnel: bool = False
    answered: asyncio.Event = dataclasses.field(default_factory=asyncio.Event)

    def abort(self) -> None:
        self.client.transport.abort()
        self.server.transport.abort()


def requests(
    protocol: Protocol, connection: Connection, reader: asyncio.StreamReader
) -> AsyncIterator[Request]:
    """What the client says, request by request."""
    if protocol == "http":
        return _http_requests(connection, reader)
    if protocol == "postgresql":
        return _postgresql_requests(connection, reader)
    return _chunks(reader)


def answers(
    protocol: Protocol, connection: Connection, reader: asyncio.StreamReader
) -> AsyncIterator[Answer]:
    """What the server says, in parts of which the last of an answer is marked."""
    if protocol == "http":
        return _http_answers(connection, reader)
    if protocol == "postgresql":
        return _postgresql_answers(reader)
    return _chunk_answers(reader)


async def _chunks(reader: asyncio.StreamReader) -> AsyncIterator[Request]:
    while raw := await reader.read(CHUNK):
        yield Request(raw, raw)


async def _chunk_answers(reader: asyncio.StreamReader) -> AsyncIterator[Answer]:
    while raw := await reader.read(CHUNK):
        yield Answer(raw)


async def _http_requests(
    connection: Connection, reader: asyncio.StreamReader
) -> AsyncIterator[Request]:
    while not connection.is_tunnel:
        head = await reader.readuntil(b"\r\n\r\n")
        raw = head + await _http_body(head, reader)
        yield Request(raw, raw, is_head=head.startswith(b"HEAD "))
        if b"\r\nupgrade:" in head.lower():
            break  # what follows is a tunnel or, from a client that waits, nothing
    async for chunk in _chunks(reader):
        yield chunk._replace(is_answered=False)


async def _http_answers(
    connection: Connection, reader: asyncio.StreamReader
) -> AsyncIterator[Answer]:
    while not connection.is_tunnel:
        head = await reader.readuntil(b"\r\n\r\n")
        status = int(head.split(b" ", 2)[1])
        if status == 101:
            yield Answer(head, is_tunnel=True)
        elif status < 200:
            yield Answer(head, is_last=False)
        elif (connection.heads and connection.heads.popleft()) or status in {204, 304}:
            yield Answer(head)
        else:
            yield Answer(head + await _http_body(head, reader, to_end=True))
    async for answer in _chunk_answers(reader):
        yield answer


async def _http_body(head: bytes, reader: asyncio.StreamReader, *, to_end: bool = False) -> bytes:
    """The body that a head announces; an answer that announces none ends with its connection."""
    fields = {
        name.strip().lower(): value.strip()
        for name, _, value in (line.partition(b":") for line in head.split(b"\r\n")[1:])
    }
    if fields.get(b"transfer-encoding", b"").lower() == b"chunked":
        return await _http_chunks(reader)
    if b"content-length" in fields:
        return await reader.readexactly(int(fields[b"content-length"]))
    return await reader.read() if to_end else b""


async def _http_chunks(reader: asyncio.StreamReader) -> bytes:
    raw = b""
    while True:
        line = await reader.readuntil(b"\r\n")
        size = int(line.partition(b";")[0], 16)
        raw += line
        if size == 0:
            break
        raw += await reader.readexactly(size + 2)
    while (line := await reader.readuntil(b"\r\n")) != b"\r\n":
        raw += line
    return raw + line


async def _postgresql_requests(
    connection: Connection, reader: asyncio.StreamReader
) -> AsyncIterator[Request]:
    yield await _postgresql_start(connection, reader)
    statements: dict[bytes, bytes] = {}
    raw = text = b""
    while True:
        head = await reader.readexactly(5)
        body = await reader.readexactly(int.from_bytes(head[1:]) - 4)
        raw += head + body
        text += body + _postgresql_statement(head[:1], body, statements)
        if head[:1] in ENDS_REQUEST:
            yield Request(raw, text)
            raw = text = b""
        elif head[:1] in GOES_AT_ONCE:
            yield Request(raw, text, is_answered=False)
            raw = b""
            text = text if head[:1] == b"H" else b""  # a Flush is in the middle of a request


async def _postgresql_start(connection: Connection, reader: asyncio.StreamReader) -> Request:
    """The first message; that of a connection which only cancels is never answered."""
    while True:
        head = await reader.readexactly(8)
        body = await reader.readexactly(int.from_bytes(head[:4]) - 8)
        kind = int.from_bytes(head[4:])
        if kind not in {SSL_REQUEST, GSS_REQUEST}:
            return Request(head + body, body, is_answered=kind != CANCEL_REQUEST)
        connection.client.write(b"N")


def _postgresql_statement(kind: bytes, body: bytes, statements: dict[bytes, bytes]) -> bytes:
    """The SQL of the prepared statement that a Bind names; a Parse is remembered for that."""
    if kind == b"P":
        name, sql, _ = body.split(b"\0", 2)
        statements[name] = sql
    elif kind == b"B":
        _, name, _ = body.split(b"\0", 2)
        return statements.get(name, b"")
    return b""


async def _postgresql_answers(reader: asyncio.StreamReader) -> AsyncIterator[Answer]:
    while True:
        head = await reader.readexactly(5)
        body = await reader.readexactly(int.from_bytes(head[1:]) - 4)
        yield Answer(head + body, is_last=head[:1] == b"Z")
