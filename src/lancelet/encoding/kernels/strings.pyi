from typing import Any

import numpy as np
import numpy.typing as npt

from lancelet.encoding.rows import Bytes, Indices

Offsets = npt.NDArray[np.signedinteger[Any]]
Numbers = npt.NDArray[np.uint32]

def survey(offsets: Offsets, data: Bytes) -> tuple[int, bool]: ...
def plan_chunks(offsets: Offsets, word: int, target: int, largest: int, counts: Indices) -> int: ...
def write_chunks(offsets: Offsets, data: Bytes, word: int, counts: Indices, out: Bytes, sizes: Indices) -> int: ...
def distinct(
    offsets: Offsets,
    data: Bytes,
    blocks: Indices,
    block: int,
    cap: int,
    table: Indices,
    indices: Numbers,
    firsts: Indices,
) -> int: ...
def distinct_words(data: Bytes, item: int, cap: int, table: Indices, indices: Numbers, firsts: Indices) -> int: ...
