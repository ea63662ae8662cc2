import numpy as np
import numpy.typing as npt

from lancelet.encoding.rows import Bytes, Indices

def parse_chunks(
    data: Bytes,
    positions: Indices,
    sizes: Indices,
    has_rep: bool,
    has_def: bool,
    num_buffers: int,
    large: bool,
    out: Indices,
) -> int: ...
def copy_flat(data: Bytes, positions: Indices, sizes: Indices, counts: Indices, item: int, out: Bytes) -> int: ...
def copy_bits(data: Bytes, positions: Indices, sizes: Indices, counts: Indices, out: Bytes) -> int: ...
def expand_runs(
    data: Bytes,
    value_positions: Indices,
    value_sizes: Indices,
    length_positions: Indices,
    length_sizes: Indices,
    counts: Indices,
    item: int,
    out: Bytes,
) -> int: ...
def join_streams(data: Bytes, positions: Indices, sizes: Indices, counts: Indices, item: int, out: Bytes) -> int: ...
def variable_offsets(
    data: Bytes, positions: Indices, sizes: Indices, counts: Indices, wide: bool, out: Indices
) -> int: ...
def variable_bytes(
    data: Bytes, positions: Indices, counts: Indices, wide: bool, offsets: Indices, out: Bytes
) -> int: ...
def narrow(offsets: Indices, out: npt.NDArray[np.int32]) -> None: ...
