"""What Java asks Python, by name; ``jvm/io/lancelet/spark/python`` has the same names, and a test compares them.

A message is its length in four bytes and JSON. Answers carry the number of their question, and come in any order::

    {"number": 7, "ask": "load_table", "details": {...}}
    {"number": 7, "answer": {...}}
    {"number": 7, "kind": "table_not_found", "error": "TableNotFound", "sentence": "..."}

Where another table is missing than the one that was asked about, its ``names`` are told with it. A mistake of ours has no
``error``, and its sentence is long.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from lancelet import errors

_ROOM = "lancelet.spark.sql"
_ONE_AT_A_TIME = threading.Lock()

ASKS = {
    "list_namespaces": "namespaces",
    "load_namespace": "namespaces",
    "create_namespace": "namespaces",
    "alter_namespace": "namespaces",
    "drop_namespace": "namespaces",
    "list_tables": "tables",
    "load_table": "tables",
    "load_changes": "changes",
    "rename_table": "tables",
    "drop_table": "tables",
    "truncate_table": "tables",
    "delete_rows": "row_changes",
    "create_table": "creating",
    "stage_table": "creating",
    "abandon_table": "creating",
    "alter_table": "altering",
    "read_metadata": "metadata",
    "list_procedures": "procedures",
    "load_procedure": "procedures",
    "call_procedure": "procedures",
    "continue_procedure": "jobs",
    "load_function": "functions",
    "plan_join": "functions",
    "describe_source": "sources",
    "plan_source": "sources",
    "plan_sink": "sinks",
    "commit_sink": "sinks",
    "abort_sink": "sinks",
}
"""Questions, each with the module of this room whose function of that name answers it."""

KEYS = (
    "catalog",
    "catalog_name",
    "namespace",
    "name",
    "target_namespace",
    "target_name",
    "cascade",
    "purge",
    "version",
    "timestamp",
    "writes",
    "columns",
    "partitions",
    "constraints",
    "properties",
    "removed",
    "changes",
    "mode",
    "case_sensitive",
    "uri",
    "rows",
    "bytes",
    "options",
    "metadata_columns",
    "primary_key",
    "read_only",
    "declared",
    "conditions",
    "predicate",
    "procedure",
    "parameters",
    "arguments",
    "result",
    "comment",
    "records",
    "job",
    "command",
    "query",
    "tasks",
    "python_version",
    "results",
    "place",
    "indexed",
    "overwrites",
    "messages",
    "writer",
)
"""Names inside questions and answers."""

CHANGES = (
    "set_property",
    "remove_property",
    "add_column",
    "drop_column",
    "rename_column",
    "retype_column",
    "set_nullable",
    "set_comment",
    "move_column",
    "set_default",
    "add_constraint",
    "drop_constraint",
)
"""What ``alter_table`` is asked to do; each is a list that begins with one of these."""

MODES = CREATE, REPLACE, CREATE_OR_REPLACE = ("create", "replace", "create_or_replace")
"""What a new table does to one that is there."""

NAMESPACE_NOT_FOUND = "namespace_not_found"
NAMESPACE_EXISTS = "namespace_exists"
NAMESPACE_NOT_EMPTY = "namespace_not_empty"
TABLE_NOT_FOUND = "table_not_found"
TABLE_EXISTS = "table_exists"
INVALID = "invalid"
UNSUPPORTED = "unsupported"
FAILED = "failed"
KINDS = (
    NAMESPACE_NOT_FOUND,
    NAMESPACE_EXISTS,
    NAMESPACE_NOT_EMPTY,
    TABLE_NOT_FOUND,
    TABLE_EXISTS,
    INVALID,
    UNSUPPORTED,
    FAILED,
)
"""Kinds of refusals; Java makes Spark's own errors of them."""

_OF_ERRORS: tuple[tuple[type[Exception], str], ...] = (
    (errors.TableNotFound, TABLE_NOT_FOUND),
    (errors.TableExists, TABLE_EXISTS),
    (errors.NotSupported, UNSUPPORTED),
    (errors.InvalidInput, INVALID),
    (errors.NotFound, INVALID),
    (errors.RefConflict, INVALID),
    (errors.LanceletError, FAILED),
)
_OF_CODES = {0: UNSUPPORTED, 1: NAMESPACE_NOT_FOUND, 2: NAMESPACE_EXISTS, 3: NAMESPACE_NOT_EMPTY, 4: TABLE_NOT_FOUND}
_OF_CODES |= {5: TABLE_EXISTS, 6: INVALID, 7: INVALID, 8: INVALID, 9: INVALID, 11: INVALID, 12: INVALID, 13: INVALID}
_OF_CODES |= {20: INVALID, 22: INVALID, 23: INVALID}


class OtherTableNotFound(errors.TableNotFound):
    """There is no table of these names, which is not the one that a question is about."""

    def __init__(self, *names: str) -> None:
        super().__init__(".".join(names))
        self.names = names

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), self.names


Handler = Callable[[Mapping[str, Any]], Any]


def handler(question: str) -> Handler:
    """The function that answers a question."""
    # Threads that import what imports each other would see modules that are only half there.
    with _ONE_AT_A_TIME:
        found: Handler = getattr(import_module(f"{_ROOM}.{ASKS[question]}"), question)
    return found


def kind_of(error: Exception) -> str | None:
    """The kind of an error that is meant for users; None for a mistake of ours."""
    code = getattr(error, "code", None)
    if type(error).__module__.startswith("lance_namespace") and code is not None:
        return _OF_CODES.get(int(code), FAILED)
    return next((kind for known, kind in _OF_ERRORS if isinstance(error, known)), None)
