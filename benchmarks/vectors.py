"""``python -m benchmarks.vectors``: vector search, lancelet, pylance, faiss and usearch side by side.

CPU time a query and CPU time a build, with the recall of ten neighbours beside each figure, because a fast answer that
is wrong is none. Each of the two libraries builds its own index and asks it; the rivals that are installed (``pip
install faiss-cpu usearch``) hold everything in memory and read no table, which is what a kernel could reach.
"""

from __future__ import annotations

import argparse
import multiprocessing
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import lance
import numpy as np
import numpy.typing as npt
import pyarrow as pa
from rich.console import Console
from rich.table import Table

import lancelet

ENGINES: tuple[ModuleType, ...] = (lancelet, lance)
COLUMN = "vector"
NEIGHBOURS = 10
CHUNK = 50_000
CLUSTERS = 2_000
Vectors = npt.NDArray[np.float32]
Found = list[list[int]]


@dataclass(frozen=True, slots=True)
class Data:
    """Vectors to search in, and others to search for."""

    name: str
    rows: int
    dimension: int
    clustered: bool

    def chunks(self) -> Iterator[Vectors]:
        for number, start in enumerate(range(0, self.rows, CHUNK)):
            yield self._drawn(number + 1, min(CHUNK, self.rows - start))

    def queries(self, count: int) -> Vectors:
        return self._drawn(0, count)

    def _drawn(self, seed: int, count: int) -> Vectors:
        drawn = np.random.default_rng([seed, self.dimension])
        spread = drawn.standard_normal((count, self.dimension), dtype=np.float32)
        if not self.clustered:
            return spread
        centres = np.random.default_rng(self.dimension).standard_normal((CLUSTERS, self.dimension), dtype=np.float32)
        return centres[drawn.integers(0, CLUSTERS, count)] + np.float32(0.35) * spread

    def write(self, where: Path) -> None:
        def batches() -> Iterator[pa.RecordBatch]:
            for number, chunk in enumerate(self.chunks()):
                keys = np.arange(number * CHUNK, number * CHUNK + len(chunk))
                column = pa.FixedSizeListArray.from_arrays(pa.array(chunk.ravel()), self.dimension)
                yield pa.record_batch({"key": keys, COLUMN: column})

        some = pa.schema({"key": pa.int64(), COLUMN: pa.list_(pa.float32(), self.dimension)})
        lance.write_dataset(pa.RecordBatchReader.from_batches(some, batches()), where, max_rows_per_file=1 << 18)

    def whole(self) -> Vectors:
        return np.concatenate(list(self.chunks()))


@dataclass(frozen=True, slots=True)
class Case:
    """An index, and how it is asked."""

    kind: str
    options: dict[str, Any]
    query: dict[str, Any]
    rival: str | None = None

    @property
    def name(self) -> str:
        asked = ", ".join(f"{key} {value}" for key, value in self.query.items())
        return f"{self.kind} {' '.join(str(value) for value in self.options.values())}: {asked}"


def cases(data: Data) -> list[Case]:
    parts = max(int(data.rows**0.5 / 2), 1)
    sub = data.dimension // 4
    ivf = {"num_partitions": parts}
    return [
        Case("IVF_FLAT", ivf, {"nprobes": 20}, f"IVF{parts},Flat"),
        Case("IVF_PQ", {**ivf, "num_sub_vectors": sub}, {"nprobes": 20}, f"IVF{parts},PQ{sub}"),
        Case("IVF_PQ", {**ivf, "num_sub_vectors": sub}, {"nprobes": 20, "refine_factor": 10}),
        Case("IVF_SQ", ivf, {"nprobes": 20}, f"IVF{parts},SQ8"),
        Case("IVF_RQ", ivf, {"nprobes": 20}),
        Case("IVF_HNSW_SQ", {"num_partitions": 1}, {"nprobes": 1, "ef": 64}, "HNSW"),
    ]


def exact(data: Data, queries: Vectors) -> Found:
    """The neighbours by brute force."""
    best = [(np.empty(0, np.float32), np.empty(0, np.int64)) for _ in queries]
    start = 0
    for chunk in data.chunks():
        squares = np.einsum("ij,ij->i", chunk, chunk)
        distances = squares - 2 * (queries @ chunk.T)
        for number, row in enumerate(distances):
            near = np.argpartition(row, NEIGHBOURS)[:NEIGHBOURS]
            marks = np.concatenate([best[number][0], row[near]])
            keys = np.concatenate([best[number][1], near + start])
            order = np.argsort(marks, kind="stable")[:NEIGHBOURS]
            best[number] = marks[order], keys[order]
        start += len(chunk)
    return [keys.tolist() for _, keys in best]


def recall(found: Found, truth: Found) -> float:
    return sum(len(set(a) & set(b)) for a, b in zip(found, truth, strict=True)) / (NEIGHBOURS * len(truth))


def ask(dataset: Any, query: Vectors, options: dict[str, Any]) -> list[int]:
    nearest = {"column": COLUMN, "q": query, "k": NEIGHBOURS, **options}
    keys: list[int] = dataset.to_table(columns=["key", "_distance"], nearest=nearest)["key"].to_pylist()
    return keys


def ask_all(dataset: Any, queries: Vectors, options: dict[str, Any]) -> Found:
    return [ask(dataset, query, options) for query in queries]


def ask_batch(dataset: Any, queries: Vectors, options: dict[str, Any]) -> Found:
    nearest = {"column": COLUMN, "q": queries, "k": NEIGHBOURS, **options}
    table = dataset.to_table(columns=["key", "_distance"], nearest=nearest)
    found: Found = [[] for _ in queries]
    for query, key in zip(table["query_index"].to_pylist(), table["key"].to_pylist(), strict=True):
        found[query].append(key)
    return found


def alternate(works: Sequence[Callable[[], object]], repeats: int) -> list[float]:
    """Medians of CPU seconds, the works taking turns."""
    taken: list[list[float]] = [[] for _ in works]
    for turn in range(repeats):
        order = range(len(works)) if turn % 2 else reversed(range(len(works)))
        for number in order:
            began = time.process_time()
            works[number]()
            taken[number].append(time.process_time() - began)
    return [statistics.median(times) for times in taken]


def _build(engine: str, where: str, case: Case, out: Any) -> None:
    dataset = {"lancelet": lancelet, "lance": lance}[engine].dataset(where)
    began = time.process_time()
    dataset.create_index(COLUMN, case.kind, replace=True, **case.options)
    taken = time.process_time() - began
    # Of this program alone: what the kernel counts for a process begins with its parent.
    status = Path("/proc/self/status").read_text()
    out.put((taken, int(status.partition("VmHWM:")[2].split()[0]) / 1024))


def build(engine: ModuleType, where: Path, case: Case) -> tuple[float, float]:
    """CPU seconds and peak MiB of a build in a process of its own."""
    context = multiprocessing.get_context("spawn")
    out = context.Queue()
    child = context.Process(target=_build, args=(engine.__name__, str(where), case, out))
    child.start()
    taken, peak = out.get()
    child.join()
    return taken, peak


def rival(name: str, data: Data, case: Case) -> tuple[float, Callable[[Vectors], Found]] | None:
    """CPU seconds of a build, and a search; None where the library is not installed."""
    if name == "HNSW":
        return _usearch(data, case)
    if find_spec("faiss") is None:
        return None
    import faiss

    vectors = data.whole()
    began = time.process_time()
    index = faiss.index_factory(data.dimension, name)
    index.train(vectors)
    index.add(vectors)
    taken = time.process_time() - began
    if name != "Flat":
        faiss.extract_index_ivf(index).nprobe = case.query["nprobes"]

    def search(queries: Vectors) -> Found:
        found: Found = index.search(queries, NEIGHBOURS)[1].tolist()
        return found

    return taken, search


def _usearch(data: Data, case: Case) -> tuple[float, Callable[[Vectors], Found]] | None:
    if find_spec("usearch") is None:
        return None
    from usearch.index import Index

    vectors = data.whole()
    began = time.process_time()
    index = Index(ndim=data.dimension, metric="l2sq", dtype="i8", connectivity=20, expansion_add=150)
    index.add(np.arange(len(vectors)), vectors)
    index.expansion_search = case.query["ef"]
    taken = time.process_time() - began
    return taken, lambda queries: [index.search(query, NEIGHBOURS).keys.tolist() for query in queries]


class Report:
    """A line for each case: figures of both, their ratio, recalls, and a rival's."""

    def __init__(self, title: str) -> None:
        self._table = Table(title=title)
        for column in ("what", "lancelet", "pylance", "ratio", "recall", "of pylance", "rival", "of rival"):
            self._table.add_column(column, justify="left" if column == "what" else "right")

    def add(self, what: str, taken: Sequence[float], unit: str, recalls: Sequence[float | None]) -> None:
        figures = [f"{value:,.2f} {unit}" for value in taken]
        shown = ["" if value is None else f"{value:.3f}" for value in recalls]
        padded = [*figures, ""][:3]
        more = [*shown, "", "", ""][:3]
        self._table.add_row(what, *padded[:2], f"{taken[0] / taken[1]:.2f}", *more[:2], padded[2], more[2])

    def show(self) -> None:
        Console().print(self._table)


def measure(data: Data, wanted: Sequence[str], count: int, repeats: int) -> None:
    queries = data.queries(count)
    truth = exact(data, queries)
    report = Report(f"{data.name}: {data.rows:,} x {data.dimension}, CPU time, medians of {repeats}")
    with tempfile.TemporaryDirectory() as folder:
        where = {engine.__name__: Path(folder) / engine.__name__ for engine in ENGINES}
        for path in where.values():
            data.write(path)
        opened = [engine.dataset(where[engine.__name__]) for engine in ENGINES]
        if "EXACT" in wanted:
            few = queries[: max(count // 10, 1)]
            flat = rival("Flat", data, Case("FLAT", {}, {}))
            works = [lambda one=one: ask_all(one, few, {"use_index": False}) for one in opened]
            searches = [*works, *([lambda: [flat[1](query[None]) for query in few]] if flat else [])]
            recalls = [recall(work(), truth[: len(few)]) for work in works]
            taken = alternate(searches, repeats)
            report.add("exact, one query", [value / len(few) * 1e3 for value in taken], "ms", recalls)
            batches = [lambda one=one: ask_batch(one, queries, {"use_index": False}) for one in opened]
            recalls = [recall(batch(), truth) for batch in batches]
            taken = alternate([*batches, *([lambda: flat[1](queries)] if flat else [])], max(repeats // 3, 1))
            report.add(f"exact, {count} queries at once", [value / count * 1e3 for value in taken], "ms", recalls)
        built: tuple[Any, ...] = ()
        outside = None
        for case in cases(data):
            if case.kind not in wanted:
                continue
            if built != (case.kind, case.options):
                figures = [build(engine, where[engine.__name__], case) for engine in ENGINES]
                outside = rival(case.rival, data, case) if case.rival else None
                seconds = [figure[0] for figure in figures] + ([outside[0]] if outside else [])
                report.add(f"build {case.kind}", seconds, "s", [])
                report.add(f"build {case.kind}, memory", [figure[1] for figure in figures], "MiB", [])
                built = (case.kind, case.options)
                opened = [engine.dataset(where[engine.__name__]) for engine in ENGINES]
            works = [lambda one=one, case=case: ask_all(one, queries, case.query) for one in opened]
            if outside and case.rival:
                works.append(lambda outside=outside: [outside[1](query[None])[0] for query in queries])
            recalls = [recall(work(), truth) for work in works]
            taken = alternate(works, repeats)
            report.add(case.name, [value / count * 1e3 for value in taken], "ms", recalls)
    report.show()


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.vectors", description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0, help="share of the rows: 0.1 for a quick look")
    parser.add_argument("--queries", type=int, default=50)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--only", default="", help="EXACT and kinds of indices, separated by commas")
    parser.add_argument("--data", default="", help="clustered, wide, uniform; separated by commas")
    arguments = parser.parse_args()
    kinds = ("EXACT", "IVF_FLAT", "IVF_PQ", "IVF_SQ", "IVF_RQ", "IVF_HNSW_SQ")
    wanted = arguments.only.upper().split(",") if arguments.only else kinds
    for data in (
        Data("clustered", int(1_000_000 * arguments.scale), 128, True),
        Data("wide", int(200_000 * arguments.scale), 768, True),
        Data("uniform", int(1_000_000 * arguments.scale), 128, False),
    ):
        if not arguments.data or data.name in arguments.data.split(","):
            measure(data, wanted, arguments.queries, arguments.repeats)


if __name__ == "__main__":
    main()
