"""k-means: centroids of partitions, and words of codebooks.

Most steps see a part of the sample only, the last ones
all of it: the centroids are about where they belong by then, and it is a fraction of the work. A centroid that nothing
is near to takes a share of the largest cluster, and so does one that has hardly anything: partitions of about the same size are
what searches want.

The result depends on the sample and the seed alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from lancelet.index.vector import pq_scan
from lancelet.index.vector.centroids import assign, bit_counts, nearest_of
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
_LATE_STEPS: Final = 12
_ENOUGH: Final = 1e-4
"""A step that makes the loss smaller by less than this share is the last."""
_NUDGE: Final = np.float32(1e-3)
_FEW_WORDS: Final = 16
_SUM_BYTES: Final = 2 << 20
"""Vectors that are sorted by cluster at once."""
_SMALL: Final = 0.1
"""Clusters with a smaller share than this of the mean size are given up."""


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
    centroids = values[np.sort(random.choice(len(values), count, replace=False))].copy()
    if metric is Metric.DOT:
        _shorten(centroids)
    steps = max_steps
    early = _EARLY_RATE * count
    if len(values) > 2 * early:
        some = values[np.sort(random.choice(len(values), early, replace=False))]
        done = min(_EARLY_STEPS, max(0, max_steps - 1))
        _improve(some, centroids, metric, done, random, step or _step)
        steps = min(_LATE_STEPS, max_steps - done)
    loss = _improve(values, centroids, metric, steps, random, step or _step)
    return centroids, loss


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
    values: Floats, centroids: Floats, metric: Metric, steps: int, random: np.random.Generator, work: Step
) -> float:
    """Move centroids to the middle of what is near to them; tells the last loss."""
    before = np.inf
    loss = 0.0
    for step in range(steps):
        checkpoint()
        sizes, sums, loss = work(values, centroids, metric)
        _move(centroids, sizes, sums, metric)
        if step + 1 < steps:
            _share(centroids, sizes, random)
        if before - loss < _ENOUGH * abs(before):
            break
        before = loss
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


def _share(centroids: Floats, sizes: npt.NDArray[np.int64], random: np.random.Generator) -> None:
    """Put centroids of clusters with hardly any vectors beside those of the largest ones."""
    sizes = sizes.copy()
    least = _SMALL * sizes.mean()
    for poor in np.flatnonzero(sizes < max(least, 1)).tolist():
        rich = int(sizes.argmax())
        if sizes[rich] < 2 or sizes[rich] < 4 * sizes[poor]:
            return
        away = random.standard_normal(centroids.shape[1], np.float32) * _NUDGE
        scale = np.abs(centroids[rich]).mean() or np.float32(1)
        centroids[poor] = centroids[rich] + away * scale
        centroids[rich] -= away * scale
        sizes[poor] = sizes[rich] = sizes[rich] // 2


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
    early = _EARLY_RATE * count
    plan = [(values, max_steps)]
    if len(values) > 2 * early:
        done = min(_EARLY_STEPS, max(0, max_steps - 1))
        some = values[np.sort(random.choice(len(values), early, replace=False))]
        plan = [(some, done), (values, min(_LATE_STEPS, max_steps - done))]
    for seen, steps in plan:
        before = np.inf
        for step in range(steps):
            checkpoint()
            sizes, sums, _ = work(seen, words, Metric.L2)
            _move(words, sizes, sums, Metric.L2)
            # The squares of the middles, by the sizes of the clusters, are what the loss has become smaller by.
            loss = -float(np.einsum("i,ij,ij->", sizes.astype(np.float64), words, words))
            if step and before - loss < _ENOUGH * abs(before):
                break
            before = loss
            if step + 1 < steps:
                _share(words, sizes, random)
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
