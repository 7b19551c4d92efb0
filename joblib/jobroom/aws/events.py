"""From what a gateway hands to a function to an ASGI scope, whichever of AWS's gateways it was.

Mangum is given these instead of its own readers: it decodes paths twice or not at all, loses
headers that come twice, and fails on nulls and on the literal addresses of IPv6.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import unquote, urlencode

from jobroom.aws import answering, parts
from jobroom.aws.answering import LAMBDA_LIMIT, LOAD_BALANCER_LIMIT

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from mangum.types import LambdaConfig, LambdaContext, Response

Event = dict[str, Any]

SCHEDULERS = ("aws.events", "aws.scheduler")
AUTHORIZATION = frozenset({"methodArn", "routeArn"})
"""What only an authorizer's event has: a request all the same, but one that another will answer."""
OUR_OWN = "v1"
"""Where our addresses begin: a stage of that name is no part of a path that has it once."""


class GatewayEvent:
    """One request as a gateway tells it, and its answer as the gateway takes it."""

    largest_answer: ClassVar[int] = LAMBDA_LIMIT
    decodes_base64: ClassVar[bool] = True

    def __init__(self, event: Event, context: LambdaContext, config: LambdaConfig) -> None:
        self.event = event
        self.context = context
        self._base_path = config["api_gateway_base_path"].strip("/")
        self.about: Mapping[str, Any] = event["requestContext"]

    # --- what differs ------------------------------------------------------------------------

    @classmethod
    def infer(cls, event: Event, _context: object = None, _config: object = None) -> bool:
        """Whether it is an event of this kind; Mangum asks."""
        raise NotImplementedError

    @property
    def method(self) -> str:
        """The request's method."""
        return str(self.event.get("httpMethod") or "GET")

    @property
    def query_string(self) -> bytes:
        """The query, encoded."""
        raise NotImplementedError

    @property
    def client(self) -> str | None:
        """The address of who asks, as the gateway saw it."""
        identity = self.about.get("identity") or {}
        return identity.get("sourceIp") or None

    def paths(self) -> tuple[str, str, str]:
        """The path as the client knows it, encoded and decoded, and how much of it is no ours."""
        raise NotImplementedError

    def headers(self) -> Iterator[tuple[str, str]]:
        """The request's headers, line by line."""
        return parts.pairs(self.event, "headers", "multiValueHeaders")

    def answered(
        self, status: int, headers: list[tuple[str, str]], body: str, *, is_base64: bool
    ) -> Event:
        """The answer in the form that the gateway takes."""
        return answering.as_lists(status, headers, body, is_base64=is_base64)

    # --- what does not -----------------------------------------------------------------------

    @property
    def body(self) -> bytes:
        """The request's body."""
        given = self.event.get("body") or ""
        if self.event.get("isBase64Encoded"):
            return base64.b64decode(given, validate=True)
        # What is no Unicode stays wrong, and is refused like any such body.
        text: bytes = given.encode("utf-8", "surrogatepass")
        return text

    @property
    def scope(self) -> dict[str, Any]:
        """The ASGI scope, as a server in front of sockets would make it."""
        headers = [
            (name.lower().encode("latin-1", "replace"), value.encode("utf-8", "replace"))
            for name, value in self.headers()
        ]
        first = dict(reversed(headers))
        raw_path, path, root_path = self.paths()
        scheme = first.get(b"x-forwarded-proto", b"https").decode("latin-1")
        request_id = getattr(self.context, "aws_request_id", None)
        if request_id and b"x-request-id" not in first:
            headers.append((b"x-request-id", str(request_id).encode("latin-1", "replace")))
        return {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.0"},
            "http_version": "1.1",
            "method": self.method,
            "scheme": scheme,
            "path": path,
            "raw_path": raw_path.encode("ascii"),
            "root_path": root_path,
            "query_string": self.query_string,
            "headers": headers,
            "client": (self.client, 0) if self.client else None,
            "server": parts.server(first, scheme),
            "jobroom.most_answer_bytes": self.room_for_a_body(),
            "aws.event": self.event,
            "aws.context": self.context,
        }

    @classmethod
    def room_for_a_body(cls) -> int:
        """How long a body may be to fit, whatever is in it: base64 adds a third, quotes double."""
        room = cls.largest_answer - answering.HEADERS_BYTES
        return room * 3 // 4 if cls.decodes_base64 else room // 2

    def __call__(self, response: Response) -> Event:
        """The answer; text as it is, or base64 where that is shorter and the gateway decodes it."""
        return answering.fit(self, response)

    def _mounted(self, path: str, *others: str) -> str:
        """The first of these prefixes that the path has, by whole segments."""
        for prefix in (self._base_path, *others):
            if prefix and f"{path}/".startswith(f"/{prefix}/"):
                return f"/{prefix}"
        return ""


class HttpApiEvent(GatewayEvent):
    """Payload 2.0: an HTTP API of API Gateway, or a Lambda function URL."""

    @classmethod
    def infer(cls, event: Event, _context: object = None, _config: object = None) -> bool:
        """Whether it is an event of this kind."""
        return isinstance(_about(event).get("http"), dict)

    @property
    def method(self) -> str:
        """The request's method."""
        return str(self.about["http"].get("method") or "GET")

    @property
    def query_string(self) -> bytes:
        """The query, which comes as it was sent."""
        return (self.event.get("rawQueryString") or "").encode("utf-8", "replace")

    @property
    def client(self) -> str | None:
        """The address of who asks."""
        return self.about["http"].get("sourceIp") or None

    def paths(self) -> tuple[str, str, str]:
        """An HTTP API gives the path decoded, a function URL as it was sent."""
        given = self.event.get("rawPath") or self.about["http"].get("path") or "/"
        if is_function_url(self.event):
            raw, path = parts.encoded(given), unquote(given)
        else:
            raw, path = parts.decoded_or_not(given)
        return raw, path, self._mounted(path, self._stage(path))

    def _stage(self, path: str) -> str:
        """The stage, which an HTTP API leaves in the path; ``$default`` is never there."""
        stage = str(self.about.get("stage") or "")
        is_own_domain = ".execute-api." not in str(self.about.get("domainName") or "")
        if stage == OUR_OWN and is_own_domain and not path.startswith(f"/{stage}/{stage}/"):
            return ""
        return stage

    def headers(self) -> Iterator[tuple[str, str]]:
        """Lines of one name come joined; cookies come apart."""
        cookies = self.event.get("cookies") or []
        for name, value in parts.pairs(self.event, "headers"):
            if not (cookies and name.lower() == "cookie"):
                yield name, value
        if cookies:
            yield "cookie", "; ".join(cookies)

    def answered(
        self, status: int, headers: list[tuple[str, str]], body: str, *, is_base64: bool
    ) -> Event:
        """One value for each name, and the cookies in a list."""
        return answering.with_cookies(status, headers, body, is_base64=is_base64)


class RestApiEvent(GatewayEvent):
    """Payload 1.0: a REST API of API Gateway, or an HTTP API that is told to send that."""

    # It decodes only what its owner named as binary media types: base64 would reach the client.
    decodes_base64 = False

    @classmethod
    def infer(cls, event: Event, _context: object = None, _config: object = None) -> bool:
        """Whether it is an event of this kind."""
        return "httpMethod" in event and isinstance(event.get("requestContext"), dict)

    @property
    def query_string(self) -> bytes:
        """The query, which comes decoded."""
        query = parts.pairs(self.event, "queryStringParameters", "multiValueQueryStringParameters")
        return urlencode(list(query), errors="replace").encode()

    def paths(self) -> tuple[str, str, str]:
        """A REST API gives the path as it was sent, the stage taken off; an HTTP API decoded."""
        given = self.event.get("path") or "/"
        whole = str(self.about.get("path") or "")
        lead = whole.removesuffix(given) if whole.endswith(given) else ""
        if self.event.get("version") == "1.0":
            raw, path = parts.decoded_or_not(lead + given)
            return raw, path, lead or self._mounted(path, str(self.about.get("stage") or ""))
        raw, path = parts.encoded(lead + given), unquote(lead + given)
        return raw, path, lead or self._mounted(path)


class LoadBalancerEvent(GatewayEvent):
    """An Application Load Balancer, in either of its modes for headers."""

    largest_answer = LOAD_BALANCER_LIMIT

    @classmethod
    def infer(cls, event: Event, _context: object = None, _config: object = None) -> bool:
        """Whether it is an event of this kind."""
        return "elb" in _about(event) and "httpMethod" in event

    @property
    def query_string(self) -> bytes:
        """The query, whose parts come as they were sent."""
        query = parts.pairs(self.event, "queryStringParameters", "multiValueQueryStringParameters")
        return "&".join(f"{name}={value}" for name, value in query).encode("utf-8", "replace")

    @property
    def client(self) -> str | None:
        """The last of the addresses is the one that the load balancer saw; others are claims."""
        claimed = [value for name, value in self.headers() if name.lower() == "x-forwarded-for"]
        return ",".join(claimed).rpartition(",")[2].strip() or None

    def paths(self) -> tuple[str, str, str]:
        """The path comes as it was sent."""
        given = self.event.get("path") or "/"
        path = unquote(given)
        return parts.encoded(given), path, self._mounted(path)

    def answered(
        self, status: int, headers: list[tuple[str, str]], body: str, *, is_base64: bool
    ) -> Event:
        """In the mode in which the request came: the other one is not read."""
        shape = (
            answering.as_lists_alone
            if self.event.get("multiValueHeaders") is not None
            else answering.as_single_lines
        )
        return shape(status, headers, body, is_base64=is_base64)


KINDS: tuple[type[GatewayEvent], ...] = (LoadBalancerEvent, HttpApiEvent, RestApiEvent)


def kind_of(event: object) -> type[GatewayEvent] | None:
    """The kind of a gateway's event; None for what is no HTTP request."""
    if not isinstance(event, dict) or not AUTHORIZATION.isdisjoint(event):
        return None
    return next((kind for kind in KINDS if kind.infer(event)), None)


def is_scheduled(event: object) -> bool:
    """Whether EventBridge sent it, by a rule or by a schedule."""
    return (
        isinstance(event, dict)
        and event.get("detail-type") == "Scheduled Event"
        and event.get("source") in SCHEDULERS
    )


def is_function_url(event: Event) -> bool:
    """Whether the function was reached by its own URL: no gateway stands before it."""
    return ".lambda-url." in str(_about(event).get("domainName") or "")


def received_at(event: Event) -> float | None:
    """When the gateway got the request (Unix seconds), by which it counts its own time limit."""
    about = _about(event)
    for name in ("timeEpoch", "requestTimeEpoch"):
        milliseconds = about.get(name)
        if isinstance(milliseconds, int | float):
            return milliseconds / 1000
    return None


def _about(event: Event) -> Mapping[str, Any]:
    about = event.get("requestContext")
    return about if isinstance(about, dict) else {}
