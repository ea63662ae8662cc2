"""What a dataset promises beyond the answers that pylance gives."""

from __future__ import annotations

import ast
import copy
import inspect
import pickle
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

import lancelet
from lancelet.errors import InvalidInput, LanceletError, NotSupported, UnknownColumn
from lancelet.execution.threads import core_count


@pytest.fixture(scope="module")
def where(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("dataset") / "t"
    table = pa.table(
        {
            "k": pa.array(range(3000), pa.int64()),
            "s": [f"text {i}" for i in range(3000)],
            "v": pa.FixedSizeListArray.from_arrays(pa.array(np.arange(3000 * 64, dtype=np.float32)), 64),
        }
    )
    lance.write_dataset(table, path, max_rows_per_file=1000, data_storage_version="2.2").delete("k = 7")
    return path


def test_public_names() -> None:
    for name in lancelet.__all__:
        assert getattr(lancelet, name) is not None
    with pytest.raises(AttributeError):
        lancelet.nothing  # noqa: B018
    assert sys.modules["lancelet.dataset"].LanceOperation is lancelet.LanceOperation
    with pytest.raises(AttributeError):
        sys.modules["lancelet.dataset"].nothing  # noqa: B018


def test_heavy_packages_and_the_unstable_file_version_are_left_alone(where: Path) -> None:
    left_alone = ("pandas", "sqlglot", "obstore", "pyarrow.dataset", "lance", "lancelet.encoding.v2_3")
    script = (
        "import sys, lancelet; lancelet.dataset(sys.argv[1]).take([0]);"
        f"print([m for m in {left_alone} if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script, str(where)], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_few_rows_are_read_and_changed_and_texts_indexed_without_pandas(tmp_path: Path) -> None:
    rows = range(5000)
    columns = {
        "k": pa.array(rows),
        "word": pa.array([f"word {row % 7}" for row in rows]),
        "text": pa.array([None if row % 5 == 0 else f"text {row}" for row in rows]),
        "tags": pa.array([["a"] * (row % 4) for row in rows]),
        "vector": pa.array([[row, 0.5] for row in rows], pa.list_(pa.float32(), 2)),
    }
    lancelet.write_dataset(pa.table(columns), tmp_path)
    script = """
import sys, lancelet
dataset = lancelet.dataset(sys.argv[1])
print(dataset.take([4, 4321, 17]).num_rows)
print(dataset.to_table(filter="k < 10 and word = 'word 3'").num_rows)
print(dataset.delete("k = 12")["num_deleted_rows"])
print(dataset.update({"text": "'new'"}, "k = 13")["num_rows_updated"])
dataset.create_scalar_index("text", "INVERTED")
print(dataset.to_table(columns=["k", "_score"], full_text_query="new").num_rows)
dataset.create_scalar_index("tags", "INVERTED", document_granularity="list_element", with_position=True)
print("pandas" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["3", "1", "1", "1", "1", "False"]


@pytest.mark.parametrize(
    ("column", "kind"),
    [
        ("k", "BTREE"),
        ("word", "BITMAP"),
        ("k", "ZONEMAP"),
        ("x", "ZONEMAP"),
        ("k", "BLOOMFILTER"),
        ("tags", "LABEL_LIST"),
    ],
)
def test_scalar_indices_are_built_without_pandas(tmp_path: Path, column: str, kind: str) -> None:
    rows = range(5000)
    columns = {
        "k": pa.array(rows),
        "x": pa.array([None if row % 3 else row / 2 for row in rows]),
        "word": pa.array([f"word {row % 7}" for row in rows]),
        "tags": pa.array([["a"] * (row % 4) for row in rows]),
    }
    lancelet.write_dataset(pa.table(columns), tmp_path)
    script = """
import sys, lancelet
dataset = lancelet.dataset(sys.argv[1])
dataset.create_scalar_index(*sys.argv[2:])
print(dataset.count_rows("k in (1, 2, 3, 4, 5, 6, 9000) and word in ('word 3', 'a', 'b', 'c', 'd', 'e')"))
print("pandas" in sys.modules)
"""
    command = [sys.executable, "-c", script, str(tmp_path), column, kind]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["1", "False"]


def test_scans_share_a_few_threads(where: Path) -> None:
    dataset = lancelet.dataset(where)
    dataset.to_table()
    before = threading.active_count()
    for _ in range(20):
        batches = dataset.to_batches(["k"], batch_size=10)
        next(batches)
        batches.close()
        dataset.take([1, 2])
    assert threading.active_count() <= before + core_count()


def test_a_dataset_is_one_class_that_delegates() -> None:
    assert lancelet.LanceDataset.__mro__ == (lancelet.LanceDataset, object)
    tree = ast.parse(inspect.getsource(lancelet.LanceDataset))
    for method in ast.walk(tree):
        if isinstance(method, ast.FunctionDef) and not method.name.startswith("_"):
            steps = [
                step
                for statement in method.body
                for step in ast.walk(statement)
                if isinstance(step, ast.stmt) and not isinstance(step, ast.ImportFrom)
            ]
            # A docstring and a few lines; work is done in rooms.
            assert len(steps) <= 6, f"{method.name} does work of its own"


def test_take_plans_are_remembered_and_forgotten(where: Path) -> None:
    dataset = lancelet.dataset(where)
    assert dataset._takes.plan(["k"]) is dataset._takes.plan(["k"])
    assert dataset._takes.plan(None) is dataset._takes.plan(None)
    for number in range(200):
        dataset.take([0], ["k", "s", "v"][: 1 + number % 3])
    assert len(dataset._takes) <= 64
    assert dataset.take([0], {"k": "k + 1"}).to_pydict() == {"k": [1]}
    assert dataset.take([0], {"k": "k + 2"}).to_pydict() == {"k": [2]}
    with pytest.raises(UnknownColumn):
        dataset.take([0], ["nope"])


def test_copies_are_independent(where: Path) -> None:
    dataset = lancelet.dataset(where)
    for other in (copy.copy(dataset), pickle.loads(pickle.dumps(dataset))):
        assert other.checkout_version(1).count_rows() == 3000
        assert other.count_rows() == dataset.count_rows() == 2999
    assert "version 2" in repr(dataset)


def test_sessions_are_shared_on_request(where: Path) -> None:
    session = lancelet.Session(metadata_cache_size_bytes=1 << 20)
    first, second = lancelet.dataset(where, session=session), lancelet.dataset(where, session=session)
    first.to_table(["k"])
    size = session.size_bytes()
    assert size > 0
    second.to_table(["k"])
    assert session.size_bytes() == size
    assert first.session().is_same_as(second.session())
    assert not first.session().is_same_as(lancelet.dataset(where).session())
    assert pickle.loads(pickle.dumps(session)).size_bytes() == 0
    with pytest.raises(NotSupported):
        lancelet.Session(index_cache_backend=object())


def test_io_is_counted(where: Path) -> None:
    dataset = lancelet.dataset(where)
    dataset.to_table(["s"])
    first = dataset.io_stats_snapshot()
    assert first.read_iops > 0
    assert first.read_bytes > 0
    assert dataset.io_stats_incremental() == first
    assert dataset.io_stats_snapshot().read_iops == 0


def test_scan_statistics_come_at_the_end(where: Path) -> None:
    seen: list[lancelet.ScanStatistics] = []
    dataset = lancelet.dataset(where)
    dataset.to_table(["k"], filter="k < 10", scan_stats_callback=seen.append)
    assert seen[0].all_counts == {"rows_scanned": 9, "fragments_scanned": 3}
    batches = dataset.to_batches(["k"], scan_stats_callback=seen.append)
    next(batches)
    assert len(seen) == 1
    list(batches)
    assert seen[1].all_counts["rows_scanned"] == 2999


def test_a_plan_is_readable(where: Path) -> None:
    scanner = lancelet.dataset(where).scanner(
        {"twice": "k * 2", "s": "s"}, filter="k > 5", limit=4, offset=1, order_by=["s"]
    )
    assert scanner.explain_plan().splitlines() == [
        "Limit: offset=1, limit=4",
        "  Sort: s asc nulls last",
        "    Project: k * 2 as twice, s",
        "      ReadPassing: columns=[s]",
        "        Filter: k > 5",
        f"          LanceRead: uri={where}, version=2, fragments=3, columns=[k]",
    ]
    assert "fragments=[0, 1, 2]" in scanner.explain_plan(verbose=True)
    analyzed = scanner.analyze_plan()
    assert analyzed.startswith("Analyze: rows=4, batches=1, requests=")
    assert "LanceRead" in analyzed


def test_wide_values_are_views_of_the_file(where: Path) -> None:
    """A scan of vectors without nulls copies nothing."""
    before = pa.total_allocated_bytes()
    table = lancelet.dataset(where, version=1).to_table(["v"])
    assert table.nbytes > 700_000
    assert pa.total_allocated_bytes() - before < 100_000


@pytest.mark.parametrize(
    "options",
    [{"batch_size": -1}, {"limit": True, "offset": -1}, {"columns": {"a": 5}}, {"order_by": 5}],
    ids=str,
)
def test_nonsense_is_refused_with_an_error_of_ours(where: Path, options: dict[str, Any]) -> None:
    with pytest.raises((LanceletError, TypeError)):
        lancelet.dataset(where).to_table(**options)


def test_times_are_parsed(where: Path) -> None:
    assert lancelet.dataset(where, asof="2199-01-01 10:00:00").version == 2
    assert lancelet.dataset(where, asof="2199-01-01T10:00:00+02:00").version == 2
    with pytest.raises(InvalidInput, match="not a time"):
        lancelet.dataset(where, asof="yesterday")


def test_damage_is_found_by_validate(tmp_path: Path) -> None:
    lance.write_dataset(pa.table({"k": range(100)}), tmp_path / "t", max_rows_per_file=50)
    dataset = lancelet.dataset(tmp_path / "t")
    dataset.validate()
    file = next((tmp_path / "t" / "data").iterdir())
    file.write_bytes(file.read_bytes()[:-10])
    with pytest.raises(LanceletError):
        lancelet.dataset(tmp_path / "t").validate()
