"""What a prompt and a notebook show of a table."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

import lancelet


def test_a_line_says_how_much_there_is(tmp_path: Path) -> None:
    dataset = lancelet.write_dataset({"a": range(2000), "b": range(2000)}, tmp_path / "t")
    dataset.delete("a < 10")
    shown = repr(dataset)
    size = sum(file.stat().st_size for file in (tmp_path / "t" / "data").iterdir())
    assert shown == f"<LanceDataset {str(tmp_path / 't')!r}, version 2: 1,990 rows, 2 columns, {size:,} bytes>"


def test_a_notebook_shows_facts_and_no_markup_of_the_table(tmp_path: Path) -> None:
    nested = pa.array([{"<b>": 1}])
    dataset = lancelet.write_dataset(pa.table({"at": nested, "a": [1]}), tmp_path / "t")
    shown = dataset._repr_html_()
    for part in ("<td>at.&lt;b&gt;</td>", "<th>rows</th><td>1</td>", "version 2.2"):
        assert part in shown
    assert "<b>" not in shown.replace(f"<b>{tmp_path / 't'}</b>", "")
    assert "fragment 0" in dataset.get_fragments()[0]._repr_html_()
    assert "<td>int64</td>" in dataset.lance_schema._repr_html_()
