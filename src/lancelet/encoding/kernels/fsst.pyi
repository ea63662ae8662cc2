import numpy as np
import numpy.typing as npt

from lancelet.encoding.rows import Bytes, Indices

SPARE: int

def expanded_size(codes: Bytes, lengths: Bytes) -> int: ...
def expand(
    codes: Bytes,
    offsets: Indices,
    symbols: npt.NDArray[np.uint64],
    lengths: Bytes,
    out_offsets: Indices,
    out: Bytes,
) -> int: ...
