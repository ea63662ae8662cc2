from typing import Any

import numpy as np
import numpy.typing as npt

from lancelet.encoding.rows import Bytes, Indices
from lancelet.encoding.v2_1.levels import Levels

Offsets = npt.NDArray[np.signedinteger[Any]]

def zip_fixed(
    reps: Levels,
    defs: Levels,
    entries: int,
    word: int,
    bits_def: int,
    row: int,
    max_visible: int,
    data: Bytes,
    size: int,
    out: Bytes,
    index: Indices,
) -> int: ...
def zipped_strings_size(
    defs: Levels, entries: int, word: int, prefix: int, max_visible: int, offsets: Offsets
) -> int: ...
def zip_strings(
    reps: Levels,
    defs: Levels,
    entries: int,
    word: int,
    bits_def: int,
    row: int,
    max_visible: int,
    offsets: Offsets,
    data: Bytes,
    prefix: int,
    out: Bytes,
    index: Indices,
) -> int: ...
def append_fixed(data: Bytes, size: int, cursors: Indices, out: Bytes) -> None: ...
def append_strings(offsets: Offsets, data: Bytes, prefix: int, cursors: Indices, out: Bytes) -> None: ...
