import numpy as np
import numpy.typing as npt

def split_entries(
    data: bytes, versioned: bool
) -> (
    tuple[
        npt.NDArray[np.bool_],
        npt.NDArray[np.uint64],
        npt.NDArray[np.uint64],
        npt.NDArray[np.uint64],
        npt.NDArray[np.int64],
        npt.NDArray[np.int64],
    ]
    | None
): ...
