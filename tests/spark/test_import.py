"""``lancelet import --spark`` and ``export --spark``: files become a table by Spark, a table files, and mistakes a sentence."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import lance
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

import lancelet
from lancelet.cli.main import run
from spark.sessions import MODE

pytestmark = [
    pytest.mark.usefixtures("spark"),
    pytest.mark.skipif(MODE not in ("local", "plain"), reason="the command starts a session in its own process"),
]


def _said(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *words: object) -> tuple[int, str, str]:
    """How a command ends, and what it says. The session of the tests is the one that it finds."""
    monkeypatch.setattr(sys, "argv", ["lancelet", *map(str, words)])
    capfd.readouterr()
    with pytest.raises(SystemExit) as end:
        run()
    said = capfd.readouterr()
    return int(end.value.code or 0), said.out or "null", said.err


@pytest.mark.parametrize("kind", ["parquet", "csv", "json"])
def test_files_become_a_table(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    rows = [{"id": number, "s": f"kelp {number}"} for number in range(30)]
    file, table = tmp_path / f"rows.{kind}", tmp_path / "kelp.lance"
    if kind == "parquet":
        pa.parquet.write_table(pa.Table.from_pylist(rows), file)
    elif kind == "csv":
        file.write_text("id,s\n" + "".join(f"{row['id']},{row['s']}\n" for row in rows))
    else:
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    code, out, err = _said(capfd, monkeypatch, "import", file, table, "--spark", "--json")
    assert code == 0, err
    assert json.loads(out)["rows"] == 30
    code, out, _ = _said(capfd, monkeypatch, "import", file, file, table, "--spark", "--json", "--mode", "append")
    assert (code, json.loads(out)["rows"]) == (0, 90)
    found = lance.dataset(table).to_table(["id", "s"]).sort_by("id").to_pylist()
    assert found == [row for row in rows for _ in range(3)]
    code, _, err = _said(capfd, monkeypatch, "import", file, table, "--spark")
    assert (code, "error:" in err, "Traceback" in err) == (1, True, False)
    assert "exists" in err
    code, out, _ = _said(capfd, monkeypatch, "import", file, table, "--spark", "--json", "--mode", "overwrite")
    assert (code, json.loads(out)["rows"]) == (0, 30)


@pytest.mark.parametrize("kind", ["parquet", "csv", "json"])
def test_a_table_becomes_files(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    table, folder = tmp_path / "kelp.lance", tmp_path / f"rows.{kind}"
    written = lancelet.write_dataset(
        {"id": range(30), "s": [f"kelp {n}" for n in range(30)]}, table, max_rows_per_file=8
    )
    written.delete("id >= 0")
    words = ("export", table, folder, "--spark", "--at", 1, "-w", "id >= 10", "-c", "id,s")
    code, out, err = _said(capfd, monkeypatch, *words, "--json")
    assert (code, json.loads(out)) == (0, {"folder": str(folder), "rows": 20}), err
    parts = sorted(folder.glob(f"part-*.{kind}"))
    if kind == "json":
        rows = [json.loads(line) for part in parts for line in part.read_text().splitlines()]
    else:
        read = pa.parquet.read_table if kind == "parquet" else pa.csv.read_csv
        rows = [row for part in parts for row in read(part).to_pylist()]
    assert sorted(row["id"] for row in rows) == list(range(10, 30))
    assert {row["s"] for row in rows} == {f"kelp {n}" for n in range(10, 30)}
    code, _, err = _said(capfd, monkeypatch, *words)
    assert (code, "Traceback" in err, "exist" in err.lower()) == (1, False, True), err
    assert _said(capfd, monkeypatch, *words, "--force")[0] == 0
    for wrong in (("-c", "nope"), ("-w", "nope = 1"), ("-f", "arrow")):
        code, _, err = _said(
            capfd, monkeypatch, "export", table, tmp_path / "other", "-f", "parquet", "--spark", *wrong
        )
        assert (code, "error:" in err, (tmp_path / "other").exists()) == (1, True, False), err


def test_mistakes_are_sentences(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "rows.arrow").write_bytes(b"")
    (tmp_path / "rows.parquet").write_bytes(b"no such thing")
    for words, said in (
        (("rows.arrow", "t", "--spark"), "without --spark"),
        (("rows.parquet", "t", "--spark"), "error:"),
        (("rows.parquet", "t", "--spark", "--file-version", "2.0"), "do not go with --spark"),
        (("rows.parquet", "space#t", "--spark"), "do not go with --spark"),
    ):
        file, table, *rest = words
        code, _, err = _said(capfd, monkeypatch, "import", tmp_path / file, tmp_path / table, *rest)
        assert (code, said in err, "Traceback" in err) == (1, True, False), err
    assert not (tmp_path / "t").exists()
