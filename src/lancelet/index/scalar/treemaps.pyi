import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
Longs = npt.NDArray[np.int64]

def with_lengths(data: Bytes, offsets: Longs) -> tuple[Bytes, Longs]: ...
def without_lengths(data: Bytes, offsets: Longs) -> tuple[Bytes, Longs]: ...
