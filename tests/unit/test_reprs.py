"""What a prompt and a notebook show of a table."""

from __future__ import annotations

import json
import pickle
from html import escape
from pathlib import Path

import pyarrow as pa

import lancelet
from lancelet.optimize import Compaction


def test_a_line_says_how_much_there_is(tmp_path: Path) -> None:
    dataset = lancelet.write_dataset({"a": range(2000), "b": range(2000)}, tmp_path / "t")
    dataset.delete("a < 10")
    shown = repr(dataset)
    size = sum(file.stat().st_size for file in (tmp_path / "t" / "data").iterdir())
    assert shown == f"<LanceDataset {str(tmp_path / 't')!r}, version 2: 1,990 rows, 2 columns, {size:,} bytes>"


def test_a_line_says_what_tags_branches_and_scans_are() -> None:
    dataset = lancelet.write_dataset({"a": [1], "b": [2]}, "memory://reprs/refs")
    assert repr(dataset.tags) == "<Tags of 'memory://reprs/refs': none>"
    dataset.create_branch("dev")
    dataset.tags.create("first", 1)
    dataset.tags.create("tried", ("dev", 1))
    assert repr(dataset.tags) == "<Tags of 'memory://reprs/refs': first at 1, tried at dev:1>"
    assert repr(dataset.branches) == "<Branches of 'memory://reprs/refs': dev from 1>"
    assert repr(dataset.scanner(["b"])) == "<LanceScanner of 'memory://reprs/refs', version 1: b>"


def test_a_notebook_shows_facts_and_no_markup_of_the_table(tmp_path: Path) -> None:
    nested = pa.array([{"<b>": 1}])
    dataset = lancelet.write_dataset(pa.table({"at": nested, "a": [1]}), tmp_path / "t")
    shown = dataset._repr_html_()
    for part in ("<td>at.&lt;b&gt;</td>", "<th>rows</th><td>1</td>", "version 2.2"):
        assert part in shown
    assert "<b>" not in shown.replace(f"<b>{tmp_path / 't'}</b>", "")
    assert "fragment 0" in dataset.get_fragments()[0]._repr_html_()
    assert "<td>int64</td>" in dataset.lance_schema._repr_html_()


def test_a_notebook_shows_plans_reports_and_the_past(tmp_path: Path) -> None:
    """And programs get the same texts and lists as ever."""
    dataset = lancelet.write_dataset({"a": range(20)}, tmp_path / "t", max_rows_per_file=10)
    dataset.delete("a < 3")
    plan = dataset.scanner(filter="a < 5").explain_plan()
    assert isinstance(plan, str)
    assert plan._repr_html_().startswith("<pre>")  # type: ignore[attr-defined]
    assert "a &lt; 5" in dataset.scanner(filter="a < 5")._repr_html_()
    past = dataset.versions()
    assert past == list(past)
    assert json.loads(json.dumps([one["version"] for one in past])) == [1, 2]
    assert "<td>17</td>" in past._repr_html_()  # type: ignore[attr-defined]
    assert pickle.loads(pickle.dumps(past)) == past
    for report in (
        Compaction.plan(dataset, {}),
        dataset.explain_cleanup_old_versions(),
        dataset.verify(),
        lancelet.repair(tmp_path / "t"),
    ):
        assert report._repr_html_() == f"<pre>{escape(str(report))}</pre>"
