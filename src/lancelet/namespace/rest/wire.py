"""Requests and answers of namespaces as parts of HTTP messages, and back.

An identifier is one part of a path: its names joined with a delimiter (``$``, or what the query's ``delimiter`` says);
the root is the delimiter itself. Some clients write a space as ``+`` there, and all of them write ``+`` as ``%2B``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import parse_qsl, quote, unquote_to_bytes, urlencode

import lance_namespace as ln
from pydantic import ValidationError

from lancelet.errors import printable
from lancelet.namespace.names import DELIMITER, identifier
from lancelet.namespace.rest.routes import (
    FLAG,
    JSON,
    LIST,
    MAP,
    NOTHING,
    NUMBER,
    OBJECT,
    QUERY_KINDS,
    ROWS,
    TEXT,
    WHOLE,
    Route,
)

JSON_TYPE = "application/json"
STREAM_TYPE = "application/vnd.apache.arrow.stream"
FILE_TYPE = "application/vnd.apache.arrow.file"
_ID, _INDEX = "{id}", "{index_name}"
_DOTS = {".": "%2E", "..": "%2E%2E"}


@dataclass(frozen=True, slots=True)
class Sent:
    """A request as it is sent."""

    target: str
    """The path, with its query."""
    body: bytes | None
    content_type: str | None


def encode(route: Route, request: Any, data: bytes | None, delimiter: str = DELIMITER) -> Sent:
    """A request, ready to be sent."""
    told: dict[str, Any] = request.to_dict()
    parts = []
    for part in route.parts:
        if part == _ID:
            parts.append(_segment(_joined(identifier(told.get("id"), route.what), delimiter)))
        elif part == _INDEX:
            parts.append(_segment(told.get("index_name") or ""))
        else:
            parts.append(part)
    query = [("delimiter", delimiter)]
    for name in route.query:
        query += [(name, text) for text in _texts(told.get(name))]
    target = f"/{'/'.join(parts)}?{urlencode(query)}"
    if route.body == ROWS:
        return Sent(target, data or b"", STREAM_TYPE)
    if route.body == NOTHING:
        return Sent(target, None, None)
    # What is meant for the way, such as headers, is not for its end.
    told.pop("context", None)
    return Sent(target, json.dumps(told.get("metadata") or {} if route.body == MAP else told).encode(), JSON_TYPE)


def decode(route: Route, parts: Sequence[str], query: str, body: Any) -> tuple[Any, Any]:
    """The request in a message that was received, and the rows that came with it."""
    given = _query(query)
    fields: dict[str, Any] = {}
    if route.body == JSON:
        fields = _object(body, "the body")
    elif route.body == MAP:
        fields = {"metadata": _object(body, "the body")}
    for name in route.query:
        if name in given and fields.get(name) is None:
            fields[name] = _value(name, given[name])
    delimiter = given.get("delimiter", [DELIMITER])[-1]
    for mine, theirs in zip(route.parts, parts, strict=True):
        if mine == _ID:
            _place(fields, "id", _names(_plain(theirs), delimiter))
        elif mine == _INDEX:
            _place(fields, "index_name", _plain(theirs))
    if route.operation == "list_all_tables":
        fields["id"] = []
    try:
        return route.request.from_dict(fields), (body if route.body == ROWS else None)
    except (ValueError, TypeError, AttributeError) as error:
        raise ln.InvalidInputError(
            f"the request for {route.operation} is not as the specification has it: {_reason(error)}"
        ) from error


def encode_answer(route: Route, answer: Any) -> tuple[bytes, str | None]:
    """The body that an answer is sent in, and its type."""
    if route.answer == NOTHING:
        return b"", None
    if route.answer == ROWS:
        return bytes(answer.data), FILE_TYPE
    if route.answer == NUMBER:
        told: Any = answer.count
    elif route.answer == TEXT:
        told = answer
    elif route.answer == MAP:
        told = answer.metadata or {}
    else:
        told = answer.to_dict()
    return json.dumps(told, default=_told_time).encode(), JSON_TYPE


def decode_answer(route: Route, body: bytes, headers: Mapping[str, str]) -> Any:
    """The answer in a body that was received; the message's headers become its context."""
    context = {f"header.{name.lower()}": value for name, value in headers.items()}
    if route.answer == NOTHING:
        return route.response(context=context)
    if route.answer == ROWS:
        return route.response(data=body, context=context)
    try:
        told = json.loads(body or b"{}")
        if route.answer == TEXT:
            return str(told)
        if route.answer == NUMBER:
            return route.response(count=told, context=context)
        if route.answer == MAP:
            return route.response(metadata=told, context=context)
        return route.response.from_dict({**told, "context": context})
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise ln.InternalError(
            f"the answer to {route.operation} is not as the specification has it: {_reason(error)}"
        ) from error


def _reason(error: Exception) -> str:
    """On one line; models tell all that they found, with their own pages of help."""
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_input=False)[0]
        return printable(f"{'.'.join(map(str, first['loc']))}: {first['msg']}")
    return printable(str(error))


def _told_time(value: datetime) -> str:
    """Times are the one kind of value that models have and JSON has not."""
    return value.isoformat()


def path_parts(path: str) -> tuple[str, ...]:
    """A path taken apart, each part as it was sent."""
    return tuple(path.removeprefix("/").split("/"))


# Identifiers


def _joined(names: Sequence[str], delimiter: str) -> str:
    for name in names:
        if delimiter in name or not name:
            raise ln.InvalidInputError(
                f"the name {name!r} cannot be sent: names are joined with {delimiter!r}; choose another delimiter"
                if name
                else "an empty name cannot be sent"
            )
    return delimiter.join(names) or delimiter


def _segment(text: str) -> str:
    """A text as one part of a path; dots would be taken for the way to another."""
    return _DOTS.get(text) or quote(text, safe="", errors="surrogatepass")


def _plain(part: str) -> str:
    try:
        return unquote_to_bytes(part.replace("+", " ")).decode()
    except UnicodeDecodeError as error:
        raise ln.InvalidInputError(f"the part {part!r} of the path is not UTF-8") from error


def _names(text: str, delimiter: str) -> list[str]:
    if not delimiter:
        raise ln.InvalidInputError("the delimiter of names is empty")
    if text == delimiter:
        return []
    names = text.split(delimiter)
    for name in names:
        if name in ("", ".", "..") or "/" in name or "\\" in name or "\x00" in name:
            raise ln.InvalidInputError(f"nothing can be named {name!r}: names are not empty, '.' or '..', without '/'")
    return names


def _place(fields: dict[str, Any], name: str, value: Any) -> None:
    """Take what the path says; a body may say the same."""
    if fields.get(name) not in (None, value):
        raise ln.InvalidInputError(f"the body says that {name} is {fields[name]!r}, but the path that it is {value!r}")
    fields[name] = value


# Bodies and queries


def _object(body: Any, what: str) -> dict[str, Any]:
    if not body:
        return {}
    try:
        told = json.loads(bytes(body))
    except (ValueError, RecursionError) as error:
        raise ln.InvalidInputError(f"{what} is not JSON: {error}") from error
    if not isinstance(told, dict):
        raise ln.InvalidInputError(f"{what} is a JSON object, not a {type(told).__name__}")
    return told


def _query(text: str) -> dict[str, list[str]]:
    try:
        pairs = parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=1000)
    except ValueError as error:
        raise ln.InvalidInputError(f"the query cannot be read: {error}") from error
    found: dict[str, list[str]] = {}
    for name, value in pairs:
        found.setdefault(name, []).append(value)
    return found


def _value(name: str, texts: list[str]) -> Any:
    kind, text = QUERY_KINDS.get(name), texts[-1]
    if kind == LIST:
        return texts
    if kind == FLAG:
        if text not in ("true", "false"):
            raise ln.InvalidInputError(f"{name} is true or false, not {text!r}")
        return text == "true"
    if kind == WHOLE:
        try:
            return int(text)
        except ValueError:
            raise ln.InvalidInputError(f"{name} is a whole number, not {text!r}") from None
    return _object(text.encode(), name) if kind == OBJECT else text


def _texts(value: Any) -> list[str]:
    """A field as the texts of a query."""
    if value is None:
        return []
    if isinstance(value, bool):
        return ["true" if value else "false"]
    if isinstance(value, list):
        return [str(item) for item in value]
    return [json.dumps(value) if isinstance(value, dict) else str(value)]
