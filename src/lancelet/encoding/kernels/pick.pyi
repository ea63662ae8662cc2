import numpy as np
import numpy.typing as npt

from lancelet.encoding.rows import Bytes, Indices

NONE: int
FLAT: int
INLINE: int
OUT_OF_LINE: int
RUNS: int
STRINGS: int
BITS: int

def pick_items(
    data: Bytes,
    positions: Indices,
    sizes: Indices,
    counts: Indices,
    inside: Indices,
    def_codec: int,
    def_width: int,
    large: bool,
    codec: int,
    bits: int,
    levels: npt.NDArray[np.uint16],
    out: Bytes,
    starts: Indices,
    lengths: Indices,
) -> int: ...
