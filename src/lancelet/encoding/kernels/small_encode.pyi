from typing import Any

FLAT: int
INLINE: int
RUNS: int
VARIABLE: int
ONE_VALUE: int
NULLS: int
NO_LEVELS: int
LARGEST: int

def encode_words(
    source: Any, bits: int, offset: int, count: int, validity: Any, large: bool
) -> tuple[int, int, bytes, bytes] | None: ...
def encode_strings(
    places: Any, text: Any, word: int, offset: int, count: int, validity: Any, large: bool
) -> tuple[int, int, bytes, bytes] | None: ...
