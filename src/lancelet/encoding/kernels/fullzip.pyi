import numpy as np
import numpy.typing as npt

from lancelet.encoding.rows import Bytes, Indices

def gather_records(data: Bytes, positions: Indices, item: int, out: Bytes) -> int: ...
def count_entries(
    data: Bytes,
    starts: Indices,
    stops: Indices,
    word: int,
    bits_def: int,
    max_visible: int,
    fixed: int,
    prefix: int,
    totals: Indices,
) -> int: ...
def unzip(
    data: Bytes,
    starts: Indices,
    stops: Indices,
    word: int,
    bits_def: int,
    max_visible: int,
    fixed: int,
    prefix: int,
    reps: npt.NDArray[np.uint16],
    defs: npt.NDArray[np.uint16],
    offsets: Indices,
    out: Bytes,
) -> int: ...
def split_record_fields(
    data: Bytes, offsets: Indices, widths: Indices, prefixes: Indices, starts: Indices, sizes: Indices
) -> int: ...
def gather_slices(data: Bytes, starts: Indices, sizes: Indices, pad: int, out: Bytes) -> int: ...
