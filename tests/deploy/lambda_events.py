"""Events as AWS's gateways make them of a request, and the request's answer as they read it.

The shapes are those that AWS documents; how paths and queries come, encoded or not, is as captured
from the live services: a REST API, a function URL and a load balancer leave a path as it was sent,
an HTTP API decodes it.
"""

from __future__ import annotations

import base64
import json
import time
from typing import NamedTuple
from urllib.parse import parse_qsl, unquote

HOST = "api.example.com"
ADDRESS = "203.0.113.7"


class Context:
    """What the platform tells of an invocation."""

    aws_request_id = "6f3c1a9e-0000-4000-8000-000000000001"

    def __init__(self, seconds=28.0):
        self.ends = time.monotonic() + seconds

    def get_remaining_time_in_millis(self):
        return max(0, int((self.ends - time.monotonic()) * 1000))


class Answer(NamedTuple):
    """An answer as a client gets it."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes

    def json(self):
        return json.loads(self.body)

    def header(self, name):
        return next((value for key, value in self.headers if key == name), None)


def http_api(method, target, headers=(), body=b"", *, stage="$default", received=None, **changes):
    """Payload 2.0 of an HTTP API: the path decoded, and with the stage."""
    path, _, query = target.partition("?")
    lead = "" if stage == "$default" else f"/{stage}"
    event = _payload_2((method, lead + unquote(path), query), headers, body, received)
    event["requestContext"] |= {
        "stage": stage,
        "domainName": "abcdefghij.execute-api.eu-west-1.amazonaws.com",
    }
    return {**event, **changes}


def function_url(method, target, headers=(), body=b"", *, received=None, **changes):
    """Payload 2.0 of a function URL: the path as sent, though the other mention is decoded."""
    path, _, query = target.partition("?")
    event = _payload_2((method, path, query), headers, body, received)
    event["requestContext"] |= {
        "stage": "$default",
        "domainName": "abcdefghijabcdefghijabcdefghij.lambda-url.eu-west-1.on.aws",
    }
    return {**event, **changes}


def rest_api(method, target, headers=(), body=b"", *, stage="prod", received=None, **changes):
    """Payload 1.0 of a REST API: the path as sent, the stage beside it; the query decoded."""
    path, _, query = target.partition("?")
    parameters = parse_qsl(query, keep_blank_values=True)
    event = {
        "resource": "/{proxy+}",
        "path": path,
        "httpMethod": method,
        "headers": dict(headers) or None,
        "multiValueHeaders": _lists(headers) or None,
        "queryStringParameters": dict(parameters) or None,
        "multiValueQueryStringParameters": _lists(parameters) or None,
        "pathParameters": {"proxy": path[1:]},
        "stageVariables": None,
        "requestContext": {
            "resourcePath": "/{proxy+}",
            "httpMethod": method,
            "path": f"/{stage}{path}",
            "stage": stage,
            "protocol": "HTTP/1.1",
            "domainName": "abcdefghij.execute-api.eu-west-1.amazonaws.com",
            "identity": {"sourceIp": ADDRESS, "userAgent": "curl/8.7.1"},
            "requestTimeEpoch": _milliseconds(received),
            "requestId": "7c2af7db-31f3-42b5-8a6d-9ffc74e3b9e0",
        },
        **_carried(body),
    }
    return {**event, **changes}


def load_balancer(method, target, headers=(), body=b"", **changes):
    """A load balancer: path and query as sent, of names that come twice the last value."""
    event = _balanced(method, target, body)
    _path, _, query = target.partition("?")
    event["queryStringParameters"] = dict(_as_sent(query))
    event["headers"] = dict([*headers, ("x-forwarded-for", f"198.51.100.1, {ADDRESS}")])
    return {**event, **changes}


def load_balancer_of_lists(method, target, headers=(), body=b"", **changes):
    """The same with its multi-value headers switched on."""
    event = _balanced(method, target, body)
    _path, _, query = target.partition("?")
    event["multiValueQueryStringParameters"] = _lists(_as_sent(query))
    event["multiValueHeaders"] = _lists([*headers, ("x-forwarded-for", ADDRESS)])
    return {**event, **changes}


KINDS = (http_api, function_url, rest_api, load_balancer, load_balancer_of_lists)


def read(event, answer):
    """What the client of this event gets of this answer of the function."""
    json.dumps(answer)
    body = answer["body"]
    content = base64.b64decode(body) if answer["isBase64Encoded"] else body.encode()
    if "elb" in event["requestContext"]:
        has_lists = "multiValueHeaders" in event
        assert ("multiValueHeaders" in answer, "headers" in answer) == (has_lists, not has_lists)
    headers = [
        *((answer.get("headers") or {}).items()),
        *(
            (name, value)
            for name, values in (answer.get("multiValueHeaders") or {}).items()
            for value in values
        ),
        *(("set-cookie", value) for value in answer.get("cookies") or ()),
    ]
    return Answer(answer["statusCode"], sorted((k.lower(), v) for k, v in headers), content)


SCHEDULED = {
    "version": "0",
    "id": "53dc4d37-cffa-4f76-80c9-8b7d4a4d2eaa",
    "detail-type": "Scheduled Event",
    "source": "aws.events",
    "account": "123456789012",
    "time": "2026-11-29T13:37:00Z",
    "region": "eu-west-1",
    "resources": ["arn:aws:events:eu-west-1:123456789012:rule/sweep"],
    "detail": {},
}
BY_SCHEDULER = {**SCHEDULED, "source": "aws.scheduler", "detail": "{}"}


def _payload_2(line, headers, body, received):
    method, path, query = line
    cookies = [part for name, value in headers if name == "cookie" for part in value.split("; ")]
    joined = {
        name: ",".join(values) for name, values in _lists(headers).items() if name != "cookie"
    }
    event = {
        "version": "2.0",
        "routeKey": "$default",
        "rawPath": path,
        "rawQueryString": query,
        "headers": joined,
        "requestContext": {
            "http": {
                "method": method,
                "path": unquote(path),
                "protocol": "HTTP/1.1",
                "sourceIp": ADDRESS,
                "userAgent": "curl/8.7.1",
            },
            "routeKey": "$default",
            "requestId": "ATfSmjLgPHcESJw=",
            "timeEpoch": _milliseconds(received),
        },
        **_carried(body),
    }
    if cookies:
        event["cookies"] = cookies
    if event["body"] is None:
        del event["body"]
    return event


def _balanced(method, target, body):
    arn = "arn:aws:elasticloadbalancing:eu-west-1:123456789012:targetgroup/jobroom/6d0ecf831eec9f09"
    path = target.partition("?")[0]
    about = {"elb": {"targetGroupArn": arn}}
    carried = _carried(body)
    carried["body"] = carried["body"] or ""
    return {"requestContext": about, "httpMethod": method, "path": path, **carried}


def _carried(body):
    try:
        return {"body": body.decode() or None, "isBase64Encoded": False}
    except UnicodeDecodeError:
        return {"body": base64.b64encode(body).decode(), "isBase64Encoded": True}


def _milliseconds(received):
    return int((time.time() if received is None else received) * 1000)


def _as_sent(query):
    pairs = (part.partition("=") for part in query.split("&") if part)
    return [(name, value) for name, _, value in pairs]


def _lists(pairs):
    lists = {}
    for name, value in pairs:
        lists.setdefault(name, []).append(value)
    return lists
