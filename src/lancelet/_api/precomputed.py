"""Partitions and codes that users worked out before a build: tables with a row for each vector."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from typing import Any, Final

import numpy as np
import pyarrow as pa

from lancelet._api.opening import open_table
from lancelet.errors import InvalidInput, InvalidType
from lancelet.execution.plan import ScanPlan
from lancelet.execution.scan import Scan
from lancelet.execution.table_reader import TableReader
from lancelet.expressions.expr import Column
from lancelet.file import FileCache
from lancelet.index.vector.precomputed import Precomputed

_ROW: Final = "row_id"
_PARTITION: Final = "partition"
_CODED_PARTITION: Final = "__ivf_part_id"
_CODE: Final = "__pq_code"
_TABLES: Final = ("precomputed_partition_dataset", "precomputed_partitions_file")
_BUFFERS: Final = ("precomputed_shuffle_buffers", "precomputed_shuffle_buffers_path")


def precomputed_entries(options: MutableMapping[str, Any], storage: Mapping[str, str] | None) -> Precomputed | None:
    """What options name of the kind, which are taken out of them; None where there is nothing."""
    tables = [str(table) for name in _TABLES if (table := options.pop(name, None)) is not None]
    buffers, folder = (options.pop(name, None) for name in _BUFFERS)
    if (buffers is None) != (folder is None):
        raise InvalidInput(f"{_BUFFERS[0]} and {_BUFFERS[1]} must be specified together.")
    if folder is not None:
        tables.append(str(folder).rstrip("/").removesuffix("/data"))
    if not tables:
        return None
    if len(tables) > 1:
        raise InvalidInput("partitions are given as a table, or as shuffle buffers, not in two ways")
    if folder is not None:
        rows, partitions, codes = _columns(tables[0], (_ROW, _CODED_PARTITION, _CODE), storage)
        return Precomputed.of(rows, partitions, codes)
    rows, partitions = _columns(tables[0], (_ROW, _PARTITION), storage, whole=True)
    return Precomputed.of(rows, partitions)


def _columns(
    uri: str, names: tuple[str, ...], storage: Mapping[str, str] | None, *, whole: bool = False
) -> list[np.ndarray[Any, Any]]:
    """Columns of a table, without nulls, as arrays."""
    table = TableReader(open_table(uri, None, None, storage), FileCache())
    schema = table.snapshot.manifest.schema
    if whole and (fragments := len(table.snapshot.manifest.fragments)) != 1:
        raise InvalidInput(f"precomputed_partition_dataset must have only one fragment, and {uri} has {fragments}")
    types = {_ROW: pa.uint64(), _PARTITION: pa.uint32(), _CODED_PARTITION: pa.uint32()}
    present = {field.name: field.arrow_field.type for field in schema.fields}
    for name in names:
        if name not in present:
            raise InvalidInput(f"{uri} has no column {name!r}; it needs {', '.join(names)}")
        fits = present[name] == types[name] if name in types else pa.types.is_fixed_size_list(present[name])
        if not fits or (name == _CODE and present[name].value_type != pa.uint8()):
            wanted = types.get(name, "a list of bytes of a fixed size")
            raise InvalidType(f"column {name!r} of {uri} is {present[name]}, and must be {wanted}")
    plan = ScanPlan(schema, tuple((name, Column((name,), present[name])) for name in names))
    batches = [batch for batch in Scan(table, plan).batches() if batch.num_rows]
    found: list[np.ndarray[Any, Any]] = []
    for number, name in enumerate(names):
        parts = [batch.column(number) for batch in batches]
        if any(part.null_count for part in parts):
            raise InvalidInput(f"column {name!r} of {uri} has nulls; leave rows out of it whose partition is not known")
        width = present[name].list_size if name == _CODE else 0
        flat = [np.asarray((part.flatten() if width else part).to_numpy(zero_copy_only=False)) for part in parts]
        dtype = np.dtype(np.uint8) if width else np.dtype(types[name].to_pandas_dtype())
        whole_column = np.concatenate(flat) if flat else np.empty(0, dtype)
        found.append(whole_column.reshape(-1, width) if width else whole_column)
    return found
