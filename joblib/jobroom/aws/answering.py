"""An answer in the form that each of AWS's gateways takes, within what a function may return."""

from __future__ import annotations

import base64
import logging
from http.client import responses
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import orjson

from jobroom.http import exchange

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from mangum.types import Response

    from jobroom.http.exchange import Reply

Answer = dict[str, Any]
Headers = list[tuple[str, str]]

LAMBDA_LIMIT = 6 * 1024 * 1024
"""Bytes of JSON that a function may return; more, and the whole answer is lost."""
LOAD_BALANCER_LIMIT = 1_000_000
"""The same behind an Application Load Balancer, which says 1 MB."""
HEADERS_BYTES = 20 * 1024
"""What status and headers may take of it."""

log = logging.getLogger("jobroom")


class Gateway(Protocol):
    """What an answer must know of the gateway that it goes to."""

    largest_answer: ClassVar[int]
    decodes_base64: ClassVar[bool]

    @property
    def method(self) -> str:
        """The method of the request."""
        ...

    @property
    def scope(self) -> dict[str, Any]:
        """The request as the application saw it."""
        ...

    def answered(self, status: int, headers: Headers, body: str, *, is_base64: bool) -> Answer:
        """The answer in the gateway's form."""
        ...


def fit(gateway: Gateway, response: Response) -> Answer:
    """The answer as a gateway takes it; a problem document where it is more than it takes."""
    answer = _shaped(gateway, response["status"], _text_of(response["headers"]), response["body"])
    size = len(orjson.dumps(answer))
    if size <= gateway.largest_answer:
        return answer
    log.error("lambda.answer_too_large bytes=%d limit=%d", size, gateway.largest_answer)
    detail = (
        f"The answer is longer than the {gateway.largest_answer} bytes that can be returned here;"
        " ask for less at a time."
    )
    return refuse(gateway, exchange.problem("internal-error", gateway.scope, detail))


def refuse(gateway: Gateway, problem: Reply) -> Answer:
    """A problem document as the gateway takes it, instead of what the application said."""
    return _shaped(gateway, problem.status, _text_of(problem.whole_headers()), problem.body)


def _text_of(headers: Iterable[Sequence[bytes]]) -> Headers:
    return [
        (bytes(name).decode("latin-1").lower(), bytes(value).decode("latin-1"))
        for name, value in headers
    ]


def _shaped(gateway: Gateway, status: int, headers: Headers, body: bytes) -> Answer:
    # A server in front of sockets drops the body, too, and keeps its length.
    shown = b"" if gateway.method == "HEAD" else body
    text, is_base64 = _carried(shown, decodes_base64=gateway.decodes_base64)
    return gateway.answered(status, headers, text, is_base64=is_base64)


def _carried(body: bytes, *, decodes_base64: bool) -> tuple[str, bool]:
    """The body as a JSON string: as text, or as base64 where quotes and the like make that longer.

    So what is returned is never longer than four thirds of the body.
    """
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return base64.b64encode(body).decode(), True
    if decodes_base64 and len(orjson.dumps(text)) > len(body) * 4 // 3 + 4:
        return base64.b64encode(body).decode(), True
    return text, False


def with_cookies(status: int, headers: Headers, body: str, *, is_base64: bool) -> Answer:
    """Payload 2.0: one value for each name, and the cookies in a list."""
    single: dict[str, str] = {}
    cookies: list[str] = []
    for name, value in headers:
        if name == "set-cookie":
            cookies.append(value)
        else:
            single[name] = f"{single[name]},{value}" if name in single else value
    answer = _answer(status, body, is_base64=is_base64, headers=single)
    return {**answer, "cookies": cookies} if cookies else answer


def as_lists(status: int, headers: Headers, body: str, *, is_base64: bool) -> Answer:
    """Payload 1.0: the headers that stand once, and the lists of those that stand more often."""
    lists = _lists(headers)
    return _answer(
        status,
        body,
        is_base64=is_base64,
        headers={name: values[0] for name, values in lists.items() if len(values) == 1},
        multiValueHeaders={name: values for name, values in lists.items() if len(values) > 1},
    )


def as_lists_alone(status: int, headers: Headers, body: str, *, is_base64: bool) -> Answer:
    """A load balancer with multi-value headers, which reads no other."""
    return _described(_answer(status, body, is_base64=is_base64, multiValueHeaders=_lists(headers)))


def as_single_lines(status: int, headers: Headers, body: str, *, is_base64: bool) -> Answer:
    """A load balancer without multi-value headers: cookies differ by the case of their name."""
    single: dict[str, str] = {}
    for name, values in _lists(headers).items():
        if name == "set-cookie":
            single.update((_cased(name, at), value) for at, value in enumerate(values))
        else:
            single[name] = ",".join(values)
    return _described(_answer(status, body, is_base64=is_base64, headers=single))


def _answer(status: int, body: str, *, is_base64: bool, **headers: Any) -> Answer:
    return {"statusCode": status, **headers, "body": body, "isBase64Encoded": is_base64}


def _described(answer: Answer) -> Answer:
    status = answer["statusCode"]
    return {**answer, "statusDescription": f"{status} {responses.get(status, 'Unknown')}"}


def _lists(headers: Headers) -> dict[str, list[str]]:
    lists: dict[str, list[str]] = {}
    for name, value in headers:
        lists.setdefault(name, []).append(value)
    return lists


def _cased(name: str, number: int) -> str:
    """The name in the spelling of that number: each letter's case is a bit of it."""
    return "".join(
        letter.upper() if number >> bit & 1 else letter for bit, letter in enumerate(name)
    )
