"""A check opens every index, and a deep one asks it: whatever is wrong in it is found, and the file named."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from pyroaring import BitMap

import lancelet
from lancelet.format.proto import table_pb2
from lancelet.maintenance.validation.report import VerifyReport

ROWS = 300
KINDS = {
    "BTREE": ("k", {"zone_size": 64}),
    "BTREE of texts": ("s", {}),
    "BITMAP": ("c", {}),
    "LABEL_LIST": ("l", {}),
    "ZONEMAP": ("f", {"rows_per_zone": 30}),
    "BLOOMFILTER": ("c", {"number_of_items": 60, "probability": 0.05}),
    "NGRAM": ("s", {}),
}


def rows(shift: int = 0) -> pa.Table:
    numbers = range(shift, shift + ROWS)
    special = [float("nan"), -0.0, 0.0, float("inf")]
    return pa.table(
        {
            "k": pa.array([None if n % 17 == 5 else n for n in numbers], pa.int64()),
            "s": [None if n % 13 == 4 else f"row {n} Grüße" if n % 7 == 1 else f"row {n}" for n in numbers],
            "c": pa.array([None if n % 9 == 2 else n % 20 for n in numbers], pa.int32()),
            "f": [None if n % 8 == 3 else special[n % 4] if n % 5 == 0 else n / 3 for n in numbers],
            "l": [None if n % 11 == 3 else ["a", "b", None, "c", "a"][: n % 6] for n in numbers],
        }
    )


def indexed(where: Path, kind: str, engine: object = lancelet, *, shift: int = 0, stable: bool = False) -> Path:
    lance.write_dataset(rows(shift), where, max_rows_per_file=120, enable_stable_row_ids=stable)
    column, options = KINDS[kind]
    engine.dataset(where).create_scalar_index(column, kind.split()[0], **options)  # type: ignore[attr-defined]
    return where


def deep(where: Path) -> VerifyReport:
    return lancelet.dataset(where).verify(deep=True)


def edit_indices(where: Path, change: Callable[[table_pb2.IndexMetadata], object]) -> None:
    """Change the entries of indices in the newest manifest, whose section is written anew with the same length."""
    version = lance.dataset(where).version
    path = where / "_versions" / f"{2**64 - 1 - version}.manifest"
    data = bytearray(path.read_bytes())
    position = int.from_bytes(data[-16:-8], "little")
    length = int.from_bytes(data[position : position + 4], "little")
    manifest = table_pb2.Manifest.FromString(bytes(data[position + 4 : position + 4 + length]))
    at = manifest.index_section
    size = int.from_bytes(data[at : at + 4], "little")
    section = table_pb2.IndexSection.FromString(bytes(data[at + 4 : at + 4 + size]))
    for entry in section.indices:
        change(entry)
    new = section.SerializeToString()
    manifest.index_section = len(data[: position + 4 + length])
    head = bytes(data[: position + 4 + length]) + len(new).to_bytes(4, "little") + new
    message = manifest.SerializeToString()
    tail = len(head).to_bytes(8, "little") + bytes(data[-8:])
    path.write_bytes(head + len(message).to_bytes(4, "little") + message + tail)


@pytest.mark.spread(0.3)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("engine", "stable"), [(lancelet, False), (lancelet, True), (lance, False)], ids=["ours", "ours, stable", "pylance"]
)
def test_sound_indices_stay_sound_through_changes(tmp_path: Path, kind: str, engine: object, stable: bool) -> None:
    where = indexed(tmp_path / "t", kind, engine, stable=stable)
    assert deep(where).findings == (), str(deep(where))
    dataset = lancelet.dataset(where)
    dataset.delete("k % 10 = 3")
    dataset.update({"c": "c + 1"}, where="k % 10 = 4")
    lancelet.write_dataset(rows(1000), where, mode="append")
    assert deep(where).ok, str(deep(where))
    engine.dataset(where).optimize.optimize_indices()  # type: ignore[attr-defined]
    assert deep(where).ok, str(deep(where))
    lancelet.dataset(where).optimize.compact_files(target_rows_per_fragment=10_000, defer_index_remap=not stable)
    assert deep(where).ok, str(deep(where))


@pytest.mark.parametrize("kind", KINDS)
def test_damaged_files_are_named(tmp_path: Path, kind: str) -> None:
    where = indexed(tmp_path / "t", kind)
    for file in sorted((where / "_indices").rglob("*.lance")):
        intact = file.read_bytes()
        for damaged in (os.urandom(len(intact)), intact[: len(intact) // 2], b"", bytes(len(intact))):
            file.write_bytes(damaged)
            report = lancelet.dataset(where).verify()
            assert [finding.place for finding in report.errors] == [str(file)], str(report)
            assert "index" in report.errors[0].problem
        file.write_bytes(intact)
    assert deep(where).ok


@pytest.mark.parametrize("kind", KINDS)
def test_files_of_another_index_are_found(tmp_path: Path, kind: str) -> None:
    """The same kind over other rows: every file is in order, and the answers are wrong."""
    where, other = indexed(tmp_path / "t", kind), indexed(tmp_path / "o", kind, shift=7)
    folder, foreign = (next((place / "_indices").iterdir()) for place in (where, other))
    for file in foreign.iterdir():
        shutil.copy(file, folder / file.name)

    def resized(entry: table_pb2.IndexMetadata) -> None:
        for file in entry.files:
            file.size_bytes = (folder / file.path).stat().st_size

    edit_indices(where, resized)
    assert lancelet.dataset(where).verify().ok
    report = deep(where)
    assert report.errors, str(report)
    assert {finding.kind for finding in report.errors} == {"wrong index"}, str(report)
    assert all(Path(finding.place).parent == folder for finding in report.errors)


@pytest.mark.parametrize("kind", KINDS)
def test_rows_that_an_index_misses_are_found(tmp_path: Path, kind: str) -> None:
    """An index says that it covers a fragment that it was not built from."""
    where = indexed(tmp_path / "t", kind)
    lance.write_dataset(rows(500), where, mode="append")
    edit_indices(where, lambda entry: setattr(entry, "fragment_bitmap", BitMap(range(4)).serialize()))
    report = deep(where)
    assert report.errors, str(report)
    assert "fragment 3" in report.errors[0].problem
    assert lancelet.dataset(where).verify().ok


def test_files_of_kinds_that_are_not_known(tmp_path: Path) -> None:
    where = tmp_path / "t"
    lance.write_dataset(pa.table({"s": [f"some words {n}" for n in range(200)]}), where)
    lance.dataset(where).create_scalar_index("s", "INVERTED")
    assert deep(where).findings == (), str(deep(where))
    file = max((where / "_indices").rglob("*.lance"), key=lambda path: path.stat().st_size)
    file.write_bytes(os.urandom(file.stat().st_size))
    assert [finding.place for finding in lancelet.dataset(where).verify().errors] == [str(file)]


ODD = float("nan")
TYPES = {
    "bool": pa.array([True, False, None] * 7, pa.bool_()),
    "uint64": pa.array([2**64 - 1, 0, None] * 7, pa.uint64()),
    "int8": pa.array([-128, 127, None] * 7, pa.int8()),
    "float": pa.array([ODD, -ODD, 0.0, -0.0, float("-inf"), None, 1.5] * 3, pa.float32()),
    "double": pa.array([ODD, -ODD, 0.0, -0.0, float("inf"), None, 1.5] * 3, pa.float64()),
    "text": pa.array(["", "ß", "a" * 300, None, "\U0001f600", "b", "c\0d"] * 3),
    "large text": pa.array(["", "x", None] * 7, pa.large_string()),
    "bytes": pa.array([b"", b"\xff\xff", None] * 7, pa.binary()),
    "decimal": pa.array([None, 1, -1] * 7, pa.decimal128(20, 2)),
    "date": pa.array([0, -5, None] * 7, pa.date32()),
    "timestamp": pa.array([0, -5, None] * 7, pa.timestamp("us", "UTC")),
    "duration": pa.array([0, -5, None] * 7, pa.duration("ns")),
    "nulls alone": pa.nulls(21, pa.int32()),
}


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.spread(0.5, each=False)
def test_indices_over_every_type_are_sound(tmp_path: Path, dtype: str) -> None:
    data = pa.table({"v": TYPES[dtype]})
    made = 0
    for engine in (lancelet, lance):
        for kind in ("BTREE", "BITMAP", "ZONEMAP", "BLOOMFILTER"):
            where = tmp_path / f"{engine.__name__} {kind}"
            lance.write_dataset(data, where, max_rows_per_file=8)
            try:
                engine.dataset(where).create_scalar_index("v", kind)
            except (ValueError, TypeError, OSError, NotImplementedError, RuntimeError):
                # A type that such an index cannot be on.
                continue
            lance.dataset(where).delete("v is null and _rowid = 2")
            report = deep(where)
            assert report.findings == (), f"{engine.__name__} {kind}: {report}"
            made += 1
    assert made >= 4


def test_labels_over_lists_of_every_shape_are_sound(tmp_path: Path) -> None:
    lists = [[], None, [None], [1.0, 1.0, None, None], [ODD, -0.0, 0.0], [-ODD, ODD], [-ODD]] * 3
    for engine in (lancelet, lance):
        where = tmp_path / engine.__name__
        lance.write_dataset(pa.table({"v": pa.array(lists, pa.list_(pa.float64()))}), where, max_rows_per_file=5)
        engine.dataset(where).create_scalar_index("v", "LABEL_LIST")
        assert deep(where).findings == (), f"{engine.__name__}: {deep(where)}"
