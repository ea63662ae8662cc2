from lancelet.encoding.rows import Bytes, Indices

NOTHING: int

def locate(
    data: Bytes,
    offsets: Indices,
    valid: Bytes,
    code: Indices,
    names: Bytes,
    kinds: Bytes,
    starts: Indices,
    sizes: Indices,
) -> tuple[int, int]: ...
def collect(
    data: Bytes, offsets: Indices, valid: Bytes, code: Indices, names: Bytes, is_test: bool, ends: Indices
) -> tuple[bytes, bytes, bytes, int, int]: ...
