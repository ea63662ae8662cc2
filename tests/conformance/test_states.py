"""After any history of changes a table reads as pylance reads it: rows, ids, addresses, lineage, every version."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lancelet
from conformance.agree import agree, same_schema
from conformance.grid import VERSIONS
from conformance.states import FROM_2_0, STATES
from lancelet.testing import assert_identical

# Every state with the newest files, with and without stable row ids; the older versions share them out.
CELLS = [
    pytest.param(
        name,
        version,
        stable,
        id=f"{name}-{version}{'-stable' if stable else ''}",
        marks=[] if version == "2.2" or VERSIONS[row % 3] == version else [pytest.mark.soak],
    )
    for row, name in enumerate(STATES)
    for version in VERSIONS
    for stable in (False, True)
    if (version > "0.1" or name not in FROM_2_0) and (version in ("0.1", "2.2") or not stable)
]
LINEAGE = ["_row_created_at_version", "_row_last_updated_at_version"]


@pytest.mark.spread(0.4)
@pytest.mark.parametrize(("name", "version", "stable"), CELLS)
def test_reads_as_pylance(tmp_path: Path, name: str, version: str, stable: bool) -> None:
    where = tmp_path / "t"
    STATES[name](where, {"data_storage_version": version, "enable_stable_row_ids": stable})
    ours, theirs = lancelet.dataset(where), lance.dataset(where)

    assert ours.version == theirs.version
    same_schema(ours.schema, theirs.schema)
    assert ours.count_rows() == theirs.count_rows()
    agree(ours, theirs, lambda ds: ds.to_table())
    agree(ours, theirs, lambda ds: ds.to_table(with_row_id=True, with_row_address=True))
    if theirs.count_rows():
        agree(ours, theirs, lambda ds: ds.to_table(["k", "_rowoffset", "_rowid", "_rowaddr"]))
    if stable:
        agree(ours, theirs, lambda ds: ds.to_table([*theirs.schema.names, *LINEAGE]))
    _fragments_agree(ours, theirs)
    _rows_agree(ours, theirs)
    for number in [entry["version"] for entry in theirs.versions()]:
        old = lance.dataset(where, version=number)
        agree(lancelet.dataset(where, version=number), old, lambda ds: ds.to_table(with_row_id=True))
        assert ours.checkout_version(number).count_rows() == old.count_rows()


def _rows_agree(ours: Any, theirs: Any) -> None:
    """Parts of the table: slices, takes, filters, nested columns."""
    whole = theirs.to_table()
    for offset, limit in [(0, 5), (whole.num_rows // 2, 250), (whole.num_rows, 5)]:
        assert_identical(ours.to_table(offset=offset, limit=limit), whole.slice(offset, limit))
    if whole.num_rows == 0:
        return
    rng = random.Random(1)
    rows = [rng.randrange(whole.num_rows) for _ in range(40)] + [0, whole.num_rows - 1]
    # Not pylance's own take, which drops the schema's metadata when the rows lie in several fragments.
    assert_identical(ours.take(rows), whole.take(rows))
    names = whole.column_names[::-2]
    assert_identical(ours.take(sorted(set(rows)), names), whole.take(sorted(set(rows))).select(names))
    if pa.types.is_integer(whole.schema.field("k").type):
        for text in ("k % 3 = 1", "k > 190 and k < 210", "k is null", "k < 0"):
            agree(ours, theirs, lambda ds, text=text: ds.to_table(filter=text, with_row_id=True))
            assert ours.count_rows(text) == theirs.count_rows(text)
    nested = [name for name in ("p.x", "p.deep.z", "point.deeper.y") if _has(whole.schema, name)]
    for columns in ([name] for name in nested):
        agree(ours, theirs, lambda ds, columns=columns: ds.to_table(columns))


def _has(schema: pa.Schema, path: str) -> bool:
    first, *rest = path.split(".")
    if first not in schema.names:
        return False
    kind = schema.field(first).type
    for name in rest:
        if kind.get_field_index(name) < 0:
            return False
        kind = kind.field(name).type
    return True


def _fragments_agree(ours: Any, theirs: Any) -> None:
    pairs = list(zip(ours.get_fragments(), theirs.get_fragments(), strict=True))
    for mine, other in pairs:
        assert mine.fragment_id == other.fragment_id
        assert mine.physical_rows == other.physical_rows
        assert mine.num_deletions == other.num_deletions
        assert mine.count_rows() == other.count_rows()
    for mine, other in pairs[:1] + pairs[-1:]:
        assert mine.schema.equals(other.schema)
        assert_identical(mine.to_table(with_row_id=True), other.to_table(with_row_id=True))
        taken = [0, other.count_rows() - 1]
        assert_identical(mine.take(taken), other.take(taken))
