"""``python -m benchmarks.texts``: full-text search, lancelet, pylance and tantivy side by side.

Builds: CPU time, and bytes of what was built. Queries: CPU time, on the index that pylance built, so that both read the same
files; scores are compared before anything is timed. tantivy, where it is installed (``pip install --target somewhere tantivy``,
and ``PYTHONPATH``), has an index of its own, on disk, with one writing thread; it finds numbers of documents, and no columns.

Documents are drawn (words by Zipf's law, about a hundred to a document), or, with ``--real``, pieces of about a hundred words of
the texts below some folders: by default those that come with Python and its packages, and ``/usr/share`` where there is
one. It says which they are, how many, and how many different words they have.
"""

from __future__ import annotations

import argparse
import re
import shutil
import statistics
import sysconfig
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

import lance
import lance.query
import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.table import Table

import lancelet
import lancelet.query

CHUNK = 10_000
WORDS = 200_000
LENGTH = 110
BEST = 10
UNINDEXED = 10_000
QUERIES = 8
TURN = 0.1
LEAST_CALLS = 2
SUFFIXES = (".txt", ".rst", ".md", ".py", ".html", ".h", ".pl", ".pod", ".tex")
NAMES = ("COPYRIGHT", "LICENSE", "COPYING", "README", "METADATA", "AUTHORS", "NEWS")
OPTIONS = {"with_position": True, "stem": False, "remove_stop_words": False}


class Corpus(Protocol):
    """Documents, and their words by how often they are used."""

    rows: int

    def batches(self, first: int, count: int) -> Iterator[pa.RecordBatch]:
        """Some of the documents."""

    def word(self, rank: int) -> str:
        """A word; the lower its number, the more common."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """Documents of words that are the rarer the higher their number."""

    rows: int

    def batches(self, first: int, count: int) -> Iterator[pa.RecordBatch]:
        for start in range(first, first + count, CHUNK):
            drawn = np.random.default_rng([7, start])
            size = min(CHUNK, first + count - start)
            lengths = drawn.integers(LENGTH // 2, LENGTH * 3 // 2, size)
            words = (np.exp(drawn.random(int(lengths.sum())) * np.log(WORDS)) - 1).astype(np.int64)
            texts = [" ".join(f"w{word}" for word in some) for some in np.split(words, np.cumsum(lengths)[:-1])]
            yield pa.record_batch({"key": np.arange(start, start + size), "text": texts})

    def word(self, rank: int) -> str:
        return f"w{rank}"


class Real:
    """Pieces of texts that lie on this machine, one after the other."""

    def __init__(self, folders: Sequence[Path], rows: int) -> None:
        self.texts = [text for _, text in zip(range(rows + UNINDEXED), _pieces(folders), strict=False)]
        if len(self.texts) < 2 * CHUNK:
            raise SystemExit(f"{', '.join(map(str, folders))} have {len(self.texts)} texts, which are too few")
        # The last ones are those that are not indexed.
        self.rows = max(CHUNK, min(rows, len(self.texts) - UNINDEXED))
        counts = Counter(word for text in self.texts for word in re.findall(r"\b[a-z]{2,20}\b", text.lower()))
        self.words = [word for word, _ in counts.most_common()]

    def batches(self, first: int, count: int) -> Iterator[pa.RecordBatch]:
        for start in range(first, min(first + count, len(self.texts)), CHUNK):
            some = self.texts[start : min(start + CHUNK, first + count)]
            yield pa.record_batch({"key": np.arange(start, start + len(some)), "text": some})

    def word(self, rank: int) -> str:
        return self.words[min(rank, len(self.words) - 1)]


def _pieces(folders: Sequence[Path]) -> Iterator[str]:
    """Texts of about so many words, each once."""
    seen: set[int] = set()
    for folder in folders:
        for path in sorted(folder.rglob("*")):
            if path.suffix not in SUFFIXES and path.name.upper() not in NAMES:
                continue
            try:
                words = path.read_text("utf-8").split()
            except (OSError, UnicodeDecodeError):
                continue
            for start in range(0, len(words), LENGTH):
                text = " ".join(words[start : start + LENGTH])
                if hash(text) not in seen:
                    seen.add(hash(text))
                    yield text


def default_folders() -> list[Path]:
    """Where texts are on most machines."""
    known = [sysconfig.get_paths()["stdlib"], sysconfig.get_paths()["purelib"], "/usr/share"]
    return [Path(folder) for folder in known if Path(folder).is_dir()]


def write(corpus: Corpus, where: Path, first: int, count: int, mode: str = "create") -> lance.LanceDataset:
    schema = pa.schema({"key": pa.int64(), "text": pa.string()})
    return lance.write_dataset(
        pa.RecordBatchReader.from_batches(schema, corpus.batches(first, count)), where, mode=mode
    )


@dataclass(frozen=True, slots=True)
class Case:
    """Queries of one kind: texts, and what is made of one."""

    name: str
    texts: tuple[str, ...]
    make: Callable[[ModuleType, str], Any]
    options: tuple[tuple[str, Any], ...] = ()
    tantivy: Callable[[str], str] | None = None


def _match(names: ModuleType, text: str) -> Any:
    return names.MatchQuery(text, "text")


def _every(names: ModuleType, text: str) -> Any:
    return names.MatchQuery(text, "text", operator=names.FullTextOperator.AND)


def _phrase(names: ModuleType, text: str) -> Any:
    return names.PhraseQuery(text, "text")


def _fuzzy(names: ModuleType, text: str) -> Any:
    return names.MatchQuery(text, "text", fuzziness=1)


def _boolean(names: ModuleType, text: str) -> Any:
    one, two, three = (names.MatchQuery(word, "text") for word in text.split())
    occur = names.Occur
    return names.BooleanQuery([(occur.MUST, one), (occur.SHOULD, two), (occur.MUST_NOT, three)])


def cases(corpus: Corpus) -> list[Case]:
    """Those of the design."""
    drawn = np.random.default_rng(3)

    def texts(*bounds: tuple[int, int]) -> tuple[str, ...]:
        return tuple(
            " ".join(corpus.word(int(drawn.integers(low, high))) for low, high in bounds) for _ in range(QUERIES)
        )

    rare, common, middle = (20_000, 100_000), (0, 20), (100, 3_000)
    mixed = texts(middle, middle, rare)
    threes = texts(common, common, common)
    pairs = texts((0, 30), (30, 300))
    prefilter = (("filter", "key % 10 = 3"), ("prefilter", True))
    return [
        Case("rare term", texts(rare), _match, tantivy=str),
        Case("common term", texts(common), _match, tantivy=str),
        Case("three terms, any", mixed, _match, tantivy=str),
        Case("three common terms, any", threes, _match, tantivy=str),
        Case("two terms, all", pairs, _every, tantivy=lambda text: " AND ".join(text.split())),
        Case("phrase", texts((0, 10), (0, 10)), _phrase, tantivy=lambda text: f'"{text}"'),
        Case("fuzzy", texts(middle), _fuzzy),
        Case("boolean", texts(middle, common, common), _boolean),
        Case("three terms, prefilter of 10 %", mixed, _match, prefilter),
    ]


def ask(engine: ModuleType, dataset: Any, case: Case, text: str) -> np.ndarray[Any, np.dtype[np.float32]]:
    names = lance.query if engine is lance else lancelet.query
    found = dataset.to_table(
        columns=["key", "_score"], full_text_query=case.make(names, text), limit=BEST, **dict(case.options)
    )
    return found["_score"].to_numpy()


def check(datasets: dict[ModuleType, Any], case: Case) -> None:
    """Both find rows of the same scores."""
    for text in case.texts:
        ours, theirs = (ask(engine, datasets[engine], case, text) for engine in (lancelet, lance))
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, err_msg=f"{case.name}: {text}")


def measure(work: Callable[[], object]) -> float:
    """CPU milliseconds of one call: of as many as make a turn that is long beside what the other left in the caches."""
    begin, calls = time.process_time(), 0
    while calls < LEAST_CALLS or time.process_time() < begin + TURN:
        work()
        calls += 1
    return (time.process_time() - begin) * 1000 / calls


def compare(datasets: dict[ModuleType, Any], case: Case, rounds: int) -> dict[ModuleType, float]:
    """The medians of rounds in turn."""
    check(datasets, case)
    taken: dict[ModuleType, list[float]] = {engine: [] for engine in datasets}
    for _ in range(rounds):
        for engine, dataset in datasets.items():

            def work(engine: ModuleType = engine, dataset: Any = dataset) -> None:
                for text in case.texts:
                    ask(engine, dataset, case, text)

            taken[engine].append(measure(work) / len(case.texts))
    return {engine: statistics.median(some) for engine, some in taken.items()}


@dataclass(frozen=True, slots=True)
class Built:
    """What an engine built."""

    seconds: float
    """CPU."""
    size: int

    @classmethod
    def by(cls, work: Callable[[], object], folder: Path) -> Built:
        begin = time.process_time()
        work()
        taken = time.process_time() - begin
        return cls(taken, sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()))


def build(engine: ModuleType, where: Path) -> Built:
    """An index on a table that is there, in place of the one that it has."""
    shutil.rmtree(where / "_indices", ignore_errors=True)
    dataset = engine.dataset(where)
    return Built.by(lambda: dataset.create_scalar_index("text", "INVERTED", **OPTIONS), where / "_indices")


def builds(folders: dict[ModuleType, Path], rounds: int) -> dict[ModuleType, Built]:
    """The medians of rounds in turn; in a first one that does not count, what both need is imported."""
    found: dict[ModuleType, list[Built]] = {engine: [] for engine in folders}
    for _ in range(rounds + 1):
        for engine, where in folders.items():
            found[engine].append(build(engine, where))
    return {
        engine: Built(statistics.median(one.seconds for one in some[1:]), some[-1].size)
        for engine, some in found.items()
    }


def tantivy_index(where: Path) -> tuple[Any, Built | None]:
    """An index with positions, by one thread; None where tantivy is not installed."""
    if find_spec("tantivy") is None:
        return None, None
    import tantivy

    where.mkdir()
    schema = tantivy.SchemaBuilder().add_text_field("text", stored=False, tokenizer_name="default").build()
    index = tantivy.Index(schema, path=str(where))

    def work() -> None:
        writer = index.writer(256 << 20, 1)
        for batch in lancelet.dataset(where.parent / "theirs").to_batches(columns=["text"]):
            for text in batch["text"].to_pylist():
                writer.add_document(tantivy.Document(text=text))
        writer.commit()
        writer.wait_merging_threads()

    built = Built.by(work, where)
    index.reload()
    return index, built


def tantivy_time(index: Any, case: Case, rounds: int) -> float | None:
    if index is None or case.tantivy is None:
        return None
    searcher = index.searcher()
    queries = [index.parse_query(case.tantivy(text), ["text"]) for text in case.texts]
    return min(measure(lambda: [searcher.search(query, BEST) for query in queries]) for _ in range(rounds)) / QUERIES


def main() -> None:
    parser = argparse.ArgumentParser(description="Full-text search side by side")
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--builds", type=int, default=3, help="how often each builds the index")
    parser.add_argument("--real", action="store_true", help="texts of this machine, and none that are drawn")
    parser.add_argument("folders", nargs="*", type=Path, help="where these texts are")
    arguments = parser.parse_args()
    console = Console()
    corpus: Corpus = Drawn(arguments.rows)
    if arguments.real or arguments.folders:
        folders = arguments.folders or default_folders()
        corpus = real = Real(folders, arguments.rows)
        console.print(f"{real.rows:,} texts of {', '.join(map(str, folders))}, {len(real.words):,} different words")
    table = Table(title=f"CPU ms a query, best {BEST} of {corpus.rows:,} documents")
    for heading in ("case", "lancelet", "pylance", "share", "tantivy"):
        table.add_column(heading, justify="left" if heading == "case" else "right")
    indices = Table(title=f"Indices over {corpus.rows:,} documents")
    for heading in ("by", "CPU s", "MiB"):
        indices.add_column(heading, justify="left" if heading == "by" else "right")
    with tempfile.TemporaryDirectory() as folder:
        where, ours = Path(folder) / "theirs", Path(folder) / "ours"
        write(corpus, where, 0, corpus.rows)
        shutil.copytree(where, ours)
        both = builds({lancelet: ours, lance: where}, arguments.builds)
        made = {"lancelet": both[lancelet], "pylance": both[lance]}
        index, other = tantivy_index(Path(folder) / "tantivy")
        if other is not None:
            made["tantivy"] = other
        for name, one in made.items():
            indices.add_row(name, f"{one.seconds:.1f}", f"{one.size / 2**20:.1f}")

        def opened() -> dict[ModuleType, Any]:
            return {lancelet: lancelet.dataset(where), lance: lance.dataset(where)}

        def add(case: Case, name: str, datasets: dict[ModuleType, Any], rounds: int, rival: Any) -> None:
            found = compare(datasets, case, rounds)
            other = tantivy_time(rival, case, rounds)
            share = f"{found[lancelet] / found[lance]:.2f}"
            shown = "" if other is None else f"{other:.3f}"
            table.add_row(name, f"{found[lancelet]:.3f}", f"{found[lance]:.3f}", share, shown)

        datasets = opened()
        for case in cases(corpus):
            add(case, case.name, datasets, arguments.rounds, index)
        write(corpus, where, corpus.rows, UNINDEXED, "append")
        case = cases(corpus)[2]
        add(case, f"three terms, {UNINDEXED:,} documents not indexed", opened(), 1, None)
    console.print(indices)
    console.print(table)


if __name__ == "__main__":
    main()
