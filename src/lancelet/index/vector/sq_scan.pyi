from typing import Any

import numpy as np
import numpy.typing as npt

from lancelet.index.vector.blocks import Blocks
from lancelet.index.vector.top import Top

def use_level(level: int) -> int: ...

class SqQuery:
    def __init__(self, query: npt.NDArray[Any], start: float, end: float) -> None: ...
    def distances(self, codes: npt.NDArray[np.uint8]) -> npt.NDArray[np.float32]: ...
    def scan(
        self,
        codes: npt.NDArray[np.uint8],
        top: Top,
        rows: npt.NDArray[np.uint64] | None = None,
        keep: npt.NDArray[np.bool_] | None = None,
        first: int = 0,
    ) -> None: ...
    def scan_blocks(self, blocks: Blocks, top: Top) -> None: ...

class SqQueries:
    def __init__(self, queries: npt.NDArray[Any], start: float, end: float) -> None: ...
    def scan_grouped(
        self, blocks: Blocks, ends: npt.NDArray[np.int64], which: npt.NDArray[np.int64], tops: list[Top]
    ) -> None: ...
