from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from lancelet.index.text.terms import Terms

SIMPLE: int
WHITESPACE: int
RAW: int
NGRAM: int
CODE: int
ICU: int
ICU_SPLIT: int
DROPPED: int

class LackingWords(LookupError): ...

class Beginnings:
    def __init__(self, words: Iterable[str]) -> None: ...

class Splitter:
    def __init__(
        self,
        kind: int,
        words: npt.NDArray[np.uint8],
        *,
        limit: int | None = None,
        lower: bool = False,
        shortest: int = 1,
        longest: int = 1,
        prefix: bool = False,
        parts: bool = False,
        numbers: bool = False,
        whole: bool = False,
        operators: bool = False,
        segments: npt.NDArray[np.uint8] | None = None,
        marks: npt.NDArray[np.uint8] | None = None,
    ) -> None: ...
    def __len__(self) -> int: ...
    @property
    def nbytes(self) -> int: ...
    def texts(self, first: int, all_of_them: bool) -> list[str]: ...
    def intern(
        self,
        first: int,
        finished: list[str | None],
        all_of_them: bool,
        terms: Terms,
        numbers: npt.NDArray[np.uint32],
    ) -> None: ...
    def notes(self) -> npt.NDArray[np.uint32]: ...
    def learn(self, language: int, words: Beginnings) -> None: ...
    def split(
        self,
        data: npt.NDArray[np.uint8],
        offsets: npt.NDArray[np.int64],
        valid: npt.NDArray[np.uint8],
        lists: npt.NDArray[np.int64],
    ) -> None: ...
    def resolve(
        self, terms: npt.NDArray[np.uint32]
    ) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint32], npt.NDArray[np.uint32]]: ...
