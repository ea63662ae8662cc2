from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

OPTIONAL: int
EXCLUDED: int

class BadPostings(ValueError): ...

class TermList:
    length: int
    has_positions: bool
    nbytes: int
    @staticmethod
    def of_blocks(
        blocks: npt.NDArray[np.uint8],
        offsets: npt.NDArray[np.int64],
        length: int,
        block: int,
        tail: int,
        positions: npt.NDArray[np.uint8] | None = None,
        position_offsets: npt.NDArray[np.int64] | None = None,
    ) -> TermList: ...
    @staticmethod
    def of_arrays(
        docs: npt.NDArray[np.uint32],
        freqs: npt.NDArray[np.uint32],
        positions: npt.NDArray[np.uint32] | None = None,
        starts: npt.NDArray[np.int64] | None = None,
    ) -> TermList: ...
    def decode(self) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint32]]: ...
    def impact_bounds(
        self, impacts: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64], mean: float
    ) -> npt.NDArray[np.float32]: ...
    def exact_bounds(self, norm: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]: ...

def norms(lengths: npt.NDArray[np.uint32], mean: float, quantized: bool) -> npt.NDArray[np.float32]: ...
def near_terms(
    data: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64], text: str, edits: int, prefix: int
) -> npt.NDArray[np.int64]: ...
def search(
    terms: Sequence[tuple[TermList, npt.NDArray[np.float32] | None, float, int]],
    groups: int,
    phrases: Sequence[tuple[Sequence[int], Sequence[int], int]],
    norm: npt.NDArray[np.float32],
    keep: npt.NDArray[np.uint8] | None,
    limit: int,
) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.float32]]: ...
