"""NGRAM: answers that hold at least what brute force finds, and files equal to pylance's."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable
from pathlib import Path

import lance
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyroaring import BitMap64

import lancelet
from drawing import examples
from index.segments import Rows, Workbench, content, made, refused_flips
from lancelet.errors import CorruptFile, InvalidInput
from lancelet.index.folder import IndexFolder
from lancelet.index.kind import Source
from lancelet.index.metadata import read_indices
from lancelet.index.questions import Answer, Holds, IsIn, Missing, Question, StartsWith
from lancelet.index.row_set import RowSet
from lancelet.index.scalar.folding import LIMIT, certain_runs, fold, folding_table
from lancelet.index.scalar.ngram import KIND
from lancelet.index.scalar.ngram_segment import FILE
from lancelet.index.scalar.treemaps import with_lengths, without_lengths
from lancelet.index.scalar.trigrams import sorted_postings

_LETTERS = "abcABCxyz019 -_.éÉßøŁđæœþİıĸſǎșț日本\u0301\U0001d5e9ⱽ㎸ﬃ¼\U0001f600K"
_WORDS = [
    "quick",
    "QUICK",
    "brown",
    "Straße",
    "strasse",
    "Łódź",
    "lodz",
    "naïve",
    "việt",
    "日本語",
    "fox-trot",
    "x9z",
    "ab",
]


def _texts(count: int) -> pa.Array:
    """Words and wild mixtures of letters; nulls, empty and short texts among them."""
    rng = np.random.default_rng(3)
    letters = list(_LETTERS)
    texts: list[str | None] = [None, "", "a", "ab", "abc", "a" * 5000, "\U0001d5e9" * 3]
    while len(texts) < count:
        if rng.random() < 0.5:
            texts.append(" ".join(rng.choice(_WORDS, rng.integers(1, 5))))
        else:
            texts.append("".join(rng.choice(letters, rng.integers(0, 30))) if rng.random() < 0.9 else None)
    return pa.array(texts)


TEXTS = _texts(500)
PIECES = [
    *_WORDS[:-1],
    "abc",
    "ick brown",
    "Straß",
    "straße qui",
    "ł",
    "łód",
    "x9z",
    "ABC",
    "aaa",
    "zzzzz",
    "語 quick",
    "viet",
]
QUESTIONS: list[Question] = [
    *(Holds((piece,), True) for piece in PIECES),
    *(StartsWith(piece) for piece in PIECES),
    Holds(("quick", "fox"), False),
    Holds(("Łód", "a", "naïve"), False),
    Holds(("x" * 300,), True),
    Holds(("a" * 300,), True),
]


def truth(texts: pa.Array, question: Question) -> npt.NDArray[np.bool_]:
    def holds(text: str | None) -> bool:
        if text is None:
            return False
        if isinstance(question, StartsWith):
            return text.startswith(str(question.prefix))
        assert isinstance(question, Holds)
        at = 0
        for piece in question.pieces:
            found = text.find(piece, at)
            if found < 0:
                return False
            at = found + len(piece)
        return True

    return np.array([holds(text) for text in texts.to_pylist()], np.bool_)


def check(answer: Answer, question: Question, texts: pa.Array, rows: Rows) -> int:
    """The true rows are in the answer; tells how many are too many."""
    want = rows[truth(texts, question)]
    assert not answer.exact
    assert answer.nulls is None
    assert np.isin(want, answer.rows.numbers()).all(), question
    return len(answer.rows) - len(want)


def check_all(segment: object, texts: pa.Array, rows: Rows) -> None:
    for question in QUESTIONS:
        if KIND.takes(question, texts.type):
            check(segment.ask(question), question, texts, rows)  # type: ignore[attr-defined]


@pytest.mark.parametrize("dtype", [pa.string(), pa.large_string()])
def test_texts(tmp_path: Path, dtype: pa.DataType) -> None:
    texts = TEXTS.cast(dtype)
    bench = Workbench(tmp_path / "t", texts, KIND, max_rows_per_file=300)
    rows = bench.dataset.to_table([], with_row_id=True)["_rowid"].to_numpy()
    ours, built, folder = bench.write(texts, rows, step=37)
    for segment in (ours, bench.theirs()):
        check_all(segment, texts, rows)
    assert (built.details, built.index_version) == (bench.entry.details, bench.entry.index_version)
    mine, metadata = content(folder / FILE)
    other, their_metadata = content(bench.folder(bench.entry) / FILE)
    assert mine.equals(other)
    assert mine.schema.equals(other.schema, check_metadata=True)
    assert metadata == their_metadata
    assert dict(ours.statistics()) == bench.dataset.stats.index_stats("v_idx")["indices"][0]
    assert ours.nbytes > 0


@pytest.mark.parametrize("values", [[], ["abc"], [None, None], ["", "a"]])
def test_small_columns(tmp_path: Path, values: list[str | None]) -> None:
    texts = pa.array(values, pa.string())
    bench = Workbench(tmp_path / "t", texts, KIND)
    ours, _, folder = bench.write(texts)
    assert content(folder / FILE)[0].equals(content(bench.folder(bench.entry) / FILE)[0])
    check_all(ours, texts, np.arange(len(texts), dtype=np.uint64))


def test_few_rows_are_left(tmp_path: Path) -> None:
    texts = pa.array([f"item number {number} of {number * 7}" for number in range(2000)])
    bench = Workbench(tmp_path / "t", texts, KIND)
    rows = np.arange(2000, dtype=np.uint64)
    question = Holds(("number 1234 of",), True)
    assert check(bench.theirs().ask(question), question, texts, rows) < 100
    assert not bench.theirs().ask(Holds(("qqq",), True)).rows
    assert not bench.theirs().ask(Holds(("item", "zzz"), False)).rows


# Folding.


def _file_of(where: Path, texts: pa.Array) -> pa.Table:
    lance.write_dataset(pa.table({"v": texts}), where, max_rows_per_file=1 << 21)
    lance.dataset(where).create_scalar_index("v", "NGRAM")
    entry = read_indices(lancelet.dataset(where)._snapshot.manifest)[0]
    return content(where / "_indices" / str(entry.uuid) / FILE)[0]


def _folds_as_pylance(where: Path, codes: Iterable[int]) -> None:
    texts = pa.array([f"zq{chr(code)}qz" for code in codes if not 0xD800 <= code < 0xE000])
    theirs = _file_of(where / "a", texts)
    shutil.copytree(where / "a", where / "b")
    ours = lancelet.dataset(where / "b")
    ours.drop_index("v_idx")
    ours.create_scalar_index("v", "NGRAM")
    entry = read_indices(ours._snapshot.manifest)[0]
    assert content(where / "b" / "_indices" / str(entry.uuid) / FILE)[0].equals(theirs)


def test_characters(tmp_path: Path) -> None:
    """Every character that could become ASCII becomes what it becomes in pylance."""
    _folds_as_pylance(
        tmp_path, [*range(0x3400), *range(0xA000, 0xAC00), *range(0xF900, 0x10900), *range(0x1C000, LIMIT)]
    )


@pytest.mark.soak
def test_all_characters(tmp_path: Path) -> None:
    _folds_as_pylance(tmp_path, range(sys.maxunicode + 1))


def test_certain_characters() -> None:
    assert certain_runs("Straße-Łódź") == ["strasse", "lodz"]
    assert certain_runs("ĸra İstanbul e\u0301t ǎbc 日本 \U0001d5e9a") == ["ra", "stanbul", "e", "t", "bc", "a"]
    table = folding_table()
    for code in range(0x80, 0x250):
        for run in certain_runs(f"{chr(code)}"):
            # What is certain is what is written, too.
            assert fold(chr(code)) == run
            assert int(table[code]) & 0xFF == len(run)


def test_no_character_becomes_much_longer() -> None:
    """The kernel makes room for twice the bytes of a text."""
    counts = folding_table() & np.uint64(0xFF)
    for code in np.flatnonzero(counts > 2).tolist():
        assert int(counts[code]) <= 2 * len(chr(code).encode())


def test_takes() -> None:
    for question, taken in (
        (Holds(("ab",), True), False),
        (Holds(("ab", "cd"), True), False),
        (Holds(("a-b-c",), True), False),
        (Holds(("日本語",), True), False),
        (Holds(("ab", "abc"), True), True),
        (StartsWith("ßa"), True),
        (StartsWith(b"abc"), False),
        (Missing(), False),
        (IsIn(pa.array(["abc"])), False),
    ):
        assert KIND.takes(question, pa.string()) is taken, question


def test_columns_that_it_cannot_have() -> None:
    for dtype in (pa.int8(), pa.binary(), pa.list_(pa.string()), pa.dictionary(pa.int8(), pa.string())):
        with pytest.raises(TypeError, match="must be a string"):
            KIND.check(pa.field("v", dtype), {})
    with pytest.raises(InvalidInput, match="bins"):
        KIND.check(pa.field("v", pa.string()), {"bins": 3})
    with pytest.raises(InvalidInput, match="JSON"):
        KIND.check(pa.field("v", pa.string(), metadata={"ARROW:extension:name": "lance.json"}), {})


# Writing.


@pytest.mark.parametrize("stable", [False, True])
def test_after_changes(tmp_path: Path, stable: bool) -> None:
    """Stable ids are what segments hold where a table has them, and these come in any order."""
    table = pa.table({"v": TEXTS, "k": range(len(TEXTS))})
    for where in (tmp_path / "a", tmp_path / "b"):
        lance.write_dataset(table, where, max_rows_per_file=90, enable_stable_row_ids=stable)
        lance.dataset(where).delete("k % 11 = 3")
        lance.dataset(where).update({"k": "k + 1000"}, where="k % 5 = 1")
    lance.dataset(tmp_path / "a").create_scalar_index("v", "NGRAM")
    lancelet.dataset(tmp_path / "b").create_scalar_index("v", "NGRAM")
    for step in ("create", "append", "compact"):
        found = []
        for where in (tmp_path / "a", tmp_path / "b"):
            snapshot = lancelet.dataset(where)._snapshot
            entry = read_indices(snapshot.manifest)[0]
            found.append(content(where / "_indices" / str(entry.uuid) / FILE)[0])
            rows = lance.dataset(where).to_table(["v"], with_row_id=True)
            segment = KIND.open(IndexFolder(snapshot, entry), pa.string())
            check_all(segment, rows["v"].combine_chunks(), rows["_rowid"].to_numpy())
        lists = [[set(BitMap64.deserialize(data)) for data in table["posting_list"].to_pylist()] for table in found]
        assert found[0]["tokens"].equals(found[1]["tokens"]), step
        assert lists[0] == lists[1], step
        for where, engine in ((tmp_path / "a", lance), (tmp_path / "b", lancelet)):
            if step == "create":
                engine.write_dataset(table.slice(0, 70), where, mode="append")
                engine.dataset(where).optimize.optimize_indices()
            else:
                engine.dataset(where).optimize.compact_files()


def test_pylance_asks_ours(tmp_path: Path) -> None:
    lance.write_dataset(pa.table({"v": TEXTS}), tmp_path / "t", max_rows_per_file=170)
    lancelet.dataset(tmp_path / "t").create_scalar_index("v", "NGRAM")
    dataset = lance.dataset(tmp_path / "t")
    used = 0
    for piece in PIECES:
        for text in (f"contains(v, '{piece}')", f"v like '%{piece}%a%'", f"starts_with(v, '{piece}')"):
            scans = [dataset.scanner(filter=text, with_row_id=True, use_scalar_index=use) for use in (True, False)]
            used += "ScalarIndexQuery" in scans[0].explain_plan()
            found = [sorted(scan.to_table()["_rowid"].to_pylist()) for scan in scans]
            assert found[0] == found[1], text
    assert used > len(PIECES)


def _moved(rows: Rows) -> tuple[Rows, npt.NDArray[np.bool_]]:
    """Every third row is gone, the others are in other fragments and in another order."""
    return (rows * np.uint64(2654435761)) % np.uint64(1 << 33), rows % np.uint64(3) != 0


@pytest.fixture(params=["roomy", "tight"])
def _limits(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits at which postings are put aside, merged and carried over; tight ones are met by small columns too."""
    if request.param == "tight":
        ngram, runs = "lancelet.index.scalar.ngram_segment.", "lancelet.index.scalar.posting_runs."
        for name, value in (
            (ngram + "_RUN_ROWS", 50),
            (ngram + "_LISTS_AT_ONCE", 7),
            (ngram + "_ROWS_AT_ONCE", 20),
            (runs + "_AT_ONCE", 30),
            (runs + "_DENSE", 25),
        ):
            monkeypatch.setattr(name, value)


@pytest.mark.usefixtures("_limits")
def test_merged_and_renamed(tmp_path: Path) -> None:
    bench = Workbench(tmp_path / "t", TEXTS, KIND, max_rows_per_file=300)
    rows = bench.dataset.to_table([], with_row_id=True)["_rowid"].to_numpy()
    far = np.arange(len(TEXTS), dtype=np.uint64)[::-1] + np.uint64(1 << 34)
    second, _, _ = bench.write(TEXTS, far, step=11)
    assert second.statistics() == bench.theirs().statistics()
    near = np.arange(len(TEXTS), dtype=np.uint64) + np.uint64(9 << 32)
    merged, _, folder = bench.write(TEXTS, near, [Source(bench.theirs(), _moved), Source(second)], step=11)
    moved, kept = _moved(rows)
    everything = pa.concat_arrays([TEXTS.filter(pa.array(kept)), TEXTS, TEXTS])
    numbers = np.concatenate([moved[kept], far, near])
    check_all(merged, everything, numbers)
    fresh, _, other = bench.write(everything, numbers)
    assert fresh.statistics() == merged.statistics()
    lists = [
        [set(BitMap64.deserialize(data)) for data in content(where / FILE)[0]["posting_list"].to_pylist()]
        for where in (folder, other)
    ]
    assert lists[0] == lists[1]
    nothing, _, _ = bench.write(None, None, [Source(merged, lambda rows: (rows, np.zeros(len(rows), np.bool_)))])
    assert nothing.statistics() == {"num_ngrams": 0}


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Workbench:
    return Workbench(tmp_path_factory.mktemp("bench") / "t", pa.array(["abc", "abcd", None]), KIND)


@settings(deadline=None, max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.one_of(st.none(), st.text(_LETTERS, max_size=12), st.text(max_size=6)), min_size=1, max_size=30),
    st.data(),
)
def test_drawn_texts(bench: Workbench, drawn: list[str | None], data: st.DataObject) -> None:
    """A piece of a text leads to that text."""
    texts = pa.array(drawn, pa.string())
    segment, _, folder = bench.write(texts, step=data.draw(st.integers(1, 9)))
    text = data.draw(st.sampled_from(drawn)) or ""
    start = data.draw(st.integers(0, len(text)))
    question = Holds((text[start : data.draw(st.integers(start, len(text)))],), True)
    if KIND.takes(question, texts.type):
        check(segment.ask(question), question, texts, np.arange(len(texts), dtype=np.uint64))
    shutil.rmtree(folder)


# Kernels, and damaged files.


def test_kernels_refuse() -> None:
    data, none, table = np.zeros(8, np.uint8), np.empty(0, np.uint8), folding_table()
    for ends in ([0, 9], [5, 3], [-1, 3], []):
        with pytest.raises(ValueError, match="offsets"):
            sorted_postings(data, np.array(ends, np.int64), none, table)
    with pytest.raises(ValueError, match="needed"):
        sorted_postings(data, np.array([0, 3, 8]), np.ones(1, np.uint8), table)
    with pytest.raises(ValueError, match="needed"):
        sorted_postings(data, np.array([0, 3, 8]), none, table[:0])


@pytest.mark.parametrize("text", [b"\xff\xfe\xfdabc", b"abc\xe2\x82", b"abc\xf0\x9f", b"\x80\x80abc", b"abc\xc3"])
def test_bytes_that_are_no_text(text: bytes) -> None:
    tokens, sizes, places = sorted_postings(
        np.frombuffer(text, np.uint8), np.array([0, len(text)]), np.empty(0, np.uint8), folding_table()
    )
    assert tokens.tolist() == [(11 * 37 + 12) * 37 + 13]
    assert (sizes.tolist(), places.tolist()) == ([1], [0])


SETS = [
    RowSet(),
    RowSet.of(np.array([5], np.uint64)),
    RowSet.of(np.array([1, 70000, 1 << 33, (1 << 33) + 9, 1 << 40], np.uint64)),
    RowSet.of(np.arange(0, 100_000, 2, dtype=np.uint64)),
    RowSet.ranges([3], [100], [300_000]),
]


def test_treemaps() -> None:
    stored = [one.serialize() for one in SETS]
    data, ends = np.frombuffer(b"".join(stored), np.uint8), np.cumsum([0, *map(len, stored)])
    maps, places = without_lengths(data, ends)
    for one, start, stop in zip(SETS, places, places[1:], strict=False):
        assert list(BitMap64.deserialize(maps[start:stop].tobytes())) == one.numbers().tolist()
    back, again = with_lengths(maps, places)
    assert (back.tobytes(), again.tolist()) == (data.tobytes(), ends.tolist())
    for stop in range(len(maps) - len(stored[-1]) - 50, len(maps)):
        with pytest.raises(ValueError, match="a set of rows"):
            with_lengths(maps, np.array([places[-2], stop]))
    with pytest.raises(ValueError, match="all its bitmaps"):
        without_lengths(np.frombuffer(RowSet.whole([1]).serialize(), np.uint8), np.array([0, 12]))


ABC = (11 * 37 + 12) * 37 + 13
LIST = BitMap64([1, 5, 1 << 33]).serialize()


def test_wrong_tokens(bench: Workbench) -> None:
    for tokens in (
        pa.array([ABC, ABC], pa.uint32()),
        pa.array([ABC, 5], pa.uint32()),
        pa.array([ABC, None], pa.uint32()),
        pa.array([ABC, 2**32 - 1], pa.uint32()),
        pa.array([1, 2], pa.uint64()),
    ):
        with pytest.raises(CorruptFile, match=FILE):
            KIND.open(made(bench, FILE, {"tokens": tokens, "posting_list": pa.array([LIST, LIST])}, {}), pa.string())


@pytest.mark.parametrize(
    "data", [None, b"", LIST[:-1], LIST + b"\0", LIST.replace(b"\x3a\x30", b"\x3c\x30"), b"\xff" * 8 + LIST[8:]]
)
def test_damaged_lists(bench: Workbench, data: bytes | None) -> None:
    segment = KIND.open(
        made(
            bench,
            FILE,
            {"tokens": pa.array([7, ABC], pa.uint32()), "posting_list": pa.array([LIST, data], pa.binary())},
            {},
        ),
        pa.string(),
    )
    with pytest.raises(CorruptFile, match=FILE):
        segment.ask(Holds(("abc",), True))
    with pytest.raises(CorruptFile, match=FILE):
        bench.write(None, None, [Source(segment)])


def test_flipped_bytes(tmp_path: Path) -> None:
    """Whatever bytes are damaged: an answer, or an error that names the file."""
    bench = Workbench(tmp_path / "t", TEXTS[:60], KIND)
    asked = [Holds((piece,), True) for piece in ("abc", "quick", "strasse")]
    assert refused_flips(bench, FILE, asked) > 20
