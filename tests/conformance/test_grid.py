"""Every type, pattern, null share, size and file version: lancelet reads what pylance reads."""

from __future__ import annotations

import random
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lancelet
from conformance.agree import answers, rows_of, same_schema
from conformance.grid import FAMILIES, SIZES, VERSIONS, Size, altered, cells, columns, write
from lancelet.encoding.picking import keep_rows, pick_rows


@pytest.mark.spread(0.35)
@pytest.mark.parametrize(("family", "size", "version"), cells(FAMILIES, SIZES, VERSIONS))
def test_reads_as_pylance(tmp_path: Path, family: str, size: Size, version: str) -> None:
    table = columns(FAMILIES[family], version, size)
    theirs = write(table, tmp_path / "t", version, size)
    ours = lancelet.dataset(tmp_path / "t")

    same_schema(ours.schema, theirs.schema)
    assert ours.count_rows() == size.rows
    whole = theirs.to_table()
    if version >= "2.1":
        assert altered(FAMILIES[family], table, whole) == []
    answers(ours, lambda ds, names: ds.to_table(names), whole)
    addressed = theirs.to_table(with_row_id=True, with_row_address=True)
    answers(
        ours,
        lambda ds, names: ds.to_table(names, with_row_id=True, with_row_address=True),
        addressed,
        whole.column_names,
    )
    half = whole.column_names[::2][::-1]
    answers(ours, lambda ds, names: ds.to_table(names), whole.select(half))
    answers(ours, lambda ds, names: ds.scanner(names, batch_size=97).to_reader().read_all(), whole)
    for offset, limit in [(0, 1), (size.rows // 2, 10), (max(size.rows - 3, 0), 100), (size.rows + 5, 3)]:
        part = whole.slice(offset, limit)
        answers(ours, lambda ds, names, o=offset, n=limit: ds.to_table(names, offset=o, limit=n), part)
    for rows in _takes(size.rows):
        answers(ours, lambda ds, names, rows=rows: ds.take(rows, names), rows_of(whole, rows))


WIDE_SIZES = (
    Size("large", 20_000),
    Size("many_pages", 9000, batch=300, cache_bytes=1),
    Size("pages_and_fragments", 7000, batch=450, file_rows=2100, cache_bytes=1),
)
WIDE_CELLS = [
    pytest.param(family, size, version, stable, salt, id=f"{family}-{size.name}-{version}-{salt}{'-stable' * stable}")
    for family, kinds in FAMILIES.items()
    for size in WIDE_SIZES
    for version in VERSIONS
    for salt in "abc"
    for stable in (False, True)
    if any(kind.fits(version, size) for kind in kinds) and family != "struct_vectors"
]


UNREADABLE = ("Incorrect number of nulls for StructArray", "Dictionary key bigger than the key type")
"""What pylance says of some of its own columns in many pages, when rows are deleted in them."""


@pytest.mark.soak
@pytest.mark.parametrize(("family", "size", "version", "stable", "salt"), WIDE_CELLS)
def test_reads_as_pylance_after_changes(
    tmp_path: Path, family: str, size: Size, version: str, stable: bool, salt: str
) -> None:
    kinds = tuple(kind for kind in FAMILIES[family] if not kind.unwritten)
    table = columns(kinds, version, size, salt)
    table = table.add_column(0, "k", pa.array(range(size.rows), pa.int64()))
    dataset = write(table, tmp_path / "t", version, size, enable_stable_row_ids=stable)
    # pylance adds no column to files of 0.1 of which a whole group of rows is deleted.
    dataset.delete(f"k % 7 = 3 or (k > 1000 and k < {1200 if version == '0.1' else 1500})")
    dataset.add_columns({"twice": "k * 2"})
    dataset.drop_columns([table.column_names[1]])
    ours, theirs = lancelet.dataset(tmp_path / "t"), lance.dataset(tmp_path / "t")
    whole = _readable(theirs, table)
    answers(ours, lambda ds, names: ds.to_table(names), whole)
    numbered = whole.append_column("_rowid", theirs.to_table(["k"], with_row_id=True)["_rowid"])
    kept = keep_rows(numbered, pa.array(numbered["k"].to_numpy() % 5 == 1))
    answers(ours, lambda ds, names: ds.to_table(names, filter="k % 5 = 1", with_row_id=True), kept, whole.column_names)
    rows = whole.num_rows
    for offset, limit in [(990, 30), (rows // 2, 1100), (rows - 3, 100)]:
        part = whole.slice(offset, limit)
        answers(ours, lambda ds, names, o=offset, n=limit: ds.to_table(names, offset=o, limit=n), part)
    for picks in _takes(rows):
        answers(ours, lambda ds, names, picks=picks: ds.take(picks, names), rows_of(whole, picks))


def _readable(dataset: lance.LanceDataset, written: pa.Table) -> pa.Table:
    """All rows as pylance reads them; columns that it cannot read, though it wrote them, as they were written."""
    try:
        return dataset.to_table()
    except ValueError:
        live = dataset.to_table(["k"])["k"]
    columns = {}
    for name in dataset.schema.names:
        try:
            columns[name] = dataset.to_table([name])[name]
        except ValueError as error:
            assert any(text in str(error) for text in UNREADABLE), error
            columns[name] = pick_rows(written[name], live.combine_chunks())
    return pa.table(columns)


def _takes(rows: int) -> list[list[int]]:
    if rows == 0:
        return []
    rng = random.Random(rows)
    drawn = [rng.randrange(rows) for _ in range(60)]
    return [[rows - 1], sorted(set(drawn)), drawn, [*range(min(rows, 40))], [0, rows - 1, 0, rows // 2, rows // 2]]
