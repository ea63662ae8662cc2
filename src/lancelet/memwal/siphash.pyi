import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]

def hash_fixed(data: Bytes, width: int) -> npt.NDArray[np.uint64]: ...
def hash_spans(data: Bytes, offsets: npt.NDArray[np.int64]) -> npt.NDArray[np.uint64]: ...
