"""Bars show what long work says of itself."""

from __future__ import annotations

import threading
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import lancelet
from lancelet.runtime.steps import is_watched, watched


class Counts:
    """Adds up what it is told."""

    def __init__(self) -> None:
        self.expected: Counter[str] = Counter()
        self.done: Counter[str] = Counter()

    def expect(self, what: str, amount: int) -> None:
        self.expected[what] += amount

    def step(self, what: str, amount: int) -> None:
        self.done[what] += amount


def test_work_says_how_far_it_is(tmp_path: Path) -> None:
    vectors = pa.FixedSizeListArray.from_arrays(np.arange(4000, dtype=np.float32), 8)
    table = pa.table({"a": range(500), "v": vectors})
    counts = Counts()
    with watched(counts):
        dataset = lancelet.write_dataset(table, tmp_path / "t", max_rows_per_file=100)
        assert counts.done["rows written"] == 500
        dataset.add_columns({"b": "a + 1"})
        assert counts.done["rows with new columns"] == counts.expected["rows with new columns"] == 500
        dataset.create_scalar_index("a", "BTREE")
        dataset.create_index("v", "IVF_FLAT", num_partitions=2)
        stages = {what for what in counts.done if what.startswith("index: ")}
        assert len(stages) > 1
        counts.done.clear()
        dataset.optimize.compact_files()
        assert counts.expected["rows written"] == counts.done["rows written"] == 500
    assert not is_watched()


def test_bars_are_drawn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with lancelet.progress.bars():
        lancelet.write_dataset({"a": range(500)}, tmp_path / "t")
    assert "rows written" in capsys.readouterr().err
    with pytest.raises(ValueError, match="nope"), lancelet.progress.bars():
        lancelet.dataset(tmp_path / "t").delete("nope = 1")
    assert not is_watched()


def test_blocks_in_others_and_in_threads_share_the_bars(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def write(name: str) -> None:
        with lancelet.progress.bars():
            lancelet.write_dataset({"a": range(100)}, tmp_path / name)

    with lancelet.progress.bars():
        threads = [threading.Thread(target=write, args=(f"t{number}",)) for number in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        write("last")
        assert is_watched()
    assert capsys.readouterr().err.count("rows written") == 1
    assert not is_watched()


def test_any_long_work_takes_a_function(tmp_path: Path) -> None:
    """It hears what is done so far, and never less than before."""
    heard: list[lancelet.progress.WorkProgress] = []
    told = heard.append
    rows = {"a": range(300), "v": pa.FixedSizeListArray.from_arrays(np.arange(2400, dtype=np.float32), 8)}
    dataset = lancelet.write_dataset(pa.table(rows), tmp_path / "t", max_rows_per_file=100, progress=told)
    late = pa.table({"a": [900], "v": rows["v"][:1]})
    works = {
        "written": lambda: dataset.insert(pa.table(rows), progress=told),
        "merged": lambda: dataset.merge_insert("a").when_not_matched_insert_all().execute(late, progress=told),
        "added": lambda: dataset.add_columns({"b": "a + 1"}, progress=told),
        "joined": lambda: dataset.merge(pa.table({"a": [1], "c": [2]}), "a", progress=told),
        "altered": lambda: dataset.alter_columns({"path": "b", "data_type": pa.int32()}, progress=told),
        "indexed": lambda: dataset.create_scalar_index("a", "BTREE", progress=told),
        "trained": lambda: dataset.create_index("v", "IVF_FLAT", num_partitions=2, progress=told),
        "compacted": lambda: dataset.optimize.compact_files(progress=told),
    }
    assert heard[-1].what == "rows written"
    assert heard[-1].done == 300
    for name, work in works.items():
        heard.clear()
        work()
        assert heard, name
        for what in {one.what for one in heard}:
            counts = [one.done for one in heard if one.what == what]
            assert counts == sorted(counts), name
    assert (heard[-1].done, heard[-1].total) == (dataset.count_rows(), dataset.count_rows())
    assert not is_watched()


def test_true_shows_bars(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dataset = lancelet.write_dataset({"a": range(500)}, tmp_path / "t", progress=True)
    dataset.create_scalar_index("a", "BTREE", progress=True)
    shown = capsys.readouterr().err
    assert "rows written" in shown
    assert "index: read rows" in shown
    dataset.insert({"a": [1]}, progress=False)
    assert capsys.readouterr().err == ""
    for wrong in ("yes", 3):
        with pytest.raises(TypeError, match="progress is True"):
            dataset.insert({"a": [1]}, progress=wrong)
        with pytest.raises(TypeError, match="progress is True"):
            dataset.add_columns({"b": "a"}, progress=wrong)  # type: ignore[arg-type]
    assert dataset.count_rows() == 501
