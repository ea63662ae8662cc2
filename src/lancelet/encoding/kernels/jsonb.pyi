from lancelet.encoding.rows import Bytes, Indices

MAX_DEPTH: int
GOOD: int
TOO_SHORT: int
BAD_KIND: int
BAD_NUMBER: int
TOO_DEEP: int
NO_MEMORY: int

class JsonError(ValueError): ...

def to_text(data: Bytes, offsets: Indices, valid: Bytes, out_offsets: Indices) -> tuple[bytes, int, int]: ...
def from_text(data: Bytes, start: int, stop: int) -> bytes: ...
