from typing import Any

import numpy as np
import numpy.typing as npt

class Points:
    dtype: np.dtype[Any]
    width: int
    nbytes: int
    @staticmethod
    def flat(vectors: npt.NDArray[Any], metric: str) -> Points: ...
    @staticmethod
    def scalar(codes: npt.NDArray[np.uint8], start: float, end: float, metric: str) -> Points: ...
    @staticmethod
    def product(
        codes: npt.NDArray[np.uint8], book: npt.NDArray[np.float32], metric: str, offset: float = 0.0
    ) -> Points: ...
    def __len__(self) -> int: ...
    def query(self, numbers: npt.NDArray[Any]) -> npt.NDArray[Any]: ...
    def distances(self, query: npt.NDArray[Any], ids: npt.NDArray[np.uint32]) -> npt.NDArray[np.float32]: ...
    def between(self, node: int, ids: npt.NDArray[np.uint32]) -> npt.NDArray[np.float32]: ...

class Lists:
    nbytes: int
    def __init__(
        self,
        offsets: npt.NDArray[np.int32],
        values: npt.NDArray[np.uint32],
        heights: npt.NDArray[np.uint8],
        upper: npt.NDArray[np.uint32],
        above_offsets: npt.NDArray[np.int32],
        above_values: npt.NDArray[np.uint32],
        entry: int,
    ) -> None: ...
    def __len__(self) -> int: ...
    def search(
        self,
        points: Points,
        query: npt.NDArray[Any],
        ef: int,
        keep: npt.NDArray[np.bool_] | None = None,
        lower: float | None = None,
    ) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.uint32], int]: ...

class Hand:
    def __init__(self, growth: Growth, batch: int) -> None: ...

class Growth:
    room: int
    def __init__(
        self,
        points: Points,
        heights: npt.NDArray[np.uint8],
        order: npt.NDArray[np.uint32],
        upper: npt.NDArray[np.uint32],
        m: int,
        ef: int,
        spare: int,
    ) -> None: ...
    def choose(
        self,
        hand: Hand,
        chosen: npt.NDArray[np.uint32],
        starts: npt.NDArray[np.uint64],
        first: int,
        begin: int,
        end: int,
    ) -> None: ...
    def link(
        self,
        hand: Hand,
        chosen: npt.NDArray[np.uint32],
        starts: npt.NDArray[np.uint64],
        first: int,
        end: int,
        part: int,
        parts: int,
    ) -> None: ...
    def trim(self, hand: Hand, begin: int, end: int) -> None: ...
    def connect(self, hand: Hand) -> None: ...
    def lists(
        self,
    ) -> tuple[
        npt.NDArray[np.int32],
        npt.NDArray[np.uint32],
        npt.NDArray[np.float32],
        npt.NDArray[np.int32],
        npt.NDArray[np.uint32],
        npt.NDArray[np.float32],
    ]: ...
    def lowest(
        self, begin: int, end: int
    ) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.uint32], npt.NDArray[np.float32]]: ...
    def others(self) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.uint32], npt.NDArray[np.float32]]: ...
