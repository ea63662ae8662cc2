"""Names that stand on both sides of the bridge: here, and in the Java sources below ``jvm/``.

Spark does not distinguish the case of options; they come to Python in small letters.
"""

from __future__ import annotations

ASKED = "lance.bridge"
"""The bridge wants to know the columns of a table, and the facts about it: one of the three below."""
SCHEMA, CREATE, NAMED_SCHEMA = ASKS = ("schema", "create", "named")
"""Of a table that is read; of a new one; of one that Spark's catalog has, which may not be written yet."""
ESTIMATE = "estimate"
"""Instead of columns: how much a scan with these options reads, and what is known of it without reading."""
REQUESTED = "lance.requested"
"""Columns that the user or the catalog gives, as JSON."""
CASE_SENSITIVE = "lance.casesensitive"
"""With all options: whether the session distinguishes names by case."""
NAMED = "lance.named"
"""With the options that Spark's catalog keeps for a table, both for reads and for writes."""
URI = "lance.uri"
VERSION = "lance.version"
PREDICATES = "lance.predicates"
LIMIT = "lance.limit"
OFFSET = "lance.offset"
"""Rows that are passed over; with it, LIMIT is exact: the tasks together give the first rows of the table."""
ORDER = "lance.order"
"""With LIMIT: the first rows of each task in an order, ``[[path, ascending, nulls first], ...]`` as JSON."""
SAMPLE = "lance.sample"
"""Rows by chance: ``lower,upper,seed``."""
RUNTIME = "lance.runtime"
"""As PREDICATES: what the other side of a join has; rows for which it is not true need not be given."""
AGGREGATES = "lance.aggregates"
"""With ESTIMATE: what is to be told of the rows, ``[["count"], ["min", column], ...]`` as JSON."""
NEAREST = "lance.nearest"
"""Only the rows whose vectors are nearest to one, as :class:`lancelet.spark.search.nearest_rows.NearestRows` reads it."""
NEAREST_SHOWN = "lance.nearestshown"
PARALLELISM = "lance.parallelism"
"""Tasks that the cluster runs at the same time."""
REPLACED = "lance.replaced"
"""With a write to a table of a catalog: conditions, as PREDICATES; rows for which they are true go when the new ones come."""
ROWS = "lance.rows"
"""With changes of a table's rows, at the version VERSION: what is done with them, as JSON."""
CHANGES = "lance.changes"
"""From Python to Python: of a read that gives what changed, which versions are meant."""
OF_SCANS = (PREDICATES, LIMIT, OFFSET, ORDER, SAMPLE, RUNTIME, AGGREGATES, NEAREST, NEAREST_SHOWN, PARALLELISM)
OPTIONS = (ASKED, REQUESTED, CASE_SENSITIVE, NAMED, URI, VERSION, *OF_SCANS, REPLACED, ROWS)

KEEPS_COLUMNS = "lance.keepscolumns"
"""From Python to Python: who overwrites a table of a catalog gives it new rows, not new columns."""
DEFINITION = "lance.definition"
"""From Python to Python: what a table is to be that a query makes."""
DEFINITION_MODE = "lance.definitionmode"
"""With it: whether the table is new (``create``) or replaces one (``overwrite``)."""

LANCE_TYPE = "lance.type"
"""In the metadata of a Spark field: the Lance type that it has no type for."""

FACTS = ("uri", "version", "rows", "bytes", "indexed", "pushes")
"""In the metadata of the field that follows the columns."""
