"""The second half of the model of a vector index: the codebook of product quantization."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from lancelet._api.model_files import fixed_lists, read_model, whole_number, write_model

_COLUMN = "codebook"
_PARTS = "num_subvectors"
_BITS = "num_bits"


class PqModel:
    """The words for each part of a vector.

    Parameters
    ----------
    num_subvectors
        How many parts a vector is cut into.
    codebook
        ``2 ** num_bits`` lists, each as long as a vector. Read one after the other, their numbers are the words of the first
        part, then those of the second, and so on.
    num_bits
        Bits of the code of a part.

    Examples
    --------
    >>> model = PqModel(4, np.zeros((256, 16), np.float32))
    >>> model.save("memory://docs/pq_model.lance")
    >>> PqModel.load("memory://docs/pq_model.lance").dimension
    16
    """

    def __init__(
        self, num_subvectors: int, codebook: pa.FixedSizeListArray | np.ndarray[Any, Any], *, num_bits: int = 8
    ) -> None:
        self.num_subvectors = num_subvectors
        self.codebook: pa.FixedSizeListArray = fixed_lists(codebook, _COLUMN)
        self.num_bits = num_bits

    def __repr__(self) -> str:
        return f"PqModel({self.num_subvectors} parts, {self.num_bits} bits, {self.codebook.type})"

    @property
    def dimension(self) -> int:
        """Numbers in a vector."""
        return int(self.codebook.type.list_size)

    def save(self, uri: str, *, storage_options: Mapping[str, str] | None = None) -> None:
        """Write a file that :meth:`load` reads, and pylance too."""
        about = {_PARTS: str(self.num_subvectors), _BITS: str(self.num_bits)}
        write_model(uri, _COLUMN, self.codebook, about, storage_options)

    @classmethod
    def load(cls, uri: str, *, storage_options: Mapping[str, str] | None = None) -> PqModel:
        """Read a file that :meth:`save` wrote, or pylance's ``PqModel``."""
        codebook, told = read_model(uri, _COLUMN, (_PARTS,), storage_options)
        # Files of old have codes of 8 bits and do not say so.
        bits = whole_number(uri, _BITS, told.get(_BITS, "8"))
        return cls(whole_number(uri, _PARTS, told[_PARTS]), codebook, num_bits=bits)
