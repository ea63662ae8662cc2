import numpy as np
import numpy.typing as npt

FIXED32: int
VARINT: int

def decode_postings(
    data: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64], length: int, block: int, tail: int, documents: int
) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint32]]: ...
def decode_many(
    data: npt.NDArray[np.uint8],
    offsets: npt.NDArray[np.int64],
    lists: npt.NDArray[np.int64],
    lengths: npt.NDArray[np.uint32],
    block: int,
    tail: int,
    documents: int,
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint32], npt.NDArray[np.uint32]]: ...
def decode_many_positions(
    data: npt.NDArray[np.uint8],
    streams: npt.NDArray[np.int64],
    places: npt.NDArray[np.uint32],
    lists: npt.NDArray[np.int64],
    starts: npt.NDArray[np.int64],
    freqs: npt.NDArray[np.uint32],
    block: int,
) -> npt.NDArray[np.uint32]: ...
def decode_positions(
    data: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64], freqs: npt.NDArray[np.uint32], block: int
) -> npt.NDArray[np.uint32]: ...
def decode_impact(data: npt.NDArray[np.uint8]) -> tuple[int, list[tuple[int, int]]]: ...
def stream_positions(
    data: npt.NDArray[np.uint8],
    chunks: npt.NDArray[np.int64],
    documents: npt.NDArray[np.int64],
    freqs: npt.NDArray[np.uint32],
    block: int,
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]: ...
