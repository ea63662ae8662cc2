import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
Longs = npt.NDArray[np.int64]

def extremes(data: Bytes, offsets: Longs, valid: Bytes, starts: Longs) -> tuple[Longs, Longs]: ...
