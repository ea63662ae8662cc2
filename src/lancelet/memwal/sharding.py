"""Which shard a row belongs to (spec memwal.md 3.1).

======================  =====================================================================
transform               value of a row
======================  =====================================================================
``bucket``              ``(hash & 0x7fffffff) mod num_buckets`` of one column; 0 for null
``identity``            the column itself
``unsharded``           always 0
======================  =====================================================================

The hash is that of MurmurHash3 for 32 bits, over words of a value::

    bool, integers of up to 32 bits, dates, times in 32 bits    one word, length 4
    integers of 64 bits, timestamps, times in 64 bits           the low word, the high word, length 8
    floats                                                      their bits; -0 as 0, every NaN as one
    texts                                                       words of 4 bytes, then each byte that is left as a word
                                                                of its own with its sign, length in bytes
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancelet.encoding.plain import arrow_array, numpy_array
from lancelet.errors import InvalidInput, InvalidType, NotSupported, UnknownColumn
from lancelet.format.proto import mem_wal_pb2

if TYPE_CHECKING:
    from lancelet.format.schema import Field, Schema

BUCKET, IDENTITY, UNSHARDED = TRANSFORMS = "bucket", "identity", "unsharded"
NUM_BUCKETS: Final = "num_buckets"
MOST_BUCKETS: Final = 1024
SPEC_ID: Final = 1
FIELD_ID: Final = "bucket"

_SHARD_KEYS: Final = {
    **{f"{sign}int{width}": f"{sign}int{width}" for sign in ("", "u") for width in (8, 16, 32, 64)},
    "bool": "boolean",
    "string": "utf8",
    "large_string": "large_utf8",
}
"""What rows can be sharded by as it is: logical types, and how specs call them."""

Words = npt.NDArray[np.uint32]


@dataclass
class ShardingField:
    """One value that decides about the shard of a row.

    Parameters
    ----------
    field_id
        A name for the value.
    source_ids
        Ids of the fields that it is made of.
    transform
        ``bucket``, ``identity`` or ``unsharded``.
    expression
        SQL in place of a transform; not supported yet.
    result_type
        The type of the value, by its name.
    parameters
        What the transform needs besides: ``num_buckets`` of ``bucket``.
    """

    field_id: str
    source_ids: list[int]
    transform: str | None = None
    expression: str | None = None
    result_type: str = ""
    parameters: dict[str, str] = field(default_factory=dict)


@dataclass
class ShardingSpec:
    """How rows are told apart: the values that decide about the shard of a row.

    Examples
    --------
    >>> ShardingSpec(1, [ShardingField("bucket", [0], "bucket", None, "int32", {"num_buckets": "8"})]).fields[0].transform
    'bucket'
    """

    spec_id: int
    fields: list[ShardingField]


def spec_of(value: ShardingSpec | Mapping[str, Any]) -> ShardingSpec:
    """A spec as a user gives it: as a value, or as a dict with the same names."""
    if isinstance(value, ShardingSpec):
        return value
    if not isinstance(value, Mapping):
        raise InvalidType(f"a sharding spec is a ShardingSpec or a dict, not {type(value)}")
    try:
        fields = [one if isinstance(one, ShardingField) else ShardingField(**one) for one in value["fields"]]
        return ShardingSpec(int(value["spec_id"]), fields)
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidInput(f"a sharding spec has a spec_id and fields, {value!r} does not fit: {error}") from None


def spec_from_proto(message: mem_wal_pb2.ShardingSpec) -> ShardingSpec:
    fields = [
        ShardingField(
            one.field_id,
            list(one.source_ids),
            one.transform if one.HasField("transform") else None,
            one.expression if one.HasField("expression") else None,
            one.result_type,
            dict(one.parameters),
        )
        for one in message.fields
    ]
    return ShardingSpec(message.spec_id, fields)


def spec_to_proto(spec: ShardingSpec) -> mem_wal_pb2.ShardingSpec:
    return mem_wal_pb2.ShardingSpec(
        spec_id=spec.spec_id,
        fields=[
            mem_wal_pb2.ShardingField(
                field_id=one.field_id,
                source_ids=one.source_ids,
                transform=one.transform,
                expression=one.expression,
                result_type=one.result_type,
                parameters=one.parameters,
            )
            for one in spec.fields
        ],
    )


def bucket_spec(schema: Schema, column: str, buckets: int) -> ShardingSpec:
    """Rows by the hash of a column."""
    if isinstance(buckets, bool) or not 1 <= buckets <= MOST_BUCKETS:
        raise InvalidInput(f"bucket_sharding: num_buckets must be in [1, {MOST_BUCKETS}], got {buckets!r}")
    source = _column(schema, column)
    if not _can_be_hashed(source.arrow_type):
        raise InvalidInput(
            f"Unsupported bucket sharding column type: '{column}' is {source.arrow_type}; choose another"
        )
    parameters = {NUM_BUCKETS: str(buckets)}
    return ShardingSpec(SPEC_ID, [ShardingField(FIELD_ID, [source.id], BUCKET, None, "int32", parameters)])


def identity_spec(schema: Schema, column: str) -> ShardingSpec:
    """Rows by the value of a column."""
    source = _column(schema, column)
    if source.logical_type not in _SHARD_KEYS:
        raise InvalidInput(
            f"identity_sharding: column '{column}' is {source.logical_type}, which cannot be used as a shard key; take a "
            "column of integers, booleans or texts, or bucket_column"
        )
    return ShardingSpec(
        SPEC_ID, [ShardingField(FIELD_ID, [source.id], IDENTITY, None, _SHARD_KEYS[source.logical_type])]
    )


def unsharded_spec() -> ShardingSpec:
    """All rows in one shard."""
    return ShardingSpec(SPEC_ID, [ShardingField(FIELD_ID, [], UNSHARDED, None, "int32")])


def _column(schema: Schema, name: str) -> Field:
    found = next((one for one in schema.fields if one.name == name), None)
    if found is None:
        raise UnknownColumn(name, schema.names, "the table, whose rows are to be sharded by it")
    return found


def evaluate(batch: pa.RecordBatch, spec: ShardingSpec, schema: Schema) -> pa.RecordBatch:
    """The sharding values of rows, a column for each field of the spec."""
    names = {node.id: node.name for node in schema.fields}
    arrays, fields = [], []
    for one in spec.fields:
        array = _values(batch, one, names)
        arrays.append(array)
        fields.append(pa.field(one.field_id, array.type, nullable=bool(array.null_count)))
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def _values(batch: pa.RecordBatch, one: ShardingField, names: Mapping[int, str]) -> pa.Array:
    if one.transform == UNSHARDED:
        return arrow_array(np.zeros(batch.num_rows, np.int32))
    if one.transform not in (BUCKET, IDENTITY):
        raise NotSupported(
            f"Unsupported MemWAL sharding transform for field '{one.field_id}': {one.transform or one.expression!r}; those that "
            "are known are bucket, identity and unsharded. Rows of such shards are read and compacted; to write some, name their shard "
            "(shard_id)"
        )
    if len(one.source_ids) != 1 or one.source_ids[0] not in names:
        raise InvalidInput(f"sharding field '{one.field_id}' is about one column of the table, not {one.source_ids}")
    name = names[one.source_ids[0]]
    if name not in batch.schema.names:
        raise UnknownColumn(name, batch.schema.names, "the data, whose rows are sharded by it")
    column = batch.column(name)
    if one.transform == IDENTITY:
        return column
    return arrow_array(bucket_of(column, buckets_of(one)))


def buckets_of(one: ShardingField) -> int:
    """How many buckets the rows of a field are told apart by."""
    text = one.parameters.get(NUM_BUCKETS)
    if text is None:
        raise InvalidInput(f"Bucket sharding field '{one.field_id}' missing '{NUM_BUCKETS}' parameter")
    if not text.isdecimal() or int(text) < 1:
        raise InvalidInput(f"Bucket sharding field '{one.field_id}' requires positive {NUM_BUCKETS}, got {text}")
    return int(text)


def bucket_of(column: pa.Array, buckets: int) -> npt.NDArray[np.int32]:
    """The bucket of each value.

    Examples
    --------
    >>> bucket_of(pa.array([1, 2, 3, None], pa.int32()), 8).tolist()
    [2, 7, 1, 0]
    """
    hashes = murmur(column)
    found: npt.NDArray[np.int32] = ((hashes & np.uint32(0x7FFFFFFF)) % np.uint32(buckets)).astype(np.int32)
    if column.null_count:
        found[~numpy_array(column.is_valid())] = 0
    return found


def murmur(column: pa.Array) -> Words:
    """The hash of each value; of nulls whatever is there."""
    if not _can_be_hashed(column.type):
        raise InvalidInput(
            f"Unsupported bucket sharding column type: {column.type}; take numbers, dates, times or texts"
        )
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        return _hash_texts(column.cast(pa.large_string()))
    stored = _stored(column)
    state = np.zeros(len(stored), np.uint32)
    if stored.dtype.itemsize == 4:
        return _finished(_mixed(state, stored.view(np.uint32)), np.uint32(4))
    halves = np.ascontiguousarray(stored).view("<u4").reshape(-1, 2)
    return _finished(_mixed(_mixed(state, halves[:, 0]), halves[:, 1]), np.uint32(8))


def _can_be_hashed(dtype: pa.DataType) -> bool:
    kinds = pa.types
    if kinds.is_date64(dtype) or kinds.is_float16(dtype) or kinds.is_duration(dtype) or kinds.is_interval(dtype):
        return False
    return bool(
        kinds.is_boolean(dtype)
        or kinds.is_integer(dtype)
        or kinds.is_floating(dtype)
        or kinds.is_temporal(dtype)
        or kinds.is_string(dtype)
        or kinds.is_large_string(dtype)
    )


def _stored(column: pa.Array) -> npt.NDArray[Any]:
    """Values as signed words of 32 or 64 bits."""
    dtype = column.type
    if pa.types.is_boolean(dtype):
        return numpy_array(column.fill_null(False)).astype(np.int32)
    width = dtype.bit_width // 8
    letter = "f" if pa.types.is_floating(dtype) else "u" if pa.types.is_unsigned_integer(dtype) else "i"
    data = column.buffers()[1]
    kind = np.dtype(f"<{letter}{width}")
    values = (
        np.zeros(len(column), kind) if data is None else np.frombuffer(data, kind, len(column), column.offset * width)
    )
    if letter == "f":
        return _float_bits(values, width)
    if width < 4:
        return values.astype(np.int32)
    return np.ascontiguousarray(values)


def _float_bits(values: npt.NDArray[Any], width: int) -> npt.NDArray[Any]:
    """The bits of floats; both zeros have those of the one, and every NaN the same."""
    found = np.where(values == 0, values.dtype.type(0), values).view(f"<u{width}")
    nan = 0x7FC00000 if width == 4 else 0x7FF8000000000000
    return np.where(np.isnan(values), found.dtype.type(nan), found)


def _rotated(words: Words, by: int) -> Words:
    rotated: Words = (words << np.uint32(by)) | (words >> np.uint32(32 - by))
    return rotated


def _mixed(state: Words, words: Words) -> Words:
    with np.errstate(over="ignore"):
        words = _rotated(words * np.uint32(0xCC9E2D51), 15) * np.uint32(0x1B873593)
        mixed: Words = _rotated(state ^ words, 13) * np.uint32(5) + np.uint32(0xE6546B64)
    return mixed


def _finished(state: Words, length: Words | np.uint32) -> Words:
    with np.errstate(over="ignore"):
        state = state ^ length
        state = (state ^ (state >> np.uint32(16))) * np.uint32(0x85EBCA6B)
        state = (state ^ (state >> np.uint32(13))) * np.uint32(0xC2B2AE35)
        finished: Words = state ^ (state >> np.uint32(16))
    return finished


def _hash_texts(column: pa.Array) -> Words:
    """All texts side by side: a step takes the next word, or the next byte, of those that are long enough."""
    _, where, content = column.buffers()
    if where is None or not len(column):
        return np.zeros(len(column), np.uint32)
    offsets = np.frombuffer(where, np.int64, len(column) + 1, column.offset * 8)
    data = np.frombuffer(content or b"", np.uint8)
    starts, lengths = offsets[:-1], np.diff(offsets)
    state = np.zeros(len(column), np.uint32)
    wholes = lengths >> 2
    for step in range(int(wholes.max(initial=0))):
        some = np.flatnonzero(wholes > step)
        at = starts[some] + step * 4
        words = np.zeros(len(some), np.uint32)
        for byte in range(4):
            words |= data[at + byte].astype(np.uint32) << np.uint32(8 * byte)
        state[some] = _mixed(state[some], words)
    for step in range(3):
        some = np.flatnonzero((lengths & 3) > step)
        last = data[starts[some] + wholes[some] * 4 + step].view(np.int8).astype(np.int32).view(np.uint32)
        state[some] = _mixed(state[some], last)
    return _finished(state, lengths.astype(np.uint32))


def shard_values(batch: pa.RecordBatch, specs: Sequence[ShardingSpec], schema: Schema) -> pa.Array:
    """The value of the one field of the newest spec for each row."""
    spec = specs[-1]
    if len(spec.fields) != 1:
        raise NotSupported(f"sharding spec {spec.spec_id} has {len(spec.fields)} fields; rows are sharded by one")
    return evaluate(batch, spec, schema).column(0)


def scalar_bytes(value: pa.Scalar) -> bytes:
    """A sharding value as states of shards keep it: as Arrow stores it."""
    if pa.types.is_string(value.type) or pa.types.is_large_string(value.type):
        return bytes(str(value.as_py() or ""), "utf-8")
    if pa.types.is_boolean(value.type):
        return bytes([bool(value.as_py())])
    return int(value.as_py() or 0).to_bytes(value.type.bit_width // 8, "little", signed=not _is_unsigned(value.type))


def _is_unsigned(dtype: pa.DataType) -> bool:
    return bool(pa.types.is_unsigned_integer(dtype))
