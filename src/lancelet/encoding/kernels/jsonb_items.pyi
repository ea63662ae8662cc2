import numpy as np
import numpy.typing as npt

from lancelet.encoding.rows import Bytes, Indices

UNFIT: int

def gather(
    data: Bytes, ends: Indices, kinds: Bytes, starts: Indices, sizes: Indices, out_offsets: Indices
) -> bytes: ...
def integers(
    data: Bytes, kinds: Bytes, starts: Indices, sizes: Indices, out: Indices, out_valid: Bytes
) -> tuple[int, int]: ...
def floats(
    data: Bytes, kinds: Bytes, starts: Indices, sizes: Indices, out: npt.NDArray[np.float64], out_valid: Bytes
) -> tuple[int, int]: ...
def truths(
    data: Bytes, kinds: Bytes, starts: Indices, sizes: Indices, out: Bytes, out_valid: Bytes
) -> tuple[int, int]: ...
def texts(
    data: Bytes, kinds: Bytes, starts: Indices, sizes: Indices, out_offsets: Indices, out_valid: Bytes
) -> tuple[bytes, int, int]: ...
def type_tags(data: Bytes, kinds: Bytes, starts: Indices, sizes: Indices, out: Bytes) -> tuple[int, int]: ...
def array_sizes(data: Bytes, kinds: Bytes, starts: Indices, sizes: Indices, out: Indices) -> tuple[int, int]: ...
def arrays_with(
    data: Bytes, ends: Indices, kinds: Bytes, starts: Indices, sizes: Indices, wanted: Bytes, out: Bytes
) -> tuple[int, int]: ...
