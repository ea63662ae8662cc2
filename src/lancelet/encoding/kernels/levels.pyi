import numpy as np
import numpy.typing as npt

from lancelet.encoding.rows import Bytes, Indices

def count_slots(defs: npt.NDArray[np.uint16], valid_up_to: int, slot_up_to: int) -> tuple[int, int]: ...
def validity(defs: npt.NDArray[np.uint16], valid_up_to: int, slot_up_to: int, out: Bytes) -> None: ...
def renumber(defs: npt.NDArray[np.uint16], table: npt.NDArray[np.uint16]) -> bool: ...
def list_layer(
    reps: npt.NDArray[np.uint16],
    defs: npt.NDArray[np.uint16],
    child_up_to: int,
    null_level: int,
    list_up_to: int,
    slot_up_to: int,
    offsets: Indices,
    valid: Bytes,
) -> tuple[int, int, int]: ...
def count_visible(defs: npt.NDArray[np.uint16], max_visible: int) -> int: ...
def visible_before(defs: npt.NDArray[np.uint16], max_visible: int, at: Indices, out: Indices) -> None: ...
