"""Errors on their way: each has a status, and a body with its code that the other side makes the same error of again."""

from __future__ import annotations

import json
from typing import Any

import lance_namespace as ln
from lance_namespace import ErrorCode

from lancelet.errors import printable

TOO_LARGE, TOO_SLOW, NO_METHOD = 413, 408, 405
_STATUSES = {
    ErrorCode.UNSUPPORTED: 406,
    ErrorCode.NAMESPACE_NOT_FOUND: 404,
    ErrorCode.NAMESPACE_ALREADY_EXISTS: 409,
    ErrorCode.NAMESPACE_NOT_EMPTY: 409,
    ErrorCode.TABLE_NOT_FOUND: 404,
    ErrorCode.TABLE_ALREADY_EXISTS: 409,
    ErrorCode.TABLE_INDEX_NOT_FOUND: 404,
    ErrorCode.TABLE_INDEX_ALREADY_EXISTS: 409,
    ErrorCode.TABLE_TAG_NOT_FOUND: 404,
    ErrorCode.TABLE_TAG_ALREADY_EXISTS: 409,
    ErrorCode.TRANSACTION_NOT_FOUND: 404,
    ErrorCode.TABLE_VERSION_NOT_FOUND: 404,
    ErrorCode.TABLE_COLUMN_NOT_FOUND: 404,
    ErrorCode.INVALID_INPUT: 400,
    ErrorCode.CONCURRENT_MODIFICATION: 409,
    ErrorCode.PERMISSION_DENIED: 403,
    ErrorCode.UNAUTHENTICATED: 401,
    ErrorCode.SERVICE_UNAVAILABLE: 503,
    ErrorCode.INTERNAL: 500,
    ErrorCode.INVALID_TABLE_STATE: 409,
    ErrorCode.TABLE_SCHEMA_VALIDATION_ERROR: 400,
    ErrorCode.THROTTLING: 429,
    ErrorCode.TABLE_BRANCH_NOT_FOUND: 404,
    ErrorCode.TABLE_BRANCH_ALREADY_EXISTS: 409,
}
_KINDS: dict[int, type[ln.LanceNamespaceError]] = {
    400: ln.InvalidInputError,
    401: ln.UnauthenticatedError,
    403: ln.PermissionDeniedError,
    # The specification has a body for whatever is not found: without one, the path is nothing that the server knows.
    404: ln.UnsupportedOperationError,
    405: ln.UnsupportedOperationError,
    406: ln.UnsupportedOperationError,
    408: ln.ServiceUnavailableError,
    409: ln.ConcurrentModificationError,
    413: ln.InvalidInputError,
    429: ln.ThrottlingError,
    502: ln.ServiceUnavailableError,
    503: ln.ServiceUnavailableError,
    504: ln.ServiceUnavailableError,
}
"""What answers of others than namespaces mean, such as proxies."""
_CODES: dict[int, type[ln.LanceNamespaceError]] = {
    int(kind.code): kind
    for kind in vars(ln).values()
    if isinstance(kind, type) and issubclass(kind, ln.LanceNamespaceError) and kind is not ln.LanceNamespaceError
}
_SHOWN = 200


def status_of(error: ln.LanceNamespaceError) -> int:
    """The status that an error is answered with."""
    return _STATUSES.get(error.code, 500)


def error_body(error: ln.LanceNamespaceError) -> bytes:
    """The body that an error is answered with."""
    return json.dumps({"error": str(error), "code": int(error.code)}).encode()


def error_of(status: int, body: bytes, server: str) -> ln.LanceNamespaceError:
    """The error that an answer tells of."""
    told = _parsed(body)
    kind = _CODES.get(told["code"]) if type(told.get("code")) is int else None
    text = told.get("error") or told.get("detail")
    if kind is not None:
        return kind(str(text or f"{server} answers {kind.__name__} without a word"))
    # Nobody knows who says so: what is shown of it is short, and on one line.
    said = printable(body[:_SHOWN].decode(errors="replace").strip())
    return _KINDS.get(status, ln.InternalError)(
        f"{server} answers {status} without an error of a namespace" + (f": {said}" if said else "")
    )


def _parsed(body: bytes) -> dict[str, Any]:
    try:
        told = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return told if isinstance(told, dict) else {}
