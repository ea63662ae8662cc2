import numpy as np
import numpy.typing as npt

def sign(
    data: npt.NDArray[np.uint8],
    offsets: npt.NDArray[np.int64],
    terms: npt.NDArray[np.uint32],
    starts: npt.NDArray[np.int64],
    shingle: int,
    a: npt.NDArray[np.uint64],
    b: npt.NDArray[np.uint64],
    c: npt.NDArray[np.uint64],
    out: npt.NDArray[np.uint16],
) -> None: ...
