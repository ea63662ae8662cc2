"""Names of columns as Spark looks them up: as they are, or else in any case, unless the session distinguishes case."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from lancelet.errors import InvalidInput, UnknownColumn
from lancelet.format.schema import join_path, split_path
from lancelet.spark.bridge import CASE_SENSITIVE
from lancelet.spark.options import flag

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lancelet.format.schema import Schema

_SETTING = "spark.sql.caseSensitive"


def is_case_sensitive(spark: SparkSession) -> bool:
    """Whether a session distinguishes names by their case."""
    return str(spark.conf.get(_SETTING, "false")).lower() == "true"


def distinguishes_case(options: Mapping[str, str]) -> bool:
    """Whether the session that a data source works for distinguishes names by case; without the bridge nobody knows."""
    return flag(options, CASE_SENSITIVE)


def find_name(name: str, names: Iterable[str], *, case_sensitive: bool = False) -> str | None:
    """The one of some names that is meant, if any.

    Examples
    --------
    >>> find_name("key", ["Key", "value"])
    'Key'
    >>> find_name("key", ["Key", "key"])
    'key'
    """
    known = list(names)
    if name in known:
        return name
    alike = [] if case_sensitive else [other for other in known if other.lower() == name.lower()]
    if len(alike) > 1:
        raise InvalidInput(
            f"'{name}' may be {' or '.join(map(repr, alike))}; write it as it is, or set {_SETTING} to true"
        )
    return alike[0] if alike else None


def column_named(text: object, schema: Schema, *, case_sensitive: bool) -> str:
    """The column of a table that a text names, as users of Spark write it: perhaps in backticks."""
    if not isinstance(text, str):
        raise InvalidInput(f"a column is called by its name, a text, not by {text!r}")
    steps = split_path(text)
    found = find_name(text, schema.names, case_sensitive=case_sensitive)
    if found is None:
        found = find_name(steps[0], schema.names, case_sensitive=case_sensitive)
        if found is not None and len(steps) > 1:
            raise InvalidInput(f"'{text}' is a field of a struct; give the column its whole value, with named_struct")
    if found is None:
        raise UnknownColumn(text if len(steps) > 1 else steps[0], schema.names, "the table")
    return found


def path_named(text: str, schema: Schema, *, case_sensitive: bool) -> str:
    """The same for a column or a field of structs; what is not there stays as it is."""
    first, *rest = split_path(text)
    found = find_name(first, schema.names, case_sensitive=case_sensitive)
    return text if found is None else join_path([found, *rest])
