import numpy as np
import numpy.typing as npt

def along_curve(
    boxes: npt.NDArray[np.float64], left: float, bottom: float, width: float, height: float
) -> npt.NDArray[np.uint32]: ...
