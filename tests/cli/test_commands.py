"""Every command of ``lancelet``, typed into a terminal: what it says, what it does to the table, and mistakes."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import date, time
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import lance
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet
import pytest
import typer

import lancelet
from cli.terminal import Terminal
from lancelet.cli.main import app

ROWS = 300


@pytest.fixture(scope="module")
def lancelet_command() -> Iterator[Terminal]:
    terminal = Terminal()
    yield terminal
    terminal.close()


@pytest.fixture(name="run")
def _run(lancelet_command: Terminal) -> Terminal:
    return lancelet_command


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Versions: written, appended, some rows deleted; a tag, a branch, an index."""
    path = tmp_path_factory.mktemp("cli") / "kelp.lance"

    def rows(first: int) -> pa.Table:
        numbers = range(first, first + ROWS)
        vectors = pa.FixedSizeListArray.from_arrays(np.arange(ROWS * 8, dtype=np.float32), 8)
        return pa.table({"id": numbers, "caption": [f"kelp {number}" for number in numbers], "v": vectors})

    dataset = lancelet.write_dataset(rows(0), path, enable_stable_row_ids=True)
    dataset.insert(rows(ROWS))
    dataset.delete("id < 10")
    dataset.tags.create("first", 1)
    dataset.create_branch("dev")
    lancelet.dataset(path).create_scalar_index("id", "BTREE")
    return path


@pytest.fixture
def table(made: Path, tmp_path: Path) -> Path:
    """A copy to change."""
    return Path(shutil.copytree(made, tmp_path / made.name))


def test_looking_at_a_table(run: Terminal, made: Path) -> None:
    shown = run("show", made)
    assert shown.code == 0
    for part in ("590", "deleted rows", "caption", "fixed_size_list", "id_idx", "version 2.2"):
        assert part in shown.text
    assert run("show", made, "--json").json()["rows"] == 590
    assert run("show", made, "--at", "first", "--json").json()["rows"] == ROWS
    assert run("count", made).text.strip() == "590"
    assert run("count", made, "--where", "id >= 500", "--json").json() == 100
    assert "kelp.lance" in run("ls", made.parent).text
    assert run("ls", made.parent, "--json").json()[0]["rows"] == 590
    assert "no tables" in run("ls", made / "data").text


def test_rows(run: Terminal, made: Path) -> None:
    first = run("head", made, "-n", 2, "--json")
    lines = [json.loads(line) for line in first.text.splitlines()]
    assert lines == lance.dataset(made).to_table(limit=2).to_pylist()
    found = run("query", made, "id in (11, 12)", "-c", "id,caption")
    assert "kelp 11" in found.text
    assert "kelp 13" not in found.text
    ordered = run("query", made, "id < 20", "-c", "id", "--order-by", "id desc", "-n", 3, "--json")
    assert [json.loads(line)["id"] for line in ordered.text.splitlines()] == [19, 18, 17]
    assert "--limit for more" in run("query", made, "-n", 5, "-c", "id").text
    total = run("query", made, "--sql", "SELECT sum(id) AS total FROM dataset WHERE id < 12", "--json")
    assert json.loads(total.text) == {"total": 21}
    assert "id_idx" in run("query", made, "id = 4", "--explain").text
    assert "id_idx" in run("query", made, "id = 4", "--explain", "--json").json()["plan"]


def test_the_past(run: Terminal, table: Path) -> None:
    shown = run("history", table)
    for part in ("Overwrite", "Append", "Delete", "CreateIndex", "first", "→dev"):
        assert part in shown.text
    past = run("history", table, "--json", "-n", 2).json()
    assert [one["version"] for one in past] == [4, 3]
    different = run("diff", table, 1, 3)
    assert different.code == 1
    for part in ("300 → 590", "inserted", "deleted"):
        assert part in different.text
    counts = run("diff", table, "first", 3, "--json").json()
    assert [counts[name] for name in ("inserted", "updated", "deleted")] == [300, 0, 10]
    assert run("diff", table, 2, 2).code == 0
    restored = run("restore", table, "first", "--json").json()
    assert restored["version"] == 5
    assert lance.dataset(table).count_rows() == ROWS


def test_how_it_is_stored(run: Terminal, made: Path) -> None:
    assert [one["rows"] for one in run("fragments", made, "--json").json()] == [290, 300]
    files = run("files", made, "--json").json()
    assert [one["columns"] for one in files] == [["id", "caption", "v"]] * 2
    columns = run("columns", made, "--json").json()
    assert columns[0]["name"] == "v"
    assert "mini-block" in run("columns", made).text
    pages = run("pages", made, "--column", "id", "--json").json()
    assert {one["column"] for one in pages} == {"id"}
    assert sum(one["bytes"] for one in pages) == next(one["bytes"] for one in columns if one["name"] == "id")
    assert "bitpacked" in run("pages", made).text
    (index,) = run("indices", made, "--json").json()
    assert (index["name"], index["rows_indexed"]) == ("id_idx", 590)
    assert "590 of 590" in run("indices", made).text


def test_upkeep(run: Terminal, table: Path) -> None:
    assert run("verify", table, "--deep").code == 0
    assert run("compact", table, "--dry-run").code == 0
    assert lance.dataset(table).version == 4
    assert "fragments added" in run("compact", table).text
    assert len(lance.dataset(table).get_fragments()) == 1
    asked = run("cleanup", table, "--older-than", "0s", keys="n\n")
    assert "would go" in asked.text
    before = len(lance.dataset(table).versions())
    assert before > 2
    done = run("cleanup", table, "--older-than", "0s", keys="y\n")
    assert "freed" in done.text
    assert len(lance.dataset(table).versions()) < before
    assert lance.dataset(table, version="first").count_rows() == ROWS
    assert run("repair", table).code == 0


def test_indices(run: Terminal, table: Path) -> None:
    made = run("index", "create", table, "caption", "INVERTED", "--set", "with_position=true", "--json")
    assert made.code == 0
    assert lance.dataset(table).to_table(full_text_query="11").num_rows == 1
    assert (
        run("index", "create", table, "v", "IVF_FLAT", "--set", "num_partitions=2", "--set", "metric=cosine").code == 0
    )
    late = {"id": [1000], "caption": ["late"], "v": pa.array([[0.0] * 8], pa.list_(pa.float32(), 8))}
    lancelet.write_dataset(pa.table(late), table, mode="append")
    assert run("index", "optimize", table, "id_idx").code == 0
    assert next(one for one in run("indices", table, "--json").json() if one["name"] == "id_idx")["rows_indexed"] == 591
    assert run("index", "drop", table, "id_idx", keys="n\n").code == 0
    assert run("index", "drop", table, "id_idx", "--yes").code == 0
    assert "id_idx" not in run("indices", table).text
    missing = run("index", "drop", table, "id_idx", "--yes")
    assert missing.code == 1
    assert "caption_idx" in missing.text


def test_names_of_versions(run: Terminal, table: Path) -> None:
    assert run("tag", "create", table, "now", 4, "--json").json() == {"tag": "now", "version": 4, "branch": None}
    assert run("tag", "move", table, "now", 3).code == 0
    assert {"tag": "now", "version": 3, "branch": None} in run("tag", "list", table, "--json").json()
    assert run("tag", "delete", table, "now").code == 0
    assert "now" not in run("tag", "list", table).text
    assert run("branch", "create", table, "trial", 2, "--json").json()["rows"] == 600
    assert run("count", table, "--at", "trial").text.strip() == "600"
    assert "trial" in run("branch", "list", table).text
    assert run("branch", "delete", table, "trial", "-y").code == 0
    assert "trial" not in run("branch", "list", table, "--json").text


def test_copies(run: Terminal, table: Path, tmp_path: Path) -> None:
    assert run("clone", table, tmp_path / "shallow", "--at", "first").code == 0
    assert run("clone", table, tmp_path / "deep", "--deep", "--json").json()["rows"] == 590
    assert lance.dataset(tmp_path / "shallow").count_rows() == ROWS
    assert run("drop", tmp_path / "deep", keys="n\n").code == 0
    assert (tmp_path / "deep").exists()
    assert run("drop", tmp_path / "deep", "--yes").code == 0
    assert not (tmp_path / "deep").exists()


@pytest.mark.parametrize("ending", ["parquet", "csv", "jsonl", "arrow"])
def test_rows_go_out_and_in(run: Terminal, table: Path, tmp_path: Path, ending: str) -> None:
    columns = "id,caption" if ending == "csv" else "id,caption,v"
    file = tmp_path / f"rows.{ending}"
    assert run("export", table, file, "-c", columns, "-w", "id < 50").code == 0
    refused = run("export", table, file)
    assert refused.code == 1
    assert "--force" in refused.text
    assert run("import", file, file, tmp_path / "back").code == 0
    back = lance.dataset(tmp_path / "back").to_table(["id", "caption"])
    expected = lance.dataset(table).to_table(["id", "caption"], filter="id < 50")
    assert back.to_pylist() == expected.to_pylist() * 2
    again = run("import", file, tmp_path / "back")
    assert again.code == 1
    assert "append" in again.text or "exists" in again.text
    assert run("import", file, tmp_path / "back", "--mode", "append", "--json").json()["rows"] == 120


ODD = {
    "id": pa.array([1, -128, 7], pa.int8()),
    "u64": pa.array([2**64 - 1, None, 0], pa.uint64()),
    "f16": pa.array([1.5, None, -2], pa.float16()),
    "decimal": pa.array([Decimal("1.23"), None, Decimal("-99999.99")], pa.decimal128(10, 2)),
    "wide": pa.array([Decimal(10) ** 40, None, Decimal(2)], pa.decimal256(50, 0)),
    "date": pa.array([date(2020, 1, 1), None, date(1, 1, 1)]),
    "zone": pa.array([0, None, 1], pa.timestamp("us", "Europe/Berlin")),
    "ns": pa.array([1, None, 1 << 62], pa.timestamp("ns")),
    "time": pa.array([time(1, 2, 3, 4), None, time(0)], pa.time64("us")),
    "bytes": pa.array([b"\x00\xff", None, b""]),
    "code": pa.array([b"abcd", None, b"\xff\xfe\xfd\xfc"], pa.binary(4)),
    "text": pa.array(['a,"b"\nc', None, ""]),
    "word": pa.array(["x", None, "y"]).dictionary_encode(),
    "flag": pa.array([True, None, False]),
}
NESTED = {
    "items": pa.array([[1, None], None, []], pa.list_(pa.int32())),
    "v": pa.array([[1.0, 2.0], None, [3.0, 4.0]], pa.list_(pa.float32(), 2)),
    "struct": pa.array([{"a": 1, "b": {"c": "x"}}, None, {"a": None, "b": None}]),
}
MAP = {"map": pa.array([[("k", 1)], None, []], pa.map_(pa.string(), pa.int32()))}


@pytest.mark.parametrize("ending", ["parquet", "arrow", "jsonl", "csv"])
def test_odd_types_come_back_as_they_went(run: Terminal, tmp_path: Path, ending: str) -> None:
    """Into a new table where the file tells its types, else with those of a table that is there."""
    keeps = ending in ("parquet", "arrow")
    columns = ODD | ({} if ending == "csv" else NESTED) | (MAP if keeps else {})
    dataset = lancelet.write_dataset(pa.table(columns), tmp_path / "odd.lance", data_storage_version="2.2")
    file = tmp_path / f"rows.{ending}"
    assert run("export", dataset.uri, file).code == 0
    if keeps:
        assert run("import", file, tmp_path / "back", "--file-version", "2.2").code == 0
        # Arrow notes numbers of columns where it reads Parquet.
        assert lancelet.dataset(tmp_path / "back").to_table().equals(dataset.to_table())
    done = run("import", file, dataset.uri, "--mode", "append")
    assert done.code == 0, done.text
    both = lancelet.dataset(dataset.uri).to_table()
    assert both.slice(3).to_pylist() == both.slice(0, 3).to_pylist()


def test_maps_are_read_again_from_json(run: Terminal, tmp_path: Path) -> None:
    table, file = tmp_path / "map.lance", tmp_path / "map.jsonl"
    lancelet.write_dataset(pa.table(MAP), table, data_storage_version="2.2")
    assert run("export", table, file).code == 0
    assert run("import", file, tmp_path / "back").code == 0
    expected = [[{"key": "k", "value": 1}], None, []]
    assert lance.dataset(tmp_path / "back").to_table()["map"].to_pylist() == expected
    shown = run("head", table, "--json").text.splitlines()
    assert [json.loads(line)["map"] for line in shown] == expected


def test_nulls_of_a_single_column_are_rows_of_csv(run: Terminal, tmp_path: Path) -> None:
    table, file = tmp_path / "one.lance", tmp_path / "one.csv"
    texts = pa.array(["x", None, "", None])
    lancelet.write_dataset(pa.table({"s": texts}), table)
    assert run("export", table, file).code == 0
    assert run("import", file, tmp_path / "back").code == 0
    assert lance.dataset(tmp_path / "back").to_table()["s"].to_pylist() == texts.to_pylist()


def test_texts_that_are_no_values_of_the_table_are_refused(run: Terminal, tmp_path: Path) -> None:
    dataset = lancelet.write_dataset(pa.table(ODD), tmp_path / "odd.lance")
    for column, text in (("bytes", "no base64!"), ("time", "soon"), ("date", "later"), ("id", "1000")):
        (tmp_path / "rows.csv").write_text(f"{column}\n{text}\n")
        done = run("import", tmp_path / "rows.csv", dataset.uri, "--mode", "append")
        assert (done.code, "rows.csv" in done.text, "Traceback" in done.text) == (1, True, False), done.text
    # Texts of a file that tells its types are texts.
    pyarrow.parquet.write_table(pa.table({"bytes": ["AP8="]}), tmp_path / "rows.parquet")
    done = run("import", tmp_path / "rows.parquet", dataset.uri, "--mode", "append")
    assert (done.code, "binary in the table" in done.text) == (1, True), done.text
    assert lance.dataset(dataset.uri).version == 1


def test_tables_of_a_namespace(run: Terminal, tmp_path: Path) -> None:
    space = lancelet.connect(tmp_path / "space")
    space.create_namespace("sales")
    space.create("sales.orders", {"id": [1, 2]})
    space.create("plain", {"id": [1]})
    assert {one["name"] for one in run("ls", f"{tmp_path / 'space'}#", "--json").json()} == {"sales", "plain"}
    assert "sales.orders" in run("ls", f"{tmp_path / 'space'}#sales").text
    assert run("count", f"{tmp_path / 'space'}#sales.orders").text.strip() == "2"
    missing = run("count", f"{tmp_path / 'space'}#sales.nothing")
    assert (missing.code, "error:" in missing.text) == (1, True)


def test_rows_go_into_tables_of_a_namespace(run: Terminal, tmp_path: Path) -> None:
    space = lancelet.connect(tmp_path / "space")
    space.create("orders", {"id": [1, 2]})
    file = tmp_path / "rows.csv"
    file.write_text("id\n7\n")
    orders, late = (f"{tmp_path / 'space'}#{name}" for name in ("orders", "late"))
    assert run("import", file, orders).code == 1
    assert run("import", file, orders, "--mode", "append", "--json").json()["rows"] == 3
    assert run("import", file, late).code == 0
    assert sorted(space) == ["late", "orders"]
    assert run("repair", late).code == 0
    assert run("drop", late, "--yes").code == 0
    assert sorted(space) == ["orders"]
    assert sorted(one.name for one in tmp_path.iterdir()) == ["rows.csv", "space"]


def test_a_path_may_have_the_sign_of_a_namespace(run: Terminal, tmp_path: Path) -> None:
    lancelet.write_dataset({"id": [1]}, tmp_path / "a#b.lance")
    assert run("count", tmp_path / "a#b.lance").text.strip() == "1"


def test_texts_of_a_table_do_not_steer_the_terminal(run: Terminal, tmp_path: Path) -> None:
    name, text, turned = "na\x1b]0;taken\x07me", "[red]\x1b[2J[/]\\", "\x9b31m\u202etxt.exe"
    lancelet.write_dataset({name: [text, turned]}, tmp_path / "evil.lance")
    lancelet.dataset(tmp_path / "evil.lance").create_scalar_index(name, "BTREE", name="i\x1b[5mx")
    for words in (("head",), ("show",), ("columns",), ("indices",), ("head", "--json"), ("head", "-c", "\x1b[2J")):
        shown = run(words[0], tmp_path / "evil.lance", *words[1:])
        for mark in ("\x1b]", "\x1b[2J", "\x1b[5m", "\x9b", "\u202e", "\x07"):
            assert mark not in shown.raw, words
    assert "[red]\\x1b[2J[/]\\" in run("head", tmp_path / "evil.lance").text
    lines = [json.loads(line) for line in run("head", tmp_path / "evil.lance", "--json").text.splitlines()]
    assert lines == [{name: text}, {name: turned}]


def test_a_damaged_table_hides_no_other(run: Terminal, tmp_path: Path) -> None:
    for name in ("bad", "good"):
        lancelet.write_dataset({"id": [1, 2]}, tmp_path / name)
    (manifest,) = (tmp_path / "bad" / "_versions").glob("*.manifest")
    manifest.write_bytes(manifest.read_bytes()[:-4])
    listed = run("ls", tmp_path)
    assert listed.code == 1
    for part in ("good", "bad cannot be read"):
        assert part in listed.text


def test_times_that_python_does_not_have_are_shown(run: Terminal, tmp_path: Path) -> None:
    lancelet.write_dataset({"id": [1], "at": pa.array([1 << 62], pa.timestamp("us"))}, tmp_path / "late.lance")
    for words in (("head", tmp_path / "late.lance"), ("export", tmp_path / "late.lance", tmp_path / "late.jsonl")):
        assert run(*words).code == 0
    assert str(1 << 62) in (tmp_path / "late.jsonl").read_text()


def test_files_of_one_import_have_the_same_columns(run: Terminal, tmp_path: Path) -> None:
    for name, text in {"a": "x,y\n1,p\n", "b": "y,x\nq,2\n", "less": "x\n3\n", "other": "x,y\nz,z\n"}.items():
        (tmp_path / f"{name}.csv").write_text(text)
    assert run("import", tmp_path / "a.csv", tmp_path / "b.csv", tmp_path / "t").code == 0
    assert lance.dataset(tmp_path / "t").to_table().to_pydict() == {"x": [1, 2], "y": ["p", "q"]}
    for name in ("less", "other"):
        done = run("import", tmp_path / "a.csv", tmp_path / f"{name}.csv", tmp_path / "u")
        assert (done.code, f"{name}.csv has other" in done.text) == (1, True), done.text
        assert not (tmp_path / "u").exists()


def test_a_file_that_cannot_be_read_is_named(run: Terminal, tmp_path: Path) -> None:
    (tmp_path / "good.csv").write_text("x,y\n1,p\n")
    for name, text in {"bad.csv": "x,y\n1,p,q\n", "bad.jsonl": "{nope\n", "bad.parquet": "x", "bad.arrow": "x"}.items():
        (tmp_path / name).write_text(text)
        words = [tmp_path / "good.csv"] if name == "bad.csv" else []
        done = run("import", *words, tmp_path / name, tmp_path / "t")
        assert (done.code, f"{name} cannot be read as" in done.text) == (1, True), done.text
        assert not (tmp_path / "t").exists()


def test_a_table_of_facts_fits_a_narrow_terminal(run: Terminal, made: Path) -> None:
    """Columns without anything in them are left out, and numbers and times stay whole."""
    lines = run("history", made, width=80).text.splitlines()
    assert "message" not in lines[0]
    assert len([line for line in lines if line.strip()]) == 5
    assert "message" in run("history", made, "--json").json()[0]


def test_narrow_terminals_break_no_names(run: Terminal, tmp_path: Path) -> None:
    """What has no room beside each other stands one below the other; nothing is left out, and no name is cut to pieces."""
    names = [f"forest-of-kelp-{number}.lance" for number in range(3)]
    for name in names:
        lancelet.write_dataset({"id": [1]}, tmp_path / name)
    listed = run("ls", tmp_path, width=60).text
    for part in (*names, "table", "version", "rows", "columns", "size", "committed"):
        assert part in listed
    assert max(map(len, listed.splitlines())) <= 60
    past = run("history", tmp_path / names[0], width=40).text
    assert "operation  Overwrite" in past


def test_rows_of_many_columns_stand_below_each_other(run: Terminal, tmp_path: Path) -> None:
    columns = {f"column_{number}": [f"left {number}", f"right {number}"] for number in range(40)}
    lancelet.write_dataset(columns, tmp_path / "wide.lance")
    lines = [
        line.split(maxsplit=1) for line in run("head", tmp_path / "wide.lance", width=80).text.splitlines() if line
    ]
    assert [[name, value.strip()] for name, value in lines] == [
        [name, values[row]] for row in range(2) for name, values in columns.items()
    ]


def _plain(*words: object, **environment: str) -> subprocess.CompletedProcess[bytes]:
    """A command whose words nobody sees in a terminal."""
    told = {name: value for name, value in os.environ.items() if name != "COLUMNS"} | environment
    return subprocess.run(
        [sys.executable, "-m", "lancelet", *map(str, words)], capture_output=True, timeout=120, check=False, env=told
    )


def test_lines_that_go_into_pipes_are_whole(tmp_path: Path) -> None:
    name = f"{'kelp' * 40}.lance"
    lancelet.write_dataset({"text": ["x" * 59], **{f"column_{number}": ["y"] for number in range(20)}}, tmp_path / name)
    assert name in _plain("ls", tmp_path).stdout.decode()
    assert len(_plain("head", tmp_path / name).stdout.splitlines()) == 3
    # A path in an error can be copied.
    assert str(tmp_path / f"{name}x") in _plain("show", tmp_path / f"{name}x").stderr.decode()


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_letters_that_a_terminal_does_not_have_are_written_out(tmp_path: Path, encoding: str) -> None:
    rows = {"ключ": ["日本語", "é"]}
    lancelet.write_dataset(rows, tmp_path / "letters.lance")
    shown = _plain("head", tmp_path / "letters.lance", PYTHONIOENCODING=encoding)
    assert (shown.returncode, shown.stderr) == (0, b"")
    assert b"\\u65e5\\u672c\\u8a9e" in shown.stdout
    lines = _plain("head", tmp_path / "letters.lance", "--json", PYTHONIOENCODING=encoding).stdout.splitlines()
    assert [json.loads(line)["ключ"] for line in lines] == rows["ключ"]
    missing = _plain("show", tmp_path / "日本語", PYTHONIOENCODING=encoding)
    assert missing.returncode == 1
    assert b"was not found" in missing.stderr


def test_files_that_are_no_tables_are_said_to_be_files(run: Terminal, tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("id\n1\n")
    shown = run("show", tmp_path / "rows.csv")
    assert shown.code == 1
    assert "it is a file" in shown.text
    assert "lancelet import" in shown.text


@pytest.mark.skipif(shutil.which("setpriv") is None, reason="needs setpriv to give up what root may do")
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give up its rights")
def test_a_cleanup_that_may_not_remove_says_so(table: Path) -> None:
    for folder, _, _ in os.walk(table):
        Path(folder).chmod(0o555)
    try:
        done = subprocess.run(
            ["setpriv", "--bounding-set", "-dac_override,-dac_read_search,-fowner", sys.executable, "-m", "lancelet",
             "cleanup", table, "--older-than", "0s", "--yes"],
            capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
    finally:
        for folder, _, _ in os.walk(table):
            Path(folder).chmod(0o755)
    assert done.returncode == 1
    assert "could not be removed" in done.stderr
    assert len(lance.dataset(table).versions()) == 4


def test_an_interrupt_while_the_program_is_loaded_says_nothing() -> None:
    """Loading takes longer than many commands."""
    program = (
        "import importlib.abc, os, signal, sys\n"
        "class Interrupt(importlib.abc.MetaPathFinder):\n"
        "    def find_spec(self, name, path, target=None):\n"
        "        if name == 'lancelet.cli.look': os.kill(os.getpid(), signal.SIGINT)\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "sys.meta_path.insert(0, Interrupt())\n"
        "from _lancelet_command import run\n"
        "run()\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (-signal.SIGINT, "")


def test_an_interrupted_import_leaves_nothing(run: Terminal, tmp_path: Path) -> None:
    rows = tmp_path / "rows.csv"
    rows.write_text("id\n" + "\n".join(map(str, range(1_000_000))))
    done = run("import", *[rows] * 8, tmp_path / "new.lance", keys="\x03", after="rows")
    assert (done.code, "Traceback" in done.text) == (130, False), done.text
    assert not list((tmp_path / "new.lance").rglob("*.*"))


def test_what_is_here(run: Terminal) -> None:
    assert "pyarrow" in run("doctor", "--json").json()["facts"]
    assert "lancelet" in run("--version").text
    assert "TABLE" in run("show", "--help").text


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("show", "nowhere"), 1, "was not found"),
        (("show", "{table}x"), 1, "did you mean kelp.lance?"),
        (("show", "{table}/../other"), 1, "tables there are kelp.lance"),
        (("count", "{table}", "--where", "nope = 1"), 1, "nope"),
        (("count", "{table}", "--where", "id ="), 1, "error:"),
        (("head", "{table}", "-c", "nope"), 1, "nope"),
        (("head", "{table}", "--at", "99"), 1, "99"),
        (("head", "{table}", "--at", "nope"), 1, "the tags first and the branches dev"),
        (("head", "{table}", "--at", "dev:x"), 1, "BRANCH:NUMBER"),
        (("ls", "{table}/nowhere"), 1, "no such folder"),
        (("pages", "{table}", "--column", "nope"), 1, "it has: id, caption, v"),
        (("index", "optimize", "{table}", "nope"), 1, "it has: id_idx"),
        (("index", "create", "{table}", "id", "BTREE"), 1, "--replace"),
        (("head", "{table}", "--at", "1", "--as-of", "2020-01-01"), 1, "one of them"),
        (("head", "{table}", "-o", "region"), 1, "KEY=VALUE"),
        (("head", "{table}", "-n", "-1"), 2, "--limit"),
        (("query", "{table}", "id = 1", "--sql", "SELECT 1"), 1, "whole query"),
        (("query", "{table}", "--sql", "SELEC 1"), 1, "in the query"),
        (("query", "{table}", "--sql", "SELECT 1", "--limit", "1"), 1, "whole query"),
        (("query", "{table}", "--sql", "SELECT CAST('x' AS INT) FROM dataset"), 1, "error:"),
        (("query", "{table}", "--order-by", "id sideways"), 1, "COLUMN DESC"),
        (("diff", "{table}", "1", "nope"), 1, "nope"),
        (("cleanup", "{table}", "--older-than", "soon"), 1, "7d"),
        (("cleanup", "{table}", "--older-than", "99999999999w"), 1, "error:"),
        (("index", "create", "{table}", "v", "NONE"), 1, "NONE"),
        (("index", "create", "{table}", "id", "BTREE", "--set", "x"), 1, "KEY=VALUE"),
        (("import", "{table}"), 1, "the table"),
        (("import", "nowhere.csv", "{table}"), 1, "nowhere.csv"),
        (("import", "rows.txt", "{table}"), 1, "--format"),
        (("export", "{table}", "rows.txt"), 1, "--format"),
        (("export", "{table}", "rows.csv"), 1, "which v has"),
        (("export", "{table}", "nowhere/rows.parquet"), 1, "no such folder"),
        (("swim",), 2, "swim"),
        (("show",), 2, "TABLE"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_mistakes_end_in_a_sentence(run: Terminal, made: Path, words: tuple[str, ...], code: int, said: str) -> None:
    done = run(*(word.format(table=made) for word in words))
    assert (done.code, said in done.text) == (code, True), done.text
    assert "Traceback" not in done.text


def test_damage_is_found_and_named(run: Terminal, table: Path) -> None:
    file = next((table / "data").iterdir())
    file.write_bytes(file.read_bytes()[:-20])
    done = run("verify", table)
    assert done.code == 3
    # The terminal breaks the path into lines.
    assert file.name in "".join(done.text.split())


def test_a_damaged_version_hides_no_other(run: Terminal, table: Path) -> None:
    oldest = max((table / "_versions").glob("*.manifest"))
    oldest.write_bytes(oldest.read_bytes()[:-4])
    past = run("history", table, "--json").json()
    assert [(one["version"], one["problem"] is None) for one in past] == [(4, True), (3, True), (2, True), (1, False)]
    shown = run("history", table)
    assert (shown.code, "damaged" in shown.text) == (0, True)


def test_the_program_itself(table: Path) -> None:
    """Without a terminal: plain text, nothing asked, and a pipe that ends early is no error."""
    done = subprocess.run(
        [sys.executable, "-m", "lancelet", "drop", table], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 1
    assert "--yes" in done.stderr
    assert table.exists()
    piped = subprocess.run(
        f"{sys.executable} -m lancelet head {table} -n 500 --json | head -1",
        shell=True, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert json.loads(piped.stdout)["id"] == 10
    assert piped.stderr == ""


def test_every_command_answers_in_json() -> None:
    def commands(group: Any, above: str = "") -> Iterator[tuple[str, Any]]:
        for name, command in group.commands.items():
            if hasattr(command, "commands"):
                yield from commands(command, f"{above}{name} ")
            else:
                yield f"{above}{name}", command

    found = dict(commands(typer.main.get_command(app)))
    assert {"show", "tag create", "serve", "inspect", "drop"} <= found.keys()
    plain = {name for name, one in found.items() if "--json" not in {opt for given in one.params for opt in given.opts}}
    assert plain == set()


def test_tables_in_a_bucket(run: Terminal, bucket: Any) -> None:
    options = [word for pair in bucket.options.items() for word in ("-o", "=".join(pair))]
    place = f"{bucket.uri}/kelp.lance"
    lancelet.write_dataset({"id": range(30)}, place, storage_options=bucket.options)
    assert run("count", place, *options).text.strip() == "30"
    assert "kelp.lance" in run("ls", bucket.uri, *options).text
    assert run("verify", place, *options).code == 0
    assert run("index", "create", place, "id", "BTREE", *options).code == 0
    assert run("tag", "create", place, "made", 1, *options).code == 0
    assert run("diff", place, "made", 2, *options).code == 0
    assert (
        run("clone", place, f"{bucket.uri}/copy.lance", "--deep", "--at", "made", "--json", *options).json()["rows"]
        == 30
    )
    assert run("drop", f"{bucket.uri}/copy.lance", "--yes", *options).code == 0
    assert "copy.lance" not in run("ls", bucket.uri, *options).text
    missing = run("show", f"{bucket.uri}/nothing", *options)
    assert (missing.code, "was not found" in missing.text) == (1, True)


def test_tables_are_served(tmp_path: Path) -> None:
    lancelet.connect(tmp_path / "space").create("kelp", {"id": [1, 2]})
    process = subprocess.Popen(
        [sys.executable, "-m", "lancelet", "serve", tmp_path / "space", "--port", "0", "--token", "a-secret-of-ours"],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        space = lancelet.connect("rest", uri=address, token="a-secret-of-ours")
        assert space.open("kelp").count_rows() == 2
        # The command line is a client too.
        asked = subprocess.run(
            [sys.executable, "-m", "lancelet", "count", f"{address}#kelp"],
            capture_output=True, text=True, timeout=120, check=False, env={**os.environ, "LANCELET_TOKEN": "a-secret-of-ours"},
        )  # fmt: skip
        assert (asked.returncode, asked.stdout) == (0, "2\n"), asked.stderr
    finally:
        process.terminate()
        with process:
            pass
    assert process.returncode == 0
    refused = subprocess.run(
        [sys.executable, "-m", "lancelet", "serve", tmp_path / "space", "--host", "0.0.0.0"],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert refused.returncode == 1
    assert "token" in refused.stderr


def test_a_page_is_served_until_it_is_interrupted(made: Path) -> None:
    # What is started in the background ignores interrupts.
    heard = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    process = subprocess.Popen(
        [sys.executable, "-c", f"{heard}; from lancelet.cli.main import run; run()", "inspect", made, "--no-browser", "--json"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    with process:
        assert process.stdout is not None
        address = json.loads(process.stdout.readline())["address"]
        assert address.startswith("http://127.0.0.1:")
        with urlopen(f"{address}facts/overview") as answer:
            assert json.loads(answer.read())["rows"] == 590
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in said


def test_shells_complete_words() -> None:
    asked = {**os.environ, "_LANCELET_COMPLETE": "complete_bash", "COMP_WORDS": "lancelet ver", "COMP_CWORD": "1"}
    program = "import sys; sys.argv = ['lancelet']; from _lancelet_command import run; run()"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False, env=asked
    )
    assert done.stdout.split() == ["verify"], done.stderr
