"""Measures of distance between vectors: what they are called, and what follows from each (spec indices.md 14.3)."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any

import numpy as np

from lancelet.errors import InvalidInput

if TYPE_CHECKING:
    import numpy.typing as npt


class Metric(enum.Enum):
    """Distances are small for vectors that are alike: squared lengths of differences, 1 - cos, 1 - dot, unequal bits."""

    L2 = "l2"
    COSINE = "cosine"
    DOT = "dot"
    HAMMING = "hamming"

    @property
    def number(self) -> int:
        """In the details of an index."""
        return list(Metric).index(self)

    @property
    def normalizes(self) -> bool:
        """Whether vectors are brought to length 1 before they are compared."""
        return self is Metric.COSINE


_NAMES = {"euclidean": Metric.L2, **{metric.value: metric for metric in Metric}}


def metric_named(name: Any) -> Metric:
    """The metric that users call so, in any case of letters."""
    found = _NAMES.get(name.lower()) if isinstance(name, str) else None
    if found is None:
        raise InvalidInput(f"there is no metric {name!r}; known are {', '.join(_NAMES)}")
    return found


def normalized(vectors: npt.NDArray[np.floating]) -> npt.NDArray[np.floating]:
    """Rows of length 1; those of length 0 become NaN, which is not near anything."""
    # Numbers of 16 bits are divided as wider ones and rounded once, as pylance does it.
    exact = vectors.astype(np.float64 if vectors.dtype == np.float64 else np.float32, copy=False)
    lengths = np.sqrt(np.einsum("ij,ij->i", exact, exact))
    with np.errstate(divide="ignore", invalid="ignore"):
        found: npt.NDArray[np.floating] = (exact / lengths[:, None]).astype(vectors.dtype, copy=False)
    return found
