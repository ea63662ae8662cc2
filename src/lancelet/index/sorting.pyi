import numpy as np
import numpy.typing as npt

def sort_words(words: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint32]: ...
def sort_spans(data: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64]) -> npt.NDArray[np.uint32]: ...
def find_spans(
    data: npt.NDArray[np.uint8],
    offsets: npt.NDArray[np.int64],
    wanted_data: npt.NDArray[np.uint8],
    wanted_offsets: npt.NDArray[np.int64],
    after: bool,
) -> npt.NDArray[np.int64]: ...
def compare_spans(
    data: npt.NDArray[np.uint8],
    offsets: npt.NDArray[np.int64],
    other_data: npt.NDArray[np.uint8],
    other_offsets: npt.NDArray[np.int64],
) -> npt.NDArray[np.int8]: ...
