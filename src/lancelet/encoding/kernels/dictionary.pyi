from typing import Any

import numpy as np
import numpy.typing as npt

from lancelet.encoding.rows import Bytes

SPARE: int

def look_up_offsets(
    indices: npt.NDArray[np.unsignedinteger[Any]],
    offsets: npt.NDArray[np.signedinteger[Any]],
    out: npt.NDArray[np.signedinteger[Any]],
    limit: int,
) -> int: ...
def look_up_bytes(
    indices: npt.NDArray[np.unsignedinteger[Any]],
    offsets: npt.NDArray[np.signedinteger[Any]],
    data: Bytes,
    out_offsets: npt.NDArray[np.signedinteger[Any]],
    out: Bytes,
) -> int: ...
