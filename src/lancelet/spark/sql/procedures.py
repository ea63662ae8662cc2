"""What ``CALL catalog.system.name(...)`` runs, and with it all statements that Spark does not have.

Each procedure is about a table, its first parameter. Java reads ``OPTIMIZE t`` as ``CALL system.optimize(table => 't')``, so
that a statement and its procedure cannot differ.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from lancelet.errors import InvalidInput
from lancelet.spark.sql import jobs
from lancelet.spark.sql.catalog import Table

_ROOM = "lancelet.spark.sql"
_TABLE = ("table", "string", None)
_VERSION = ("version", "string", "NULL")
_TIMESTAMP = ("timestamp", "timestamp", "NULL")
_OPTIONS = ("options", "map<string,string>", "NULL")
_IF_EXISTS = ("if_exists", "boolean", "false")
_IF_NOT_EXISTS = ("if_not_exists", "boolean", "false")
_OR_REPLACE = ("or_replace", "boolean", "false")
_RESTORED = (
    "table_size_after_restore bigint, num_of_files_after_restore bigint, num_removed_files bigint, "
    "num_restored_files bigint, removed_files_size bigint, restored_files_size bigint"
)
_REFERENCE = (("version", "bigint", "NULL"), ("from_branch", "string", "NULL"), ("from_tag", "string", "NULL"))
_COLUMNS = (("columns", "array<string>", None), ("source_rows", "string", None))

Parameter = tuple[str, str, str | None]
"""Its name, its type, and its default in SQL; None: it must be given."""


@dataclass(frozen=True, slots=True)
class Procedure:
    """A procedure, as Java declares it to Spark."""

    answer: str
    """Module and function that do it: ``f(table, arguments, spark)`` returns rows."""
    parameters: tuple[Parameter, ...]
    result: str
    """Columns of the rows."""
    comment: str
    writes: bool = False
    """Whether rows may be others afterwards, or elsewhere."""


def _procedure(
    answer: str, parameters: tuple[Parameter, ...], result: str, comment: str, *, writes: bool = False
) -> Procedure:
    return Procedure(answer, (_TABLE, *parameters), result, comment, writes)


_OPTIMIZE = _procedure(
    "upkeep.optimize",
    (_OPTIONS, ("where", "string", "NULL")),
    "fragments_removed bigint, fragments_added bigint, files_removed bigint, files_added bigint",
    "put small and worn fragments together",
    writes=True,
)
_VACUUM = _procedure(
    "upkeep.vacuum",
    (("retain_hours", "double", "NULL"), ("dry_run", "boolean", "false"), _OPTIONS),
    "bytes_removed bigint, old_versions bigint",
    "remove old versions, and files that only they needed",
)
_RESTORE = _procedure(
    "history.restore", (_VERSION, _TIMESTAMP), _RESTORED, "make an older version the newest again", writes=True
)

PROCEDURES = {
    "history": _procedure("history.history", (("limit", "int", "NULL"),), "@history", "how the versions came about"),
    "detail": _procedure("history.detail", (), "@detail", "what the newest version is like"),
    "optimize": _OPTIMIZE,
    "compact": _OPTIMIZE,
    "rewrite_data_files": _OPTIMIZE,
    "vacuum": _VACUUM,
    "cleanup": _VACUUM,
    "expire_snapshots": _procedure(
        "upkeep.expire_snapshots",
        (("older_than", "timestamp", "NULL"), ("retain_last", "int", "NULL")),
        _VACUUM.result,
        "remove versions that are older than a time, but for so many",
    ),
    "create_index": _procedure(
        "index_statements.create_index",
        (
            ("columns", "array<string>", None),
            ("method", "string", "'btree'"),
            ("name", "string", "NULL"),
            _OPTIONS,
            _IF_NOT_EXISTS,
        ),
        "fragments_indexed bigint, index_name string",
        "build an index",
    ),
    "drop_index": _procedure(
        "index_statements.drop_index",
        (("name", "string", None), _IF_EXISTS),
        "index_name string, status string",
        "remove an index",
    ),
    "optimize_index": _procedure(
        "index_statements.optimize_index",
        (("name", "string", "NULL"), _OPTIONS),
        "index_name string, fragments_indexed bigint, segments_before bigint, segments_after bigint",
        "extend an index, or all, by new rows, and merge segments",
    ),
    "refresh_index": _procedure(
        "index_statements.refresh_index",
        (("name", "string", None), _OPTIONS),
        "fragments_indexed bigint, segments_added bigint, index_name string",
        "add a segment for the fragments that an index does not know",
    ),
    "show_indexes": _procedure(
        "index_statements.show_indexes",
        (),
        "name string, fields array<string>, index_type string, num_indexed_fragments bigint, num_indexed_rows bigint, "
        "num_unindexed_fragments bigint, num_unindexed_rows bigint, num_segments bigint, size_bytes bigint",
        "all indices",
    ),
    "create_branch": _procedure(
        "references.create_branch",
        (("name", "string", None), *_REFERENCE, _IF_NOT_EXISTS, _OR_REPLACE),
        "name string not null",
        "begin a line of versions of its own",
    ),
    "create_tag": _procedure(
        "references.create_tag",
        (("name", "string", None), *_REFERENCE, _IF_NOT_EXISTS, _OR_REPLACE),
        "name string not null",
        "give a version a name",
    ),
    "drop_branch": _procedure(
        "references.drop_branch", (("name", "string", None), _IF_EXISTS), "name string not null", "remove a branch"
    ),
    "drop_tag": _procedure(
        "references.drop_tag", (("name", "string", None), _IF_EXISTS), "name string not null", "remove a tag"
    ),
    "show_branches": _procedure(
        "references.show_branches",
        (),
        "name string not null, parent_branch string, parent_version bigint not null, created_at bigint not null, "
        "manifest_size int not null",
        "all branches but the main one",
    ),
    "show_tags": _procedure(
        "references.show_tags",
        (),
        "name string not null, branch string, version bigint not null, created_at bigint, updated_at bigint, "
        "manifest_size int not null",
        "all tags",
    ),
    "restore": _RESTORE,
    "rollback_to_version": _RESTORE,
    "rollback_to_snapshot": _RESTORE,
    "set_current_version": _RESTORE,
    "rollback_to_timestamp": _procedure(
        "history.restore", (_TIMESTAMP, _VERSION), _RESTORED, _RESTORE.comment, writes=True
    ),
    "clone": _procedure(
        "references.clone",
        (
            ("source", "string", None),
            ("shallow", "boolean", "true"),
            _VERSION,
            _TIMESTAMP,
            ("location", "string", "NULL"),
            _IF_NOT_EXISTS,
            _OR_REPLACE,
        ),
        "source_table_size bigint, source_num_of_files bigint, num_copied_files bigint, copied_files_size bigint",
        "make a table of a version of another one",
        writes=True,
    ),
    "register_table": _procedure(
        "references.register_table",
        (("location", "string", None),),
        "version bigint",
        "give a table that is there a name",
    ),
    "add_columns": _procedure(
        "column_statements.add_columns",
        _COLUMNS,
        "num_rows bigint",
        "add columns with the values of a query",
        writes=True,
    ),
    "update_columns": _procedure(
        "column_statements.update_columns",
        _COLUMNS,
        "num_rows bigint",
        "give columns the values of a query",
        writes=True,
    ),
    "set_primary_key": _procedure(
        "references.set_primary_key",
        (("columns", "array<string>", None),),
        "primary_key array<string>",
        "declare the primary key, which is not enforced",
    ),
}

_FROM_FILES = "CREATE TABLE t AS SELECT * FROM parquet.`path` makes a table of files"
_FROM_BRANCH = (
    "a branch has its files to itself, so that main cannot go on from one of its versions; INSERT OVERWRITE t SELECT * FROM "
    "t.branch_x gives a table the rows of a branch, and table_changes('t.branch_x', a, b) tells what its versions did"
)
_INSTEAD = {
    "add_files": _FROM_FILES,
    "analyze": "the planner knows rows and sizes without it, and the ends of columns that have a ZONEMAP index",
    "cherrypick_snapshot": _FROM_BRANCH,
    "compute_table_stats": "the planner knows rows and sizes without it, and the ends of columns that have a ZONEMAP index",
    "create_changelog_view": "table_changes('t', a, b) tells what versions did",
    "fast_forward": _FROM_BRANCH,
    "migrate": _FROM_FILES,
    "publish_changes": _FROM_BRANCH,
    "remove_orphan_files": "vacuum removes files that no version needs, too",
    "rewrite_manifests": "a version has one manifest only",
    "rewrite_position_delete_files": "optimize takes deleted rows out of the files",
    "snapshot": "clone makes a table of a version of another one",
}
"""Procedures of other formats, and what there is here."""


def list_procedures(_: Mapping[str, Any]) -> list[str]:
    """Names of all procedures."""
    return sorted(PROCEDURES)


def load_procedure(details: Mapping[str, Any]) -> dict[str, Any]:
    """How a procedure is declared."""
    found = _named(details["procedure"])
    return {
        "parameters": found.parameters,
        "result": _columns(found),
        "comment": found.comment,
        "writes": found.writes,
    }


def call_procedure(details: Mapping[str, Any]) -> dict[str, Any]:
    """Run a procedure to its end, or to the first job that it needs; see :mod:`lancelet.spark.sql.jobs`."""
    module, function = _named(details["procedure"]).answer.split(".")
    answer = getattr(import_module(f"{_ROOM}.{module}"), function)
    table, arguments = Table.of(details), details["arguments"]
    return jobs.start(lambda spark: [_plain(row) for row in answer(table, arguments, spark)])


def _named(name: str) -> Procedure:
    found = PROCEDURES.get(name.lower())
    if found is None:
        known = ", ".join(sorted(PROCEDURES))
        instead = _INSTEAD.get(name.lower())
        raise InvalidInput(
            f"there is no procedure {name}{'' if instead is None else ': ' + instead}; there are {known}"
        )
    return found


def _columns(procedure: Procedure) -> str:
    if not procedure.result.startswith("@"):
        return procedure.result
    from lancelet.spark.table.history import DETAIL, HISTORY

    return {"@history": HISTORY, "@detail": DETAIL}[procedure.result]


def _plain(row: Any) -> list[Any]:
    from lancelet.spark.sql.metadata import plain

    return [plain(value) for value in row]
