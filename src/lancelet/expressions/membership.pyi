from typing import Any

import numpy as np
import numpy.typing as npt

def among(
    values: npt.NDArray[np.unsignedinteger[Any]], wanted: npt.NDArray[np.unsignedinteger[Any]]
) -> npt.NDArray[np.uint8]: ...
