"""k-means: centroids of partitions, and words of codebooks.

Where there are many centroids, or words, most steps see a part of the sample only, the last ones all of it: they are about where they
belong by then, and it is a fraction of the work. A centroid that nothing is near to takes a share of the largest cluster, and so does
one that has little, unless less is found then: partitions of about the same size are what searches want.

The result depends on the sample and the seed alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from lancelet.index.vector import pq_scan
from lancelet.index.vector.centroids import assign, bit_counts, nearest_of, squares_of
from lancelet.index.vector.metric import Metric
from lancelet.runtime.threads import checkpoint

if TYPE_CHECKING:
    from lancelet.index.vector.query import Vectors

    Floats = npt.NDArray[np.float32]
    Step = Callable[[Floats, Floats, Metric], tuple[npt.NDArray[np.int64], Floats, float]]
    """Of vectors and centroids the sizes and sums of the clusters, and the sum of the distances."""

_EARLY_RATE: Final = 48
"""Vectors for each centroid in the early steps."""
_EARLY_STEPS: Final = 10
_LATE_STEPS: Final = 10
_LATE_WORD_STEPS: Final = 16
"""Steps over all of the sample: a few more make the loss a little smaller, but no more is found in the same partitions."""
_MANY: Final = 256
"""With more centroids than this, most steps see a part of the sample."""
_ENOUGH: Final = 1e-4
"""A step that makes the loss smaller by less than this share is the last."""
_LEAP: Final = np.float32(0.8)
"""By how much further than to the middle a centroid moves, as a share of the way: the next steps would go there anyway."""
_NUDGE: Final = np.float32(1e-3)
_FEW_WORDS: Final = 16
_SUM_BYTES: Final = 2 << 20
"""Vectors that are sorted by cluster at once."""
_MARK_BYTES: Final = 32 << 20
"""Distances to neighbours that are known at once."""
_SMALL: Final = (0.4, 0.1)
"""Clusters with a smaller share than the first of these of the mean size are given up, or than the second where the first loses
something. Of vectors with clusters any way to put several of them into a partition is as good for the loss, and the middle of many is
near to everything: without this, searches look at the few largest partitions, again and again."""
_TRIALS: Final = (64, 256)
"""At least and at most so many vectors tell by their neighbours whether it does: one for each centroid, so that it costs about as much
as a step;"""
_NEIGHBOURS: Final = 10
"""how many of these,"""
_LOST: Final = 0.01
"""and the share of them that may be missed."""


def train_centroids(
    sample: Vectors, count: int, metric: Metric, max_steps: int, seed: int, step: Step | None = None
) -> tuple[Vectors, float]:
    """Centroids of a sample (normalised already), and the sum of the distances to them.

    There are fewer of them where the sample has fewer vectors. Those of bytes are bytes, others 32-bit numbers. ``step`` does
    the work elsewhere.
    """
    count = min(count, len(sample))
    random = np.random.default_rng(seed)
    if metric is Metric.HAMMING:
        return _train_bits(sample, count, max_steps, random)
    values = sample.astype(np.float32, copy=False)
    work = step or _step
    centroids = _drawn(values, count, metric, random)
    if count > _MANY:
        some = _some_of(values, count, random)
        steps = max_steps
        if len(some) < len(values):
            done = min(_EARLY_STEPS, max(0, max_steps - 1))
            _improve(some, centroids, metric, done, random, work, _SMALL[0])
            steps = min(_LATE_STEPS, max_steps - done)
        return centroids, _improve(values, centroids, metric, steps, random, work, _SMALL[0])
    least = _least_share(values, centroids, metric, max_steps, random, work)
    return centroids, _improve(values, centroids, metric, max_steps, random, work, least)


def _drawn(values: Floats, count: int, metric: Metric, random: np.random.Generator) -> Floats:
    centroids: Floats = values[np.sort(random.choice(len(values), count, replace=False))].copy()
    if metric is Metric.DOT:
        _shorten(centroids)
    return centroids


def _some_of(values: Floats, count: int, random: np.random.Generator) -> Floats:
    """As many vectors as early steps see."""
    early = _EARLY_RATE * count
    if len(values) <= 2 * early:
        return values
    some: Floats = values[np.sort(random.choice(len(values), early, replace=False))]
    return some


def _least_share(
    values: Floats, start: Floats, metric: Metric, max_steps: int, random: np.random.Generator, work: Step
) -> float:
    """How equal clusters may be made that find as much, with as many probes, as those that come by themselves; 0: not at all.

    They do where the vectors have clusters. Where they have none, and many numbers, a few large partitions are near to everything:
    what is found depends on how many rows are looked at.
    """
    some = _some_of(values, len(start), random)
    steps = min(_EARLY_STEPS, max_steps)
    free = start.copy()
    _improve(some, free, metric, steps, random, work, 0.0)
    trials = min(len(values), int(np.clip(len(start), *_TRIALS)))
    queries = values[np.sort(random.choice(len(values), trials, replace=False))]
    near: Floats | None = None
    wanted = 0.0
    for least in _SMALL:
        equal = start.copy()
        _improve(some, equal, metric, steps, random, work, least)
        if np.array_equal(free, equal):
            break
        if near is None:
            near = _neighbours(values, queries, metric)
            wanted = _share_found(near, queries, free, metric) - _LOST
        if _share_found(near, queries, equal, metric) >= wanted:
            return least
    return 0.0


def _neighbours(values: Floats, queries: Floats, metric: Metric) -> Floats:
    """The vectors nearest to each query, one after the other."""
    count = min(_NEIGHBOURS, len(values))
    lengths = np.einsum("ij,ij->i", values, values) if metric is Metric.L2 else np.zeros(len(values), np.float32)
    found = []
    for query in np.array_split(queries, -(-len(queries) * len(values) * 4 // _MARK_BYTES)):
        checkpoint()
        marks = lengths - np.float32(1 + (metric is Metric.L2)) * (query @ values.T)
        found.append(np.argpartition(marks, count - 1, axis=1)[:, :count].reshape(-1))
    return values[np.concatenate(found)]


def _share_found(near: Floats, queries: Floats, centroids: Floats, metric: Metric) -> float:
    """Which share of the neighbours is in the 1, 2, 4 ... partitions nearest to the query, on average."""
    homes, _ = assign(near, centroids, metric)
    lengths = (
        np.einsum("ij,ij->i", centroids, centroids) if metric is Metric.L2 else np.zeros(len(centroids), np.float32)
    )
    marks = lengths - np.float32(1 + (metric is Metric.L2)) * (queries @ centroids.T)
    places = np.argsort(np.argsort(marks, axis=1), axis=1)
    ranks = np.take_along_axis(places, homes.reshape(len(queries), -1).astype(np.int64), axis=1)
    probes = [1 << power for power in range(len(centroids).bit_length()) if 1 << power < len(centroids)]
    return float(np.mean([(ranks < count).mean() for count in probes])) if probes else 1.0


def move_centroids(centroids: Floats, pieces: Iterable[Vectors], metric: Metric, step: Step | None = None) -> float:
    """One step over vectors that come in pieces, none of which is kept; tells the loss before it."""
    sizes = np.zeros(len(centroids), np.int64)
    sums = np.zeros(centroids.shape, np.float64)
    total = 0.0
    for piece in pieces:
        checkpoint()
        count, part, loss = (step or _step)(piece.astype(np.float32, copy=False), centroids, metric)
        sizes += count
        sums += part
        total += loss
    _move(centroids, sizes, sums.astype(np.float32), metric)
    return total


def _improve(
    values: Floats,
    centroids: Floats,
    metric: Metric,
    steps: int,
    random: np.random.Generator,
    work: Step,
    least: float,
) -> float:
    """Move centroids to the middle of what is near to them; tells the last loss.

    Those of clusters with less than a share of the mean size, and of empty ones, are put elsewhere.
    """
    before = np.inf
    loss = 0.0
    shared = False
    for step in range(steps):
        checkpoint()
        sizes, sums, loss = work(values, centroids, metric)
        _move(centroids, sizes, sums, metric)
        if not shared and before - loss < _ENOUGH * abs(before):
            break
        before = loss
        shared = step + 1 < steps and _share(centroids, sizes, random, least)
    return loss


def _step(values: Floats, centroids: Floats, metric: Metric) -> tuple[npt.NDArray[np.int64], Floats, float]:
    nearest, loss = assign(values, centroids, metric)
    return *_sums(values, nearest, len(centroids)), loss


def _sums(values: Floats, nearest: npt.NDArray[np.uint32], count: int) -> tuple[npt.NDArray[np.int64], Floats]:
    """How many vectors each cluster has, and their sum."""
    sums = np.zeros((count, values.shape[1]), np.float32)
    step = max(1, _SUM_BYTES // (4 * max(1, values.shape[1])))
    for start in range(0, len(values), step):
        near = nearest[start : start + step]
        order = np.argsort(near, kind="stable")
        some, places = np.unique(near[order], return_index=True)
        sums[some] += np.add.reduceat(values[start : start + step][order], places, axis=0)
    return np.bincount(nearest, minlength=count), sums


def _move(centroids: Floats, sizes: npt.NDArray[np.int64], sums: Floats, metric: Metric) -> None:
    some = sizes > 0
    centroids[some] = sums[some] / sizes[some, None].astype(np.float32)
    if metric is Metric.DOT:
        _shorten(centroids)


def _shorten(centroids: Floats) -> None:
    """Bring centroids to length 1: by the dot product a long one would be near to everything."""
    lengths = np.sqrt(np.einsum("ij,ij->i", centroids, centroids))
    centroids /= np.where(lengths > 0, lengths, np.float32(1))[:, None]


def _share(centroids: Floats, sizes: npt.NDArray[np.int64], random: np.random.Generator, least: float) -> bool:
    """Put centroids of clusters with hardly any vectors beside those of the largest ones; tells whether there were such."""
    sizes = sizes.copy()
    shared = False
    for poor in np.flatnonzero(sizes < max(least * sizes.mean(), 1)).tolist():
        rich = int(sizes.argmax())
        if sizes[rich] < 2 or sizes[rich] < 4 * sizes[poor]:
            break
        away = random.standard_normal(centroids.shape[1], np.float32) * _NUDGE
        scale = np.abs(centroids[rich]).mean() or np.float32(1)
        centroids[poor] = centroids[rich] + away * scale
        centroids[rich] -= away * scale
        sizes[poor] = sizes[rich] = sizes[rich] // 2
        shared = True
    return shared


def _train_bits(sample: Vectors, count: int, max_steps: int, random: np.random.Generator) -> tuple[Vectors, float]:
    """Centroids of bytes: each bit as most of the vectors have it."""
    centroids: Vectors = sample[np.sort(random.choice(len(sample), count, replace=False))].copy()
    before, loss = np.inf, 0.0
    bits = np.unpackbits(sample, axis=1).astype(np.float32)
    for _ in range(max_steps):
        checkpoint()
        nearest, _ = nearest_of(sample, centroids, Metric.HAMMING)
        loss = float(bit_counts(sample ^ centroids[nearest]).sum(dtype=np.float64))
        if before - loss < _ENOUGH * before:
            break
        before = loss
        sizes, sums = _sums(bits, nearest, count)
        some = sizes > 0
        centroids[some] = np.packbits(sums[some] * 2 > sizes[some, None], axis=1)
        poor = np.flatnonzero(~some)
        centroids[poor] = sample[random.choice(len(sample), len(poor), replace=False)]
    return centroids, loss


def train_words(sample: Floats, parts: int, count: int, max_steps: int, seed: int, step: Step | None = None) -> Floats:
    """A codebook ``[parts, count, length]`` for vectors that are cut into parts; there are 16 or 256 words."""
    length = sample.shape[1] // parts
    words = np.zeros((parts, count, length), np.float32)
    random = np.random.default_rng(seed)
    for part in range(parts):
        piece = np.ascontiguousarray(sample[:, part * length : (part + 1) * length])
        words[part] = _train_part(piece, count, max_steps, random, step or _word_step)
    return words


def _train_part(values: Floats, count: int, max_steps: int, random: np.random.Generator, work: Step) -> Floats:
    if not len(values):
        return np.zeros((count, values.shape[1]), np.float32)
    # Where there are fewer vectors than words, some words are the same; of these the first is taken.
    drawn = np.resize(random.permutation(len(values))[:count], count)
    words: Floats = values[drawn].copy()
    plan = [(values, max_steps)]
    some = _some_of(values, count, random)
    if len(some) < len(values):
        done = min(_EARLY_STEPS, max(0, max_steps - 1))
        plan = [(some, done), (values, min(_LATE_WORD_STEPS, max_steps - done))]
    for seen, steps in plan:
        squares = squares_of(seen)
        before = np.inf
        middles: Floats | None = None
        for step in range(steps):
            checkpoint()
            sizes, sums, _ = work(seen, words, Metric.L2)
            old = words.copy()
            _move(words, sizes, sums, Metric.L2)
            # The squares of the middles, by the sizes of the clusters, are what the loss has become smaller by.
            loss = squares - float(np.einsum("i,ij,ij->", sizes.astype(np.float64), words, words))
            if middles is not None and loss > before:
                # The leap went too far: the next step begins where it began.
                words, middles = middles, None
                continue
            if step and before - loss <= _ENOUGH * abs(before):
                break
            before = loss
            if step + 1 < steps:
                middles = words.copy()
                words += _LEAP * (words - old)
                _share(words, sizes, random, 0.0)
    return words


def _word_step(values: Floats, words: Floats, metric: Metric) -> tuple[npt.NDArray[np.int64], Floats, float]:
    return *_sums(values, _nearest_words(values, words), len(words)), 0.0


def _nearest_words(values: Floats, words: Floats) -> npt.NDArray[np.uint32]:
    """The number of the nearest of 16 or 256 words."""
    turned = np.ascontiguousarray(words.T)[None]
    if len(words) == _FEW_WORDS:
        # Two codes of 4 bits go into a byte: the second is of no interest.
        doubled = np.concatenate([turned, turned])
        codes = pq_scan.encode(np.concatenate([values, values], axis=1), doubled)
        low: npt.NDArray[np.uint32] = (codes[:, 0] & 15).astype(np.uint32)
        return low
    return pq_scan.encode(values, turned)[:, 0].astype(np.uint32)
