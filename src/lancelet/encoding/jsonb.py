"""JSON columns: JSONB bytes in the file, text for the user (spec file-format.md 2.5)."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from lancelet.encoding.assemble import pack_validity, variable_array
from lancelet.encoding.kernels import jsonb
from lancelet.encoding.place import Place
from lancelet.encoding.rows import Bytes, Indices
from lancelet.errors import UnfitData

REASONS = {
    jsonb.TOO_SHORT: "a length exceeds the value",
    jsonb.BAD_KIND: "an unknown kind of entry",
    jsonb.BAD_NUMBER: "an unknown kind of number",
    jsonb.TOO_DEEP: f"nested deeper than {jsonb.MAX_DEPTH} levels",
    jsonb.NO_MEMORY: "not enough memory for its text",
}


def decode_jsonb(array: pa.Array, path: str = "JSON column", place: str = "") -> pa.Array:
    """JSON text of JSONB values, as strings; nulls stay null.

    Examples
    --------
    >>> stored = pa.array([bytes.fromhex("400000011000000120000002615001"), None], pa.large_binary())
    >>> decode_jsonb(stored).to_pylist()
    ['{"a":1}', None]
    """
    offsets, data = pieces(array)
    valid = array.is_valid().to_numpy(zero_copy_only=False)
    out_offsets = np.zeros(len(array) + 1, np.int64)
    text, wrong, reason = jsonb.to_text(data, offsets, valid.view(np.uint8), out_offsets)
    where = Place(path, place)
    if wrong >= 0:
        raise where.corrupt(f"value {wrong} is not JSONB: {REASONS[reason]}")
    return variable_array(pa.string(), out_offsets, np.frombuffer(text, np.uint8), pack_validity(valid), where)


def encode_jsonb(array: pa.Array) -> pa.Array:
    """JSONB values of JSON text (strings or large strings), as large binary; nulls stay null.

    Examples
    --------
    >>> encode_jsonb(pa.array(['{"a": 1}']))[0].as_py().hex()
    '400000011000000120000002615001'
    """
    offsets, data = pieces(array)
    valid = array.is_valid().to_pylist()
    values: list[bytes | None] = []
    row = 0
    try:
        for row, (start, stop) in enumerate(zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)):
            values.append(jsonb.from_text(data, start, stop) if valid[row] else None)
    except jsonb.JsonError as error:
        reason, at = error.args
        raise UnfitData(
            f"value {row} is not JSON: {reason} at byte {at}; mend the text or store it as a string"
        ) from None
    return pa.array(values, pa.large_binary())


def pieces(array: pa.Array) -> tuple[Indices, Bytes]:
    """Offsets and bytes of an array of strings or binary."""
    wide = pa.types.is_large_binary(array.type) or pa.types.is_large_string(array.type)
    kind = np.int64 if wide else np.int32
    _, ends, content = array.buffers()
    if len(array) == 0 or ends is None:
        return np.zeros(len(array) + 1, np.int64), np.empty(0, np.uint8)
    offsets = np.frombuffer(ends, kind, len(array) + 1, array.offset * np.dtype(kind).itemsize).astype(np.int64)
    data = np.frombuffer(content, np.uint8) if content is not None else np.empty(0, np.uint8)
    return offsets, data
