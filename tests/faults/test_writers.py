"""Processes that change one table at once, through the public calls: no row is lost or doubled.

Each process says when it is ready and begins when all are, so that they really meet. Some are pylance's.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import lance
import pytest

import lancelet
from conftest import Bucket
from forked import forked

SCRIPT = """
import importlib, json, os, sys
os.environ["RUST_BACKTRACE"] = "0"
import pyarrow as pa
engine, act, where, options, number, turns = json.loads(sys.argv[1])
engine = importlib.import_module(engine)

def append(turn):
    rows = pa.table({"writer": [number] * 2, "turn": [turn] * 2, "k": [0, 1]})
    while True:
        try:
            engine.write_dataset(rows, where, mode="append", storage_options=options)
            return 2
        except OSError as error:
            # pylance gives up after half a minute among many writers; that is no part of the promise.
            if engine.__name__ == "lancelet" or "Too many concurrent writers" not in str(error):
                raise

def delete(turn):
    return engine.dataset(where, storage_options=options).delete(turn, conflict_retries=100)["num_deleted_rows"]

print("ready", flush=True)
sys.stdin.readline()
print(json.dumps([{"append": append, "delete": delete}[act](turn) for turn in turns]))
"""

Options = dict[str, str] | None


def together(where: str, options: Options, work: list[tuple[str, str, list[Any]]]) -> list[list[int]]:
    """Run (engine, act, turns) each in a process of its own; returns what each turn reported."""
    running = [
        forked(SCRIPT, json.dumps([engine, act, where, options, number, turns]))
        for number, (engine, act, turns) in enumerate(work)
    ]
    for process in running:
        assert process.stdout.readline() == "ready\n", process.communicate()[1]
    for process in running:
        process.stdin.write("\n")
        process.stdin.flush()
    answers = [process.communicate() for process in running]
    failed = [errors.strip().splitlines()[-1] for (_, errors), p in zip(answers, running, strict=True) if p.returncode]
    assert failed == []
    return [json.loads(output) for output, _ in answers]


def rows(where: str, options: Options, *names: str) -> list[tuple[Any, ...]]:
    """What both read, sorted."""
    ours = lancelet.dataset(where, storage_options=options).to_table(list(names))
    theirs = lance.dataset(where, storage_options=options)
    theirs.validate()
    assert ours.equals(theirs.to_table(list(names)))
    return sorted(zip(*(ours[name].to_pylist() for name in names), strict=True))


def appended(where: str, options: Options, engines: list[str], each: int) -> None:
    """Every process appends ``each`` times; every append is a version of its own, with its rows in it once."""
    first = {"writer": [-1], "turn": [-1], "k": [-1]}
    lancelet.write_dataset(first, where, storage_options=options)
    together(where, options, [(engine, "append", list(range(each))) for engine in engines])
    expected = [(writer, turn, k) for writer in range(len(engines)) for turn in range(each) for k in (0, 1)]
    assert rows(where, options, "writer", "turn", "k") == [(-1, -1, -1), *expected]
    dataset = lancelet.dataset(where, storage_options=options)
    assert dataset.version == 1 + len(engines) * each
    assert [fragment.fragment_id for fragment in dataset.get_fragments()] == list(range(dataset.version))
    assert [entry["version"] for entry in dataset.versions()] == list(range(1, dataset.version + 1))


PLACES = ["local", "s3"]


def locate(place: str, tmp_path: Path, bucket: Bucket) -> tuple[str, Options]:
    return (str(tmp_path / "t"), None) if place == "local" else (f"{bucket.uri}/t", bucket.options)


@pytest.mark.parametrize("place", PLACES)
def test_appends(place: str, tmp_path: Path, bucket: Bucket) -> None:
    appended(*locate(place, tmp_path, bucket), ["lancelet"] * 4, 4)


@pytest.mark.parametrize("place", PLACES)
def test_appends_beside_pylance(place: str, tmp_path: Path, bucket: Bucket) -> None:
    appended(*locate(place, tmp_path, bucket), ["lancelet", "lance"] * 2, 3)


@pytest.mark.soak
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("engines", [["lancelet"], ["lancelet", "lance"]], ids=["alone", "beside-pylance"])
def test_sixteen_writers(place: str, engines: list[str], tmp_path: Path, bucket: Bucket) -> None:
    # The store of the tests, one process of Python, takes a tenth of a second for a commit that sixteen want.
    appended(*locate(place, tmp_path, bucket), engines * (16 // len(engines)), 25 if place == "local" else 6)


@pytest.mark.parametrize(
    ("engines", "stable"),
    [
        pytest.param(["lancelet"], False, id="alone", marks=pytest.mark.soak),
        pytest.param(["lancelet", "lance"], True, id="beside-pylance"),
    ],
)
def test_eight_writers_delete_disjoint_rows_of_a_fragment(tmp_path: Path, engines: list[str], stable: bool) -> None:
    where, writers = str(tmp_path / "t"), 8
    lancelet.write_dataset({"k": range(50)}, where, enable_stable_row_ids=stable)
    engines = engines * (writers // len(engines))
    work = [
        (engine, "delete", [f"k % {writers} = {number} and k < 16", f"k = {16 + number}", f"k = {24 + number}"])
        for number, engine in enumerate(engines)
    ]
    assert together(where, None, work) == [[2, 1, 1]] * writers
    assert [k for (k,) in rows(where, None, "k")] == list(range(32, 50))
    assert lancelet.dataset(where).version == 1 + 3 * writers
    assert len(lancelet.dataset(where).get_fragments()) == 1


@pytest.mark.parametrize(
    "engines",
    [
        pytest.param(["lancelet"], id="alone", marks=pytest.mark.soak),
        pytest.param(["lancelet", "lance"], id="beside-pylance"),
    ],
)
def test_overlapping_deletes_count_every_row_once(tmp_path: Path, engines: list[str]) -> None:
    """Who comes second finds its rows again: those that are left."""
    where, writers = str(tmp_path / "t"), 6
    lancelet.write_dataset({"k": range(60)}, where, max_rows_per_file=40)
    work = [
        (engines[number % len(engines)], "delete", [f"k >= {5 * number} and k < {5 * number + 20}", "k % 7 = 3"])
        for number in range(writers)
    ]
    counts = together(where, None, work)
    left = [k for k in range(60) if k >= 45 and k % 7 != 3]
    assert [k for (k,) in rows(where, None, "k")] == left
    assert sum(map(sum, counts)) == 60 - len(left)


def test_appends_and_deletes_at_once(tmp_path: Path) -> None:
    where = str(tmp_path / "t")
    lancelet.write_dataset({"writer": [-1] * 30, "turn": range(30), "k": [0] * 30}, where)
    deletes = [f"writer = -1 and turn % 10 = {turn}" for turn in range(8)]
    work = [
        ("lancelet", "append", [0, 1, 2, 3]),
        ("lance", "append", [0, 1, 2, 3]),
        ("lancelet", "delete", deletes[::2]),
        ("lance", "delete", deletes[1::2]),
    ]
    assert together(where, None, work)[2:] == [[3] * 4] * 2
    kept = [(-1, turn) for turn in range(30) if turn % 10 >= 8]
    added = [(writer, turn) for writer in (0, 1) for turn in range(4) for _ in (0, 1)]
    assert rows(where, None, "writer", "turn") == [*kept, *added]
