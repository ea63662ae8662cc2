import numpy as np
import numpy.typing as npt

def cpu_level() -> int: ...

class Centroids:
    blocks: npt.NDArray[np.float32]
    added: npt.NDArray[np.float32]
    def __init__(self, centroids: npt.NDArray[np.float32], added: npt.NDArray[np.float32] | float) -> None: ...

def nearest(
    vectors: npt.NDArray[np.float32], centroids: Centroids
) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.float32]]: ...
