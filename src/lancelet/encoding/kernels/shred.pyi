from typing import Any

import numpy as np
import numpy.typing as npt

from lancelet.encoding.rows import Bytes, Indices
from lancelet.encoding.v2_1.levels import Levels

Offsets = npt.NDArray[np.signedinteger[Any]]

def item_layer(defs: Levels, open_up_to: int, level: int, bits: Bytes, first: int) -> int: ...
def list_totals(
    defs: Levels, open_up_to: int, bits: Bytes, first: int, offsets: Offsets, lengths: Indices
) -> tuple[int, int]: ...
def list_layer(
    reps: Levels,
    defs: Levels,
    open_up_to: int,
    rep: int,
    level: int,
    bits: Bytes,
    first: int,
    offsets: Offsets,
    out_reps: Levels,
    out_defs: Levels,
) -> None: ...
def end_offsets(offsets: Offsets, bits: Bytes, above: int, ends: npt.NDArray[np.uint64]) -> None: ...
def mark_levels(defs: Levels, present: Bytes) -> None: ...
def entry_bounds(defs: Levels, max_visible: int, counts: Indices, bounds: Indices) -> None: ...
def widest_chunk(defs: Levels, max_visible: int, quota: int, ring: Indices) -> int: ...
def repetition_index(reps: Levels, row: int, bounds: Indices, index: Indices) -> None: ...
def row_cuts(reps: Levels, defs: Levels, row: int, max_visible: int, budget: int, cuts: Indices) -> int: ...
