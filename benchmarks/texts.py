"""``python -m benchmarks.texts``: full-text search, lancelet, pylance and tantivy side by side.

CPU time a query, on an index that pylance built, so that both read the same files; scores are compared before anything is
timed. tantivy, where it is installed (``pip install tantivy``), has an index of its own. Documents are drawn: words by
Zipf's law, about a hundred to a document.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

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


@dataclass(frozen=True, slots=True)
class Corpus:
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

    def write(self, where: Path, first: int, count: int, mode: str = "create") -> lance.LanceDataset:
        schema = pa.schema({"key": pa.int64(), "text": pa.string()})
        return lance.write_dataset(
            pa.RecordBatchReader.from_batches(schema, self.batches(first, count)), where, mode=mode
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


def cases() -> list[Case]:
    """Those of the design."""
    drawn = np.random.default_rng(3)

    def texts(*bounds: tuple[int, int]) -> tuple[str, ...]:
        return tuple(" ".join(f"w{drawn.integers(low, high)}" for low, high in bounds) for _ in range(8))

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


def measure(work: Callable[[], object], times: int) -> float:
    """CPU milliseconds of one call."""
    begin = time.process_time()
    for _ in range(times):
        work()
    return (time.process_time() - begin) * 1000 / times


def compare(datasets: dict[ModuleType, Any], case: Case, rounds: int) -> dict[ModuleType, float]:
    """The medians of rounds in turn."""
    check(datasets, case)
    taken: dict[ModuleType, list[float]] = {engine: [] for engine in datasets}
    for _ in range(rounds):
        for engine, dataset in datasets.items():

            def work(engine: ModuleType = engine, dataset: Any = dataset) -> None:
                for text in case.texts:
                    ask(engine, dataset, case, text)

            taken[engine].append(measure(work, 2) / len(case.texts))
    return {engine: statistics.median(some) for engine, some in taken.items()}


def tantivy_index(corpus: Corpus) -> Any:
    """An index in memory, or None where tantivy is not installed."""
    if find_spec("tantivy") is None:
        return None
    import tantivy

    schema = tantivy.SchemaBuilder().add_text_field("text", stored=False, tokenizer_name="default").build()
    index = tantivy.Index(schema)
    writer = index.writer(256 << 20, 1)
    for batch in corpus.batches(0, corpus.rows):
        for text in batch["text"].to_pylist():
            writer.add_document(tantivy.Document(text=text))
    writer.commit()
    writer.wait_merging_threads()
    index.reload()
    return index


def tantivy_time(index: Any, case: Case, rounds: int) -> float | None:
    if index is None or case.tantivy is None:
        return None
    searcher = index.searcher()
    queries = [index.parse_query(case.tantivy(text), ["text"]) for text in case.texts]
    return min(measure(lambda: [searcher.search(query, BEST) for query in queries], 2) for _ in range(rounds)) / 8


def main() -> None:
    parser = argparse.ArgumentParser(description="Full-text search side by side")
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    corpus = Corpus(arguments.rows)
    table = Table(title=f"CPU ms a query, best {BEST} of {corpus.rows:,} documents")
    for heading in ("case", "lancelet", "pylance", "share", "tantivy"):
        table.add_column(heading, justify="left" if heading == "case" else "right")
    with tempfile.TemporaryDirectory() as folder:
        where = Path(folder) / "texts"
        corpus.write(where, 0, corpus.rows)
        dataset = lance.dataset(where)
        begin = time.process_time()
        dataset.create_scalar_index("text", "INVERTED", with_position=True, stem=False, remove_stop_words=False)
        built = time.process_time() - begin
        index = tantivy_index(corpus)

        def opened() -> dict[ModuleType, Any]:
            return {lancelet: lancelet.dataset(where), lance: lance.dataset(where)}

        def add(case: Case, name: str, datasets: dict[ModuleType, Any], rounds: int, rival: Any) -> None:
            found = compare(datasets, case, rounds)
            other = tantivy_time(rival, case, rounds)
            share = f"{found[lancelet] / found[lance]:.2f}"
            shown = "" if other is None else f"{other:.3f}"
            table.add_row(name, f"{found[lancelet]:.3f}", f"{found[lance]:.3f}", share, shown)

        datasets = opened()
        for case in cases():
            add(case, case.name, datasets, arguments.rounds, index)
        corpus.write(where, corpus.rows, UNINDEXED, "append")
        case = cases()[2]
        add(case, f"three terms, {UNINDEXED:,} documents not indexed", opened(), 1, None)
    Console().print(table)
    Console().print(f"pylance built its index in {built:.1f} s of CPU time")


if __name__ == "__main__":
    main()
