import numpy as np
import numpy.typing as npt

from lancelet.index.vector.blocks import Blocks
from lancelet.index.vector.top import Top

def use_level(level: int) -> int: ...
def distance_table(
    query: npt.NDArray[np.float32], words: npt.NDArray[np.float32], dot: bool
) -> npt.NDArray[np.float32]: ...
def distances(
    table: npt.NDArray[np.float32], codes: npt.NDArray[np.uint8], transposed: bool, offset: float = 0.0
) -> npt.NDArray[np.float32]: ...
def scan(
    table: npt.NDArray[np.float32],
    codes: npt.NDArray[np.uint8],
    transposed: bool,
    top: Top,
    rows: npt.NDArray[np.uint64] | None = None,
    keep: npt.NDArray[np.bool_] | None = None,
    first: int = 0,
    offset: float = 0.0,
) -> None: ...
def scan_blocks(
    queries: npt.NDArray[np.float32],
    words: npt.NDArray[np.float32],
    dot: bool,
    transposed: bool,
    blocks: Blocks,
    top: Top,
    offset: float = 0.0,
) -> None: ...
def encode(vectors: npt.NDArray[np.float32], words: npt.NDArray[np.float32]) -> npt.NDArray[np.uint8]: ...
