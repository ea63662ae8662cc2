import numpy as np
import numpy.typing as npt

NULL_TOKEN: int
TOKEN_LIMIT: int

def sorted_postings(
    data: npt.NDArray[np.uint8],
    offsets: npt.NDArray[np.int64],
    valid: npt.NDArray[np.uint8],
    table: npt.NDArray[np.uint64],
) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.int64], npt.NDArray[np.uint32]]: ...
