"""Arrow arrays into pages of version 2.0 (spec file-format.md 3).

Every field of the schema has a column of its own, parents before children. A page's tree of
encodings names its buffers by number, in the order validity, values; end offsets, bytes; keys, items::

    fixed width   nullable{flat}                     strings   binary{end offsets, bytes}
    lists         list{end offsets} + items          structs   a header of no buffers + children

Null strings and lists have an offset beyond all others; null structs have no place at all.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from lancelet.encoding.kernels import pack, shred
from lancelet.encoding.kernels import strings as kernel
from lancelet.encoding.kernels.fullzip import gather_slices
from lancelet.encoding.picking import keep_rows
from lancelet.encoding.plain import list_offsets, numpy_array
from lancelet.encoding.rows import Bytes
from lancelet.encoding.v2_1.encode.general import compressor
from lancelet.encoding.v2_1.encode.messages import EncodedPage
from lancelet.encoding.v2_1.encode.options import EncodeOptions
from lancelet.encoding.v2_1.encode.symbols import train
from lancelet.encoding.v2_1.encode.values import Lists, Offsets, Strings, Words, leaf_values, plain_storage
from lancelet.errors import NotSupported, UnfitData
from lancelet.format.file_versions import DEFAULT_VERSION
from lancelet.format.proto import encodings20_pb2 as pb
from lancelet.format.schema import Field

NAME = "/lance.encodings.ArrayEncoding"
Tree = pb.ArrayEncoding
_DICTIONARY_ROWS = 100
_DICTIONARY_ITEMS = 99
_BLOB_NULL = 1
_NO_BITS = np.empty(0, np.uint8)


def column_fields(field: Field) -> list[Field]:
    """The fields that own a column, in the order of the columns."""
    if field.is_packed or field.is_blob:
        return [field]
    return [field, *(owner for child in field.children for owner in column_fields(child))]


def check_field(field: Field) -> None:
    """Refuse types that 2.0 has no encoding for."""
    for node in field.walk():
        if node.logical_type == "map" or node.logical_type.startswith("fixed_size_list:struct:"):
            raise NotSupported(
                f"Lance v2.0 has no field encoding for '{node.name}' of type {node.logical_type}; use file version 2.2"
            )
        if node.is_blob_v2:
            raise NotSupported(f"field '{node.name}': Blob v2 requires file version >= 2.2 (got 2.0)")


def encode_field(arrays: Sequence[pa.Array], field: Field) -> list[EncodedPage]:
    """One page for every column of a top-level field."""
    array = arrays[0] if len(arrays) == 1 else pa.concat_arrays(arrays)
    pages: list[EncodedPage] = []
    _encode(array, field, field.name, pages)
    return pages


def header_page(column: int, length: int) -> EncodedPage:
    """All that a struct's own column says."""
    return EncodedPage(length, length, Tree(struct=pb.SimpleStruct()), (), NAME, column)


def _encode(array: pa.Array, field: Field, path: str, pages: list[EncodedPage]) -> None:
    array = plain_storage(array, field, path)
    if not field.nullable and array.null_count:
        raise UnfitData(
            f"Column '{path}' is declared as non-nullable but contains null values; "
            "declare the field nullable or fill the nulls"
        )
    builder = _Page()
    column, count = len(pages), len(array)
    if field.is_blob:
        tree = builder.blobs(array)
    elif field.logical_type == "struct":
        if array.null_count:
            raise UnfitData(
                f"The struct field `{path}` contains {array.null_count} null value(s), but Lance file version 2.0 "
                "does not encode struct validity; use file version 2.1 or later"
            )
        if not field.is_packed:
            pages.append(header_page(column, count))
            for index, child in enumerate(field.children):
                _encode(array.field(index), child, f"{path}.{child.name}", pages)
            return
        tree = builder.packed(array, path)
    elif field.children:
        tree, items = builder.lists(array)
        pages.append(EncodedPage(count, count, tree, builder.done(), NAME, column))
        _encode(items, field.children[0], f"{path}.{field.children[0].name}", pages)
        return
    else:
        tree = builder.leaf(array, EncodeOptions.of(DEFAULT_VERSION, path, field.metadata, {}))
    pages.append(EncodedPage(count, count, tree, builder.done(), NAME, column))


class _Page:
    """The buffers of a page under construction."""

    __slots__ = ("_buffers",)

    def __init__(self) -> None:
        self._buffers: list[Bytes] = []

    def done(self) -> tuple[tuple[Bytes, ...], ...]:
        return tuple((buffer,) for buffer in self._buffers)

    def leaf(self, array: pa.Array, options: EncodeOptions) -> pb.ArrayEncoding:
        if pa.types.is_null(array.type):
            return _all_nulls()
        if pa.types.is_dictionary(array.type):
            return self._dictionary(array, options)
        bits = valid_bits(array)
        # Only what fixed-size lists have beneath their nulls is looked at.
        nested = bits is not None and pa.types.is_fixed_size_list(array.type)
        values = leaf_values(array, numpy_array(array.is_valid()) if nested else None)
        if isinstance(values, Strings):
            return self._strings(values, bits, options)
        if isinstance(values, Words | Lists):
            return self._fixed(values, bits, array.null_count)
        raise NotSupported(f"Lance v2.0 has no encoding for {array.type}")

    def lists(self, array: pa.Array) -> tuple[pb.ArrayEncoding, pa.Array]:
        """End offsets of a page's lists, and the items in them; null lists have none."""
        offsets, bits = list_offsets(array), valid_bits(array)
        items = array.values.slice(int(offsets[0]), int(offsets[-1]) - int(offsets[0]))
        if bits is not None:
            lengths, valid = np.diff(offsets), numpy_array(array.is_valid())
            if lengths[~valid].any():
                items = keep_rows(items, pa.array(np.repeat(valid, lengths)))
                offsets = np.concatenate((np.zeros(1, np.int64), np.cumsum(np.where(valid, lengths, 0))))
        total = len(items)
        ends = self._ends(offsets, bits, total + 1)
        return Tree(list=pb.List(offsets=ends, null_offset_adjustment=total + 1, num_items=total)), items

    def blobs(self, array: pa.Array) -> pb.ArrayEncoding:
        """Where the payloads are, and how long; (1, 0) is null."""
        null = numpy_array(array.is_null())
        positions, sizes = (array.field(i).to_numpy(zero_copy_only=False) for i in range(2))
        records = np.stack((np.where(null, _BLOB_NULL, positions), np.where(null, 0, sizes)), axis=1).astype("<u8")
        inner = [_no_nulls(Tree(flat=pb.Flat(bits_per_value=64, buffer=pb.Buffer()))) for _ in range(2)]
        return Tree(packed_struct=pb.PackedStruct(inner=inner, buffer=self._put(records.reshape(-1).view(np.uint8))))

    def packed(self, array: pa.Array, path: str) -> pb.ArrayEncoding:
        """Children side by side, whole bytes each."""
        inner, columns = [], []
        for index, field in enumerate(array.type):
            child = array.field(index)
            values = leaf_values(child, None)
            if child.null_count:
                raise UnfitData(f"packed struct '{path}' has nulls in its field '{field.name}'; fill or unpack them")
            words = values.items if isinstance(values, Lists) else values
            if (
                not isinstance(words, Words)
                or words.bits % 8
                or (isinstance(values, Lists) and values.validity is not None)
            ):
                raise NotSupported(f"packed struct '{path}': a field of type {field.type} cannot be packed")
            tree = _no_nulls(Tree(flat=pb.Flat(bits_per_value=words.bits, buffer=pb.Buffer())))
            if isinstance(values, Lists):
                tree = _no_nulls(Tree(fixed_size_list=pb.FixedSizeList(dimension=values.size, items=tree)))
            inner.append(tree)
            columns.append(words.data.reshape(len(array), -1) if len(array) else words.data.reshape(0, 1))
        data = np.concatenate(columns, axis=1).reshape(-1) if columns else np.empty(0, np.uint8)
        return Tree(packed_struct=pb.PackedStruct(inner=inner, buffer=self._put(data)))

    def _put(self, data: Bytes) -> pb.Buffer:
        self._buffers.append(data)
        return pb.Buffer(buffer_index=len(self._buffers) - 1)

    def _flat(self, data: Bytes, bits: int) -> pb.ArrayEncoding:
        return Tree(flat=pb.Flat(bits_per_value=bits, buffer=self._put(data)))

    def _ends(self, offsets: Offsets, bits: Bytes | None, above: int) -> pb.ArrayEncoding:
        """End offsets from the first value's start; those of nulls are ``above`` higher."""
        ends = np.empty(len(offsets) - 1, np.uint64)
        shred.end_offsets(offsets, _NO_BITS if bits is None else bits, above, ends)
        return _no_nulls(self._flat(ends.view(np.uint8), 64))

    def _fixed(self, values: Words | Lists, bits: Bytes | None, nulls: int) -> pb.ArrayEncoding:
        if nulls == values.count:
            return _all_nulls()
        validity = None if bits is None else self._flat(bits, 1)
        if isinstance(values, Words):
            tree = self._flat(values.data, values.bits)
        else:
            inner = values.validity
            if inner is None:
                items = self._fixed(values.items, None, 0)
            else:
                items = self._fixed(
                    values.items, np.packbits(inner, bitorder="little"), len(inner) - int(np.count_nonzero(inner))
                )
            tree = Tree(fixed_size_list=pb.FixedSizeList(dimension=values.size, items=items))
        if validity is None:
            return _no_nulls(tree)
        return Tree(nullable=pb.Nullable(some_nulls=pb.Nullable.SomeNull(validity=validity, values=tree)))

    def _strings(self, strings: Strings, bits: Bytes | None, options: EncodeOptions) -> pb.ArrayEncoding:
        if strings.text and not strings.wide and strings.count >= _DICTIONARY_ROWS:
            found = self._few_strings(strings, bits)
            if found is not None:
                return found
        if options.compression == "fsst" and not strings.wide and strings.nbytes:
            table = train(strings)
            binary = self._binary(table.encode(strings), bits, None, None)
            return Tree(fsst=pb.Fsst(binary=binary, symbol_table=table.message))
        return self._binary(strings, bits, options.general, options.level)

    def _binary(self, strings: Strings, bits: Bytes | None, scheme: str | None, level: int | None) -> pb.ArrayEncoding:
        start = int(strings.offsets[0])
        above = strings.nbytes + 1 if strings.count else 0
        indices = self._ends(strings.offsets, bits, above)
        data = strings.data[start : start + strings.nbytes]
        flat = pb.Flat(bits_per_value=8)
        if scheme is not None and len(data):
            data = np.frombuffer(compressor(scheme, level)(data), np.uint8)
            flat.compression.CopyFrom(pb.Compression(scheme=scheme, level=level))
        flat.buffer.CopyFrom(self._put(data))
        return Tree(binary=pb.Binary(indices=indices, bytes=Tree(flat=flat), null_adjustment=above))

    def _few_strings(self, strings: Strings, bits: Bytes | None) -> pb.ArrayEncoding | None:
        """A dictionary of a column that is none by its type: key 0 is null, key k is item k - 1."""
        indices, firsts = np.empty(strings.count, np.uint32), np.empty(_DICTIONARY_ITEMS + 1, np.int64)
        table, whole = np.empty(256, np.int64), np.zeros(1, np.int64)
        found = kernel.distinct(
            strings.offsets, strings.data, whole, strings.count, _DICTIONARY_ITEMS + 1, table, indices, firsts
        )
        if found < 0:
            return None
        keys = (indices + 1).astype(np.uint8)
        if bits is not None:
            keys *= np.unpackbits(bits, count=strings.count, bitorder="little")
        starts = strings.offsets[firsts[:found]].astype(np.int64)
        lengths = strings.offsets[firsts[:found] + 1].astype(np.int64) - starts
        offsets = np.zeros(found + 1, np.int64)
        np.cumsum(lengths, out=offsets[1:])
        data = np.empty(int(offsets[-1]), np.uint8)
        gather_slices(strings.data, starts, lengths, 0, data)
        encoded = _no_nulls(self._flat(keys, 8))
        items = self._binary(Strings(offsets, data, wide=False, text=True), None, None, None)
        return Tree(dictionary=pb.Dictionary(indices=encoded, items=items, num_dictionary_items=found))

    def _dictionary(self, array: pa.Array, options: EncodeOptions) -> pb.ArrayEncoding:
        """A column that is a dictionary by its type: null rows name a null item."""
        items = array.dictionary
        keys = array.indices.fill_null(0).to_numpy(zero_copy_only=False).copy()
        nulls = numpy_array(array.indices.is_null())
        if nulls.any():
            at = items.is_null().index(True).as_py()
            if at < 0:
                at = len(items)
                items = pa.concat_arrays([items, pa.nulls(1, items.type)])
            if at > np.iinfo(keys.dtype).max:
                raise UnfitData(
                    f"a dictionary of {len(items)} items has no key of type {array.type.index_type} left for nulls"
                )
            keys[nulls] = at
        encoded = _no_nulls(self._flat(keys.view(np.uint8), keys.dtype.itemsize * 8))
        bits = valid_bits(items)
        values = leaf_values(items, None)
        if isinstance(values, Strings):
            tree = self._binary(values, bits, None, None)
        elif isinstance(values, Words):
            tree = self._fixed(values, bits, items.null_count)
        else:
            raise NotSupported(f"Lance v2.0 has no encoding for {array.type}")
        return Tree(dictionary=pb.Dictionary(indices=encoded, items=tree, num_dictionary_items=len(items)))


def valid_bits(array: pa.Array) -> Bytes | None:
    """Which values count, as a bitmap that starts at bit 0; None when all do."""
    if array.null_count == 0:
        return None
    bits = np.empty((len(array) + 7) // 8, np.uint8)
    pack.slice_bits(np.frombuffer(array.buffers()[0], np.uint8), array.offset, np.array([len(array)], np.int64), bits)
    return bits


def _no_nulls(tree: pb.ArrayEncoding) -> pb.ArrayEncoding:
    return Tree(nullable=pb.Nullable(no_nulls=pb.Nullable.NoNull(values=tree)))


def _all_nulls() -> pb.ArrayEncoding:
    return Tree(nullable=pb.Nullable(all_nulls=pb.Nullable.AllNull()))
