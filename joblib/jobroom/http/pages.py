"""The pages for people: the API's documentation and the explanation of each problem."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shlex
from collections.abc import Iterator, Sequence
from html import escape
from typing import Any

from jobroom.errors import NotFound
from jobroom.http.problem_table import PROBLEM_PATH, PROBLEMS, ProblemKind

Document = dict[str, Any]

STYLE = """
:root{color-scheme:light dark;--line:#8884;--soft:#8881;--link:light-dark(#0550ae,#79b8ff)}
*{box-sizing:border-box}
body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:0 auto;padding:1rem}
h1,h2,h3{line-height:1.2}h2{margin-top:2.5rem;border-bottom:1px solid var(--line)}
a{color:var(--link)}
code,pre{font:.875em/1.45 ui-monospace,monospace}
code{overflow-wrap:anywhere}
pre{background:var(--soft);padding:.75rem;overflow-x:auto;border-radius:.4rem}
details{border:1px solid var(--line);border-radius:.4rem;margin:.5rem 0;padding:.5rem .75rem}
summary{cursor:pointer;overflow-wrap:anywhere}
.method{font-weight:700;display:inline-block;min-width:4.2rem}
.scroll{overflow-x:auto}
table{border-collapse:collapse;width:100%}
th,td{text-align:left;vertical-align:top;padding:.3rem .6rem .3rem 0}
th,td{border-bottom:1px solid var(--line)}
dt{font-weight:700;margin-top:.75rem}dd{margin:0}
""".strip()

HINT = (
    "<p>The examples expect the server's address in <code>JOBROOM_URL</code> and a token in"
    ' <code>JOBROOM_TOKEN</code>. <a href="openapi.json">openapi.json</a> is the same for'
    " programs.</p>"
)
_STYLE_HASH = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
CONTENT_SECURITY_POLICY = (
    f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; base-uri 'none';"
    " form-action 'none'; frame-ancestors 'none'"
)
HTML = "text/html; charset=utf-8"
MARKDOWN = "text/markdown; charset=utf-8"

_EXAMPLES = {
    "room_id": "lab",
    "full_name": "lab:modifiers:Rotate",
    "task_id": "01890a5d-ac96-774b-bcce-b302099a8057",
    "worker_id": "$WORKER_ID",
    "schedule_name": "nightly",
    "slug": "job-not-found",
}
_METHODS = ("get", "put", "post", "patch", "delete")


def docs_page(openapi: Document) -> str:
    """The documentation of every route of an OpenAPI document, as one page of HTML."""
    info = openapi["info"]
    parts = [
        f"<h1>{escape(info['title'])} <small>{escape(info['version'])}</small></h1>",
        f"<p>{escape(info['description'])}</p>",
        HINT,
    ]
    for tag in openapi["tags"]:
        parts.append(f"<h2>{escape(tag['name'])}</h2>")
        parts.extend(_routes_of(openapi, tag["name"]))
    parts.append("<h2>Bodies</h2>")
    parts.extend(_bodies(openapi["components"]["schemas"]))
    return _page(info["title"], parts)


def _routes_of(openapi: Document, tag: str) -> Iterator[str]:
    for path, methods in openapi["paths"].items():
        for method in _METHODS:
            operation = methods.get(method)
            if operation is not None and tag in operation["tags"]:
                yield _route(openapi, method.upper(), path, operation)


def _route(openapi: Document, method: str, path: str, operation: Document) -> str:
    body = operation.get("requestBody")
    parts = [
        f'<details id="{escape(operation["operationId"])}">',
        f'<summary><span class="method">{escape(method)}</span><code>{escape(path)}</code><br>',
        f"{escape(operation['summary'])}</summary>",
        "" if operation["security"] else "<p>Needs no token.</p>",
        _parameters(operation["parameters"]),
    ]
    if body is not None:
        need = "" if body["required"] else " (optional)"
        parts.append(f"<p>Body{need}: {_kind(body['content']['application/json']['schema'])}</p>")
    parts.append(_answers(operation["responses"]))
    parts.append(f"<pre>{escape(_curl(openapi, method, path, operation))}</pre></details>")
    return "\n".join(part for part in parts if part)


def _parameters(parameters: list[Document]) -> str:
    rows = [
        (
            f"<code>{escape(parameter['name'])}</code>",
            escape(parameter["in"]),
            _kind(parameter["schema"]),
            escape(parameter["description"]),
        )
        for parameter in parameters
    ]
    return _table(("Parameter", "In", "Type", "Meaning"), rows) if rows else ""


def _answers(responses: Document) -> str:
    rows = []
    for status, response in responses.items():
        kinds = [_kind(content["schema"]) for content in response.get("content", {}).values()]
        rows.append((f"<code>{escape(status)}</code>", ", ".join(kinds), _prose(response)))
    return _table(("Status", "Body", "Meaning"), rows)


def _prose(response: Document) -> str:
    """The description, with the types of problems linked to their pages."""
    text = escape(response["description"]).replace("\n\n", "<br>")
    # Relative, so that they hold under a mount as well.
    link = rf'<a href="{PROBLEM_PATH[1:]}\1">\1</a>'
    return re.sub(rf"`{re.escape(PROBLEM_PATH)}([a-z-]+)`", link, text)


def _bodies(schemas: Document) -> Iterator[str]:
    for name, schema in schemas.items():
        required = schema.get("required", [])
        rows = [
            (
                f"<code>{escape(member)}</code>{' (required)' if member in required else ''}",
                _kind(details),
                escape(details.get("description", "")),
            )
            for member, details in schema.get("properties", {}).items()
        ]
        table = _table(("Member", "Type", "Meaning"), rows) if rows else f"<p>{_kind(schema)}</p>"
        yield (
            f'<h3 id="{escape(name)}">{escape(name)}</h3>'
            f"<p>{escape(schema.get('description', ''))}</p>{table}"
        )


def _kind(schema: Document) -> str:
    """A schema in a few words, with links to the bodies that it names."""
    if "$ref" in schema:
        name = escape(schema["$ref"].rpartition("/")[2])
        return f'<a href="#{name}">{name}</a>'
    if "anyOf" in schema:
        return " or ".join(_kind(choice) for choice in schema["anyOf"])
    if "enum" in schema:
        return ", ".join(f"<code>{escape(str(value))}</code>" for value in schema["enum"])
    if schema.get("type") == "array":
        return f"list of {_kind(schema.get('items', {}))}"
    return escape(str(schema.get("format") or schema.get("type") or "any JSON")) + _bounds(schema)


def _bounds(schema: Document) -> str:
    words = {
        "exclusiveMinimum": "over",
        "minimum": "from",
        "maximum": "to",
        "maxLength": "at most",
        "maxItems": "at most",
    }
    found = [f"{word} {schema[key]}" for key, word in words.items() if key in schema]
    return escape(f" ({' '.join(found)})") if found else ""


def _curl(openapi: Document, method: str, path: str, operation: Document) -> str:
    for parameter in operation["parameters"]:
        if parameter["in"] == "path":
            name = parameter["name"]
            path = path.replace(f"{{{name}}}", _EXAMPLES.get(name, name))
    lines = [f'curl -X {method} "$JOBROOM_URL{path}"']
    if operation["security"]:
        lines.append('-H "Authorization: Bearer $JOBROOM_TOKEN"')
    body = operation.get("requestBody")
    if body is not None:
        schema = body["content"]["application/json"]["schema"]
        lines.append("-H 'Content-Type: application/json'")
        lines.append(f"-d {shlex.quote(json.dumps(_example(openapi, schema)))}")
    return " \\\n  ".join(lines)


def _example(openapi: Document, schema: Document) -> object:
    name = schema.get("$ref", "").rpartition("/")[2]
    examples = openapi["components"]["schemas"].get(name, schema).get("examples")
    return examples[0] if examples else {}


def explain(slug: str, *, accept: str | None) -> tuple[str, str]:
    """Media type and text of the page on a kind of problem, as the header Accept prefers it.

    Raises ``NotFound`` if there is no such kind.
    """
    kind = PROBLEMS.get(slug)
    if kind is None:
        raise NotFound(
            f"There is no kind of problem of that name; known are {', '.join(PROBLEMS)}."
        )
    if prefers_html(accept):
        return HTML, problem_page(slug, kind)
    return MARKDOWN, problem_text(slug, kind)


def problem_page(slug: str, kind: ProblemKind) -> str:
    """The explanation of a kind of problem for a browser."""
    parts = [f"<h1>{escape(slug)}</h1>", f"<p>{kind.status} {escape(kind.title)}</p>", "<dl>"]
    parts.extend(
        f"<dt>{word}</dt><dd>{escape(text)}</dd>"
        for word, text in (("Cause", kind.cause), ("Example", kind.example), ("Fix", kind.fix))
    )
    return _page(slug, [*parts, "</dl>"])


def problem_text(slug: str, kind: ProblemKind) -> str:
    """The explanation of a kind of problem for a terminal."""
    return (
        f"# {slug}\n\n{kind.status} {kind.title}\n\n"
        f"Cause: {kind.cause}\n\nExample: {kind.example}\n\nFix: {kind.fix}\n"
    )


def prefers_html(accept: str | None) -> bool:
    """Whether HTML is asked for by name, and no plainer text is wanted more (RFC 9110, 12.5.1)."""
    weights = dict(_weights(accept or ""))
    html = max(weights.get("text/html", 0.0), weights.get("application/xhtml+xml", 0.0))
    plain = max(weights.get("text/markdown", 0.0), weights.get("text/plain", 0.0))
    return html > 0 and html >= plain


def _weights(accept: str) -> Iterator[tuple[str, float]]:
    for part in accept.lower().split(","):
        media, *parameters = (piece.strip() for piece in part.split(";"))
        weight = 1.0
        for parameter in parameters:
            found = re.fullmatch(r"q\s*=\s*([01](?:\.\d{0,3})?)", parameter)
            weight = float(found[1]) if found else weight
        yield media, weight


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table; the cells are HTML already."""
    head = "".join(f"<th>{name}</th>" for name in heads)
    body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>\n" for row in rows)
    return f'<div class="scroll"><table><tr>{head}</tr>\n{body}</table></div>'


def _page(title: str, parts: list[str]) -> str:
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
        + "\n".join(parts)
        + "\n</body>\n</html>\n"
    )
