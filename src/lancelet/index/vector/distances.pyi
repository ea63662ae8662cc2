import numpy as np
import numpy.typing as npt

from lancelet.index.vector.blocks import Blocks
from lancelet.index.vector.top import Top

ELEMENTS: dict[str, int]
METRICS: dict[str, int]

class Queries:
    width: int
    def __init__(self, values: npt.NDArray[np.generic], element: str, metric: str) -> None: ...
    def __len__(self) -> int: ...
    def scan(
        self,
        vectors: npt.NDArray[np.uint8],
        tops: list[Top],
        first: int = 0,
        rows: npt.NDArray[np.uint64] | None = None,
        keep: npt.NDArray[np.bool_] | None = None,
    ) -> int: ...
    def scan_at(
        self,
        data: npt.NDArray[np.uint8],
        starts: npt.NDArray[np.int64],
        top: Top,
        rows: npt.NDArray[np.uint64],
    ) -> None: ...
    def scan_groups(
        self,
        vectors: npt.NDArray[np.uint8],
        ends: npt.NDArray[np.int64],
        top: Top,
        first: int = 0,
        rows: npt.NDArray[np.uint64] | None = None,
        keep: npt.NDArray[np.bool_] | None = None,
        valid: npt.NDArray[np.bool_] | None = None,
    ) -> int: ...
    def scan_blocks(self, blocks: Blocks, top: Top) -> None: ...
    def scan_grouped(
        self, blocks: Blocks, ends: npt.NDArray[np.int64], which: npt.NDArray[np.int64], tops: list[Top]
    ) -> None: ...
    def distances(self, vectors: npt.NDArray[np.uint8]) -> npt.NDArray[np.float32]: ...

class Ranker:
    def __init__(self, vectors: npt.NDArray[np.generic], element: str, metric: str) -> None: ...
    def rank(self, query: npt.NDArray[np.generic]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]: ...
