"""The large products of a build on a device of PyTorch: steps of k-means, partitions of vectors, codes.

What is drawn by chance is drawn as without a device, and the same formulas are worked out, so that results are the
same but for rounding. Numbers have 32 bits there too; the shortened ones that some devices would like to take are not used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from lancelet._naming.extras import import_extra
from lancelet.errors import InvalidInput
from lancelet.index.vector.centroids import assign
from lancelet.index.vector.metric import Metric
from lancelet.index.vector.pq import ProductQuantizer

if TYPE_CHECKING:
    from lancelet.index.vector.query import Quantizer, Vectors

    Floats = npt.NDArray[np.float32]

_BYTE: Final = 8
_KINDS: Final = ("cuda", "mps", "cpu")
_PIECE_BYTES: Final = 256 << 20
"""Of marks that are on the device at once."""


class Accelerator:
    """A device, and what is on it.

    Parameters
    ----------
    device
        ``"cuda"``, ``"cuda:1"``, ``"mps"``, or a ``torch.device``; ``"cpu"`` for tests.
    """

    def __init__(self, device: Any) -> None:
        torch = import_extra("torch", "torch", f"accelerator={str(device)!r}")
        if str(device).partition(":")[0] not in _KINDS:
            raise InvalidInput(f"an accelerator is 'cuda' or 'mps', or a device of those, not {str(device)!r}")
        self._torch = torch
        try:
            self.device = torch.device(device)
            torch.zeros(1, device=self.device)
        except (RuntimeError, AssertionError) as error:
            reason = str(error).partition("\n")[0]
            raise InvalidInput(f"the accelerator {str(device)!r} cannot be used here: {reason}") from error
        self._held: tuple[Any, Any] = (None, None)

    def step(self, values: Floats, centroids: Floats, metric: Metric) -> tuple[npt.NDArray[np.int64], Floats, float]:
        """One step of k-means: how many vectors are nearest to each centroid, their sums, and the sum of distances."""
        torch = self._torch
        count = len(centroids)
        data, model = self._tensor(values), self._upload(centroids)
        sums = torch.zeros_like(model)
        sizes = torch.zeros(count, dtype=torch.int64, device=self.device)
        total = 0.0
        squares = (model * model).sum(dim=1)
        for part in data.split(self._rows(count)):
            nearest, loss = self._nearest(part, model, squares, metric)
            sums.index_add_(0, nearest, part)
            sizes += torch.bincount(nearest, minlength=count)
            total += loss
        return sizes.cpu().numpy(), sums.cpu().numpy(), total

    def assign(self, vectors: Vectors, centroids: Vectors, metric: Metric) -> tuple[npt.NDArray[np.uint32], float]:
        """As :func:`lancelet.index.vector.centroids.assign`; bits are counted without the device."""
        if metric is Metric.HAMMING:
            return assign(vectors, centroids, metric)
        model = self._upload(centroids)
        squares = (model * model).sum(dim=1)
        found = np.empty(len(vectors), np.uint32)
        total = 0.0
        rows = self._rows(len(centroids))
        for start in range(0, len(vectors), rows):
            nearest, loss = self._nearest(self._upload(vectors[start : start + rows]), model, squares, metric)
            found[start : start + rows] = nearest.cpu().numpy()
            total += loss
        return found, total

    def encode(
        self, quantizer: Quantizer, vectors: Vectors, partitions: npt.NDArray[np.uint32], centroids: Vectors
    ) -> list[npt.NDArray[Any]]:
        """As the quantizer does it; words of product quantization are looked for on the device."""
        if not isinstance(quantizer, ProductQuantizer):
            return quantizer.encode(vectors, partitions, centroids)
        words = self._upload(quantizer.words)
        halves = (words * words).sum(dim=1) / 2
        parts, length, count = words.shape
        codes = np.empty((len(vectors), parts), np.uint8)
        rows = self._rows(parts * count)
        for start in range(0, len(vectors), rows):
            part = slice(start, start + rows)
            left = self._upload(quantizer.residuals(vectors[part], partitions[part], centroids))
            cut = left.reshape(len(left), parts, length).transpose(0, 1)
            marks = halves[:, None] - self._torch.bmm(cut, words)
            codes[part] = marks.argmin(dim=2).T.cpu().numpy()
        return [codes if quantizer.bits == _BYTE else codes[:, ::2] | codes[:, 1::2] << np.uint8(_BYTE // 2)]

    def _nearest(self, part: Any, model: Any, squares: Any, metric: Metric) -> tuple[Any, float]:
        """The nearest centroid of each vector, and the sum of the distances."""
        if metric is Metric.DOT:
            found = (1 - part @ model.T).min(dim=1)
            return found.indices, float(found.values.double().sum()) if self._doubles else float(found.values.sum())
        found = self._torch.addmm(squares, part, model.T, alpha=-2).min(dim=1)
        own = (part * part).sum(dim=1)
        both = found.values + own
        return found.indices, float(both.double().sum()) if self._doubles else float(both.sum())

    @property
    def _doubles(self) -> bool:
        """Whether the device knows numbers of 64 bits."""
        return bool(self.device.type != "mps")

    def _rows(self, count: int) -> int:
        return max(1, _PIECE_BYTES // (4 * max(1, count)))

    def _tensor(self, values: Floats) -> Any:
        """An array that is used step after step is brought to the device once."""
        known, tensor = self._held
        if known is not values:
            tensor = self._upload(values)
            self._held = values, tensor
        return tensor

    def _upload(self, values: Vectors) -> Any:
        return self._torch.from_numpy(np.array(values, np.float32, order="C")).to(self.device)
