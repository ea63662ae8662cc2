from typing import Any

import numpy as np
import numpy.typing as npt

from lancelet.encoding.rows import Bytes, Indices

SPARE: int

class Table:
    def train(self, data: Bytes, offsets: Indices) -> None: ...
    def symbols(self) -> list[bytes]: ...
    def encode(
        self, offsets: npt.NDArray[np.signedinteger[Any]], data: Bytes, out_offsets: Indices, out: Bytes
    ) -> int: ...
