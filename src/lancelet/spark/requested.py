"""Columns that a reader is told to have, by ``spark.read.schema(...)`` or by Spark's catalog: they must be the table's.

They may be fewer, in another order, and wider: an int as bigint, a float as double. Spark's Parquet
reader takes the same, and gives nulls for a column that no file has; a Lance table
knows its columns, so that one it has not is a mistake.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import types as st

from lancelet.errors import UnfitData, UnknownColumn
from lancelet.spark.names import find_name
from lancelet.spark.types import is_wider

if TYPE_CHECKING:
    from collections.abc import Iterable


def check_requested(requested: st.StructType, own: st.StructType, *, case_sensitive: bool = False) -> None:
    """Refuse columns that a read cannot give; ``own`` are those of the table."""
    for field in requested:
        name = find_name(field.name, own.names, case_sensitive=case_sensitive)
        if name is None:
            raise UnknownColumn(field.name, own.names, "the table, but in the schema that was given for it")
        flaw = _flaw(field.dataType, own[name].dataType, name)
        if flaw is not None:
            raise UnfitData(
                f"{flaw}; leave the schema out, and cast the column after reading: "
                f'df.withColumn("{name}", df["{name}"].cast(...))'
            )


def _flaw(requested: st.DataType, own: st.DataType, path: str) -> str | None:
    if isinstance(requested, st.StructType) and isinstance(own, st.StructType):
        known = {field.name: field.dataType for field in own}
        missing = [field.name for field in requested if field.name not in known]
        if missing:
            return f"column '{path}' has no field '{missing[0]}' in the table; it has: {', '.join(known)}"
        return _first(_flaw(f.dataType, known[f.name], f"{path}.{f.name}") for f in requested)
    if isinstance(requested, st.ArrayType) and isinstance(own, st.ArrayType):
        return _flaw(requested.elementType, own.elementType, path)
    if isinstance(requested, st.MapType) and isinstance(own, st.MapType):
        return _first(
            (_flaw(requested.keyType, own.keyType, path), _flaw(requested.valueType, own.valueType, path)),
        )
    if is_wider(own, requested):
        return None
    return (
        f"column '{path}' is {own.simpleString()} in the table, not {requested.simpleString()} as the given schema says"
    )


def _first(flaws: Iterable[str | None]) -> str | None:
    return next((flaw for flaw in flaws if flaw is not None), None)


def own_names(requested: st.StructType, names: Iterable[str]) -> tuple[str, ...]:
    """The table's names of the columns that are asked for."""
    known = list(names)
    return tuple(find_name(name, known) or name for name in requested.names)
