import numpy as np
import numpy.typing as npt

class FstWriter:
    def __init__(self) -> None: ...
    def add(self, token: bytes, value: int) -> None: ...
    def add_all(
        self,
        data: npt.NDArray[np.uint8],
        offsets: npt.NDArray[np.int64],
        order: npt.NDArray[np.int64],
        values: npt.NDArray[np.uint32],
    ) -> None: ...
    def finish(self) -> bytes: ...
