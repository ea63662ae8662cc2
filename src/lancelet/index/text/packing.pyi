from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

_U8: TypeAlias = npt.NDArray[np.uint8]
_U32: TypeAlias = npt.NDArray[np.uint32]
_I64: TypeAlias = npt.NDArray[np.int64]
_I32: TypeAlias = npt.NDArray[np.int32]
RunParts: TypeAlias = tuple[_U32, _U32, _U32, _I64, _U8]
Rows: TypeAlias = tuple[_U32, _U32, npt.NDArray[np.float32], _I32, _I64, _U8, _I32, _I64, _U8, _I64, _U8, _I32, _U32]

class RunMaker:
    def make(
        self, notes: _U32, numbers: _U32 | None, with_positions: bool, num_terms: int, num_documents: int = -1
    ) -> tuple[_U32, _U32, _U32, _I64, _U8, _U32, _U32]: ...

def make_run_of_postings(terms: _U32, starts: _I64, docs: _U32, freqs: _U32, positions: _U32 | None) -> RunParts: ...
def pack_postings(
    docs: _U32, freqs: _U32, positions: _U32 | None, lengths: _U32, block: int, tail: int
) -> tuple[_U8, _I64, _U8, _I64, _U8 | None, _I64 | None]: ...
def hash_texts(data: _U8, offsets: _I64) -> npt.NDArray[np.uint64]: ...

class Merger:
    turn: int

    def __init__(
        self,
        runs: Sequence[tuple[_U32, _U32, _U32, _I64, _U8, int]],
        lengths: _U32,
        block: int,
        tail: int,
        with_positions: bool,
        chunked: bool = False,
        documents: int | None = None,
        average: float | None = None,
    ) -> None: ...
    def rows(self, limit: int) -> Rows | None: ...
    def joined(self, limit: int) -> RunParts | None: ...
