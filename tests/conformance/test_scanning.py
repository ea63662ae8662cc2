"""The scanner's options: columns in all their forms, order, batches, system columns, fragments."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lancelet
from conformance.agree import agree
from conformance.states import create
from lancelet.testing import assert_identical

OPTIONS: dict[str, Any] = {"data_storage_version": "2.2"}


@pytest.fixture(scope="module")
def where(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("scanning") / "t"
    create(path, OPTIONS).delete("k % 9 = 5")
    return path


@pytest.mark.parametrize(
    "columns",
    [
        None,
        [],
        ["k"],
        ["v", "k"],
        ["p"],
        ["p.x"],
        ["p.deep"],
        ["p.deep.y", "k", "p.x"],
        ["_rowid"],
        ["k", "_rowaddr"],
        ["_rowoffset", "s"],
        {"twice": "k * 2", "shout": "upper(s)"},
        {"x": "p.x", "z": "p.deep.z"},
        {"same": "low", "id": "_rowid"},
    ],
    ids=str,
)
def test_columns(where: Path, columns: Any) -> None:
    ours, theirs = lancelet.dataset(where), lance.dataset(where)
    for extra in ({}, {"with_row_id": True}, {"with_row_address": True}, {"limit": 7, "offset": 195}):
        agree(ours, theirs, lambda ds, extra=extra: ds.to_table(columns, **extra))
    agree(ours, theirs, lambda ds: ds.to_table(columns, filter="i > 0 and s is not null"))
    assert ours.scanner(columns).projected_schema.equals(theirs.scanner(columns).projected_schema)


@pytest.mark.parametrize("order", [["k"], ["low", "k"], ["i", "k"], ["f", "k"]], ids=",".join)
def test_order_by_names(where: Path, order: list[str]) -> None:
    """The key ``k`` comes last, so that no two rows tie: pylance does not say what it does with ties."""
    agree(lancelet.dataset(where), lance.dataset(where), lambda ds: ds.to_table(["v", *order], order_by=order))


def test_order_with_limit_and_filter(where: Path) -> None:
    agree(
        lancelet.dataset(where),
        lance.dataset(where),
        lambda ds: ds.to_table(["i", "k"], order_by=["i", "k"], filter="k > 30 and i is not null", limit=20, offset=3),
    )


@pytest.mark.parametrize("size", [1, 7, 64, 100_000])
def test_batches_are_no_larger_than_asked(where: Path, size: int) -> None:
    ours = lancelet.dataset(where)
    batches = list(ours.to_batches(["k", "s"], batch_size=size))
    assert all(0 < batch.num_rows <= size for batch in batches)
    assert pa.Table.from_batches(batches).equals(lance.dataset(where).to_table(["k", "s"]))


def test_unordered_scan_holds_the_same_rows(where: Path) -> None:
    ours = lancelet.dataset(where).to_table(scan_in_order=False)
    assert_identical(ours.sort_by("k"), lance.dataset(where).to_table().sort_by("k"))


@pytest.mark.parametrize(
    "condition",
    [
        "k = 17",
        "k in (1, 2, 3, 598)",
        "not (k > 5)",
        "s is null and i is not null",
        "s like 'a%'",
        "p.x > 0 or p.deep.z < 0",
        "f > 0.5",
        "_rowid < 20",
        pc.field("k") < 20,
        (pc.field("i") > 0) & pc.field("s").is_valid(),
    ],
    ids=str,
)
def test_filters(where: Path, condition: Any) -> None:
    ours, theirs = lancelet.dataset(where), lance.dataset(where)
    agree(ours, theirs, lambda ds: ds.to_table(filter=condition, with_row_id=True))
    agree(ours, theirs, lambda ds: ds.to_table(["v"], filter=condition))
    agree(ours, theirs, lambda ds: ds.to_table(["low"], filter=condition, limit=3, offset=1))
    assert ours.count_rows(condition) == theirs.count_rows(condition)
    assert ours.scanner(filter=condition).count_rows() == theirs.scanner(filter=condition).count_rows()


def test_deleted_rows_on_request(where: Path) -> None:
    agree(
        lancelet.dataset(where),
        lance.dataset(where),
        lambda ds: ds.to_table(include_deleted_rows=True, with_row_id=True),
    )


def test_some_fragments_only(where: Path) -> None:
    def ask(ds: Any) -> pa.Table:
        return ds.scanner(fragments=ds.get_fragments()[1:], filter="k % 2 = 0").to_table()

    agree(lancelet.dataset(where), lance.dataset(where), ask)


def test_head_and_sample(where: Path) -> None:
    ours, theirs = lancelet.dataset(where), lance.dataset(where)
    agree(ours, theirs, lambda ds: ds.head(11))
    agree(ours, theirs, lambda ds: ds.head(3, columns=["s"]))
    sample = ours.sample(50, columns=["k"])
    assert sample.num_rows == len(set(sample["k"].to_pylist())) == 50
    assert set(sample["k"].to_pylist()) <= set(theirs.to_table(["k"])["k"].to_pylist())


@pytest.mark.parametrize("indices", [[], [5], [532, 0, 3, 3], pa.array([1, 2, 300]), range(0, 500, 7)], ids=str)
def test_take(where: Path, indices: Any) -> None:
    ours, theirs = lancelet.dataset(where), lance.dataset(where)
    agree(ours, theirs, lambda ds: ds.take(indices))
    agree(ours, theirs, lambda ds: ds.take(indices, columns=["p", "k"]))
    agree(ours, theirs, lambda ds: ds.take(indices, columns={"twice": "k * 2"}))


def test_wide_table(tmp_path: Path) -> None:
    table = pa.table({f"c{number}": [number, None] for number in range(1500)})
    lance.write_dataset(table, tmp_path / "t")
    ours = lancelet.dataset(tmp_path / "t")
    assert ours.to_table(["c1499", "c0"]).to_pydict() == {"c1499": [1499, None], "c0": [0, None]}
    assert ours.to_table().equals(table)


@pytest.mark.parametrize("name", ["a b", "ünïcode", "UPPER", "a-b", "select", "1st"])
def test_awkward_names(tmp_path: Path, name: str) -> None:
    lance.write_dataset(pa.table({name: [1, 2, 3], "k": [4, 5, 6]}), tmp_path / "t")
    ours, theirs = lancelet.dataset(tmp_path / "t"), lance.dataset(tmp_path / "t")
    agree(ours, theirs, lambda ds: ds.to_table())
    agree(ours, theirs, lambda ds: ds.to_table(filter="k > 4"))
    agree(ours, theirs, lambda ds: ds.take([2, 0], ["k"]))
