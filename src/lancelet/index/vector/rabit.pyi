import numpy as np
import numpy.typing as npt

from lancelet.index.vector.blocks import Blocks
from lancelet.index.vector.top import Top

Floats = npt.NDArray[np.float32]
Bytes = npt.NDArray[np.uint8]

def use_level(level: int) -> int: ...
def rotate(rows: Floats, flips: Floats) -> None: ...
def extra_codes(rows: Floats, bits: int) -> Bytes: ...

class RabitQuery:
    def __init__(self, query: Floats, bits: int) -> None: ...
    def distances(
        self, signs: Bytes, add: Floats, scale: Floats, extra: Bytes | None, a: float, b: float
    ) -> Floats: ...
    def scan(
        self,
        signs: Bytes,
        add: Floats,
        scale: Floats,
        extra: Bytes | None,
        a: float,
        b: float,
        top: Top,
        rows: npt.NDArray[np.uint64] | None = None,
        keep: npt.NDArray[np.bool_] | None = None,
        first: int = 0,
        sign_add: Floats | None = None,
        sign_scale: Floats | None = None,
        error: Floats | None = None,
        reach: float = 0,
    ) -> None: ...
    def scan_blocks(self, blocks: Blocks, lines: Floats, coarse: bool, top: Top) -> None: ...
