"""One leaf's rows into pages: which layout and which codecs (spec encodings.md 9.2).

In this order: nothing but nulls, or a single value, is a constant page; a column that has
more levels than chunks can hold is cut at rows; packed structs and dictionary columns go
their own way; then whatever is smallest of dictionary, compressed and plain values, in
chunks when values are narrow and zipped with their levels when they are wide.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from lancelet.encoding.kernels import pack
from lancelet.encoding.kernels import shred as kernel
from lancelet.encoding.plain import numpy_array
from lancelet.encoding.v2_1.encode.blobs import blob_page
from lancelet.encoding.v2_1.encode.chunks import LARGEST, Chunked, EncodedDictionary, mini_block_page
from lancelet.encoding.v2_1.encode.constant import FEW_ENTRIES, null_page, scalar_of, scalar_page
from lancelet.encoding.v2_1.encode.dictionaries import (
    dictionary_of_words,
    distinct_strings,
    encode_indices,
    encode_items,
    items_of,
)
from lancelet.encoding.v2_1.encode.messages import EncodedPage
from lancelet.encoding.v2_1.encode.options import EncodeOptions
from lancelet.encoding.v2_1.encode.records import encode_records, fixed_records, plain_widths, variable_records
from lancelet.encoding.v2_1.encode.shred import Leaf, Shredded, part, shred
from lancelet.encoding.v2_1.encode.small import encode_small
from lancelet.encoding.v2_1.encode.symbols import expected_ratio
from lancelet.encoding.v2_1.encode.texts import TextSurvey, encode_each, encode_strings, wants_symbols
from lancelet.encoding.v2_1.encode.values import (
    Indexed,
    Lists,
    Record,
    Strings,
    Validity,
    Words,
    leaf_values,
)
from lancelet.encoding.v2_1.encode.words import WORD_BITS, Survey, encode_lists, encode_words, unnest
from lancelet.encoding.v2_1.encode.zipped import zip_records, zip_strings
from lancelet.errors import NotSupported, UnfitData
from lancelet.format.file_versions import V2_1

WIDE = 256
"""Values of this many bytes and more are zipped, narrower ones go into chunks."""
_MOST_LEVELS = 65535
_LEVEL_BITS = 131072
_SYMBOLS_MIGHT_WIN = 0.3


def encode_column(arrays: Sequence[pa.Array], leaf: Leaf, options: EncodeOptions) -> list[EncodedPage]:
    """Pages of one leaf over the rows of some arrays of its top-level field."""
    if not any(map(len, arrays)):
        return []
    if len(arrays) > 1:
        views = _as_they_lie(arrays, leaf, options)
        if views is not None:
            return [views]
    array = join(arrays)
    small = encode_small(array, leaf, options)
    return encode_in_steps(array, leaf, options) if small is None else [small]


def encode_in_steps(array: pa.Array, leaf: Leaf, options: EncodeOptions) -> list[EncodedPage]:
    """Pages of one leaf over the rows of an array, of any kind and size."""
    page = shred(array, leaf)
    if page.reps is None or page.defs is None or page.entries == len(page.values):
        return [_encode(page, options)]
    budget = _level_budget(page)
    if page.entries <= budget:
        return [_encode(page, options)]
    ring = np.empty(LARGEST, np.int64)
    if kernel.widest_chunk(page.defs, page.max_visible, LARGEST, ring) <= budget:
        return [_encode(page, options)]
    cuts = np.zeros((2 * (page.entries // budget) + 3, 3), np.int64)
    count = kernel.row_cuts(page.reps, page.defs, leaf.lists, page.max_visible, budget, cuts)
    marks = [tuple(cut) for cut in cuts[:count].tolist()]
    marks.append((page.entries, len(array), len(page.values)))
    return [_encode(part(page, *pair), options) for pair in itertools.pairwise(marks)]


def join(arrays: Sequence[pa.Array]) -> pa.Array:
    """Arrays of one column end to end; dictionaries become one."""
    if len(arrays) == 1:
        return arrays[0]
    return pa.concat_arrays(arrays)


def _level_budget(page: Shredded) -> int:
    bits = page.leaf.lists.bit_length() + int(page.defs.max() if page.defs is not None else 0).bit_length()
    return min(_MOST_LEVELS, _LEVEL_BITS // max(bits, 1))


def _as_they_lie(arrays: Sequence[pa.Array], leaf: Leaf, options: EncodeOptions) -> EncodedPage | None:
    """Wide vectors without nulls are written from where they are, however many pieces they came in."""
    first = arrays[0].type
    if len(leaf.nodes) > 1 or not pa.types.is_fixed_size_list(first) or options.layout == "miniblock":
        return None
    if any(array.null_count for array in arrays):
        return None
    pages = [shred(array, leaf) for array in arrays]
    values = [leaf_values(page.values, None) for page in pages]
    pieces = []
    for each in values:
        if not isinstance(each, Lists) or each.validity is not None or not isinstance(each.items, Words):
            return None
        if each.items.bits % 8 or each.size * each.items.bits < WIDE * 8:
            return None
        pieces.append(each.items.data)
    codec, _, size = fixed_records(values[0])
    rows = sum(page.length for page in pages)
    whole = Shredded(leaf, rows, rows, None, None, pages[0].layers, pages[0].max_visible, pa.nulls(rows))
    return zip_records(whole, codec, tuple(pieces), size)


def _encode(page: Shredded, options: EncodeOptions) -> EncodedPage:
    dtype = page.values.type
    if page.leaf.field.is_blob:
        return blob_page(page, options.version)
    valid = page.validity
    hollow = pa.types.is_null(dtype) or (pa.types.is_struct(dtype) and dtype.num_fields == 0)
    if hollow or len(page.values) == 0 or (valid is not None and not valid.any()):
        return null_page(page, options.version)
    values = leaf_values(page.values, valid)
    match values:
        case Record():
            return _encode_record(page, values, valid, options)
        case Indexed():
            return _encode_indexed(page, values, options)
        case Lists():
            return _encode_lists(page, values, options)
        case Strings():
            return _encode_strings(page, values, valid, options)
        case Words():
            return _encode_words(page, values, valid, options)


def _crowded(page: Shredded) -> bool:
    """A single row with more levels than a chunk can hold."""
    return (
        page.reps is not None
        and page.entries != len(page.values)
        and page.entries > _level_budget(page)
        and (page.length == 1)
    )


def _zipped(page: Shredded, wide: bool, options: EncodeOptions) -> bool:
    if options.layout is not None and not _crowded(page):
        return options.layout == "fullzip"
    return wide or _crowded(page)


def _encode_words(page: Shredded, words: Words, valid: Validity, options: EncodeOptions) -> EncodedPage:
    survey = None
    if words.bits in WORD_BITS:
        if valid is not None:
            words = _blanked(page, words)
        survey = Survey.of(words)
    if options.version != V2_1 and _few_levels(page):
        index = _constant_word(words, survey, valid)
        if index is not None:
            return scalar_page(page, scalar_of(words, index))
    if not _zipped(page, words.bits >= WIDE * 8, options):
        found = dictionary_of_words(words, survey, options)
        chunked, dictionary = found or (encode_words(words, survey, options), None)
        encoded = mini_block_page(page, chunked, dictionary, options.version)
        if encoded is not None:
            return encoded
    codec, data, size = fixed_records(words)
    return zip_records(page, codec, (data,), size)


def _encode_strings(page: Shredded, strings: Strings, valid: Validity, options: EncodeOptions) -> EncodedPage:
    survey = TextSurvey.of(strings)
    if options.version != V2_1 and _few_levels(page):
        index = _constant_string(strings, survey, valid)
        if index is not None:
            return scalar_page(page, scalar_of(strings, index))
    if options.layout != "fullzip" and not _crowded(page):
        found = _dictionary_of_strings(strings, survey, options)
        if isinstance(found, tuple):
            encoded = mini_block_page(page, *found, options.version)
            if encoded is not None:
                return encoded
    if not _zipped(page, survey.longest >= WIDE, options):
        encoded = mini_block_page(page, encode_strings(strings, survey, options), None, options.version)
        if encoded is not None:
            return encoded
    return zip_strings(page, *encode_each(strings, survey, options))


def _dictionary_of_strings(
    strings: Strings, survey: TextSurvey, options: EncodeOptions
) -> tuple[Chunked, EncodedDictionary] | None:
    """A dictionary, unless FSST promises to be smaller still."""
    found = distinct_strings(strings, options)
    if found is None:
        return None
    size, indices, items = found
    close = size > _SYMBOLS_MIGHT_WIN * strings.nbytes and wants_symbols(strings, survey, options)
    if close and expected_ratio(strings) * strings.nbytes + strings.word * strings.count < size:
        return None
    return encode_indices(indices, options), encode_items(items, options)


def _encode_lists(page: Shredded, lists: Lists, options: EncodeOptions) -> EncodedPage:
    # Zipped booleans have no place for nulls among them that pylance would find.
    if not _zipped(page, _record_bytes(lists) >= WIDE and not _nullable_bits(lists), options):
        encoded = mini_block_page(page, encode_lists(lists, options), None, options.version)
        if encoded is not None:
            return encoded
    codec, data, size = fixed_records(lists)
    return zip_records(page, codec, (data,), size)


def _record_bytes(lists: Lists) -> int:
    levels, items = unnest(lists)
    return math.prod(size for size, _ in levels) * items.bits // 8


def _nullable_bits(lists: Lists) -> bool:
    levels, items = unnest(lists)
    return items.bits == 1 and any(validity is not None for _, validity in levels)


def _encode_indexed(page: Shredded, values: Indexed, options: EncodeOptions) -> EncodedPage:
    items = encode_items(items_of(values.items), options)
    encoded = mini_block_page(page, encode_indices(values.indices, options), items, options.version)
    if encoded is None:
        raise NotSupported(f"column '{page.leaf.path}': a dictionary column with a row of too many empty lists")
    return encoded


def _encode_record(page: Shredded, record: Record, valid: Validity, options: EncodeOptions) -> EncodedPage:
    _check_children(page, valid)
    widths = plain_widths(record)
    if widths is not None and not _crowded(page):
        encoded = mini_block_page(page, encode_records(record, widths), None, options.version)
        if encoded is not None:
            return encoded
    if options.version == V2_1:
        raise NotSupported(
            f"packed struct '{page.leaf.path}' has children that are not narrow plain values; "
            "use file version 2.2 or later, or do not pack it"
        )
    return zip_strings(page, *variable_records(record, options))


def _check_children(page: Shredded, valid: Validity) -> None:
    """A record has no place for the nulls of its fields."""
    array = page.values
    for index, field in enumerate(array.type):
        child = array.field(index)
        if pa.types.is_boolean(field.type) or pa.types.is_struct(field.type) or pa.types.is_null(field.type):
            raise NotSupported(f"packed struct '{page.leaf.path}': a field of type {field.type} cannot be packed")
        if child.null_count == 0:
            continue
        nulls = numpy_array(child.is_null())
        if nulls.any() if valid is None else nulls[valid].any():
            raise UnfitData(
                f"packed struct '{page.leaf.path}' has nulls in its field '{field.name}', which packed structs cannot "
                "store; fill them or do not pack the struct"
            )


def _few_levels(page: Shredded) -> bool:
    """Constant pages keep their levels as they are, which only pays for a few."""
    return (page.defs is None and page.reps is None) or page.entries <= FEW_ENTRIES


def _constant_word(words: Words, survey: Survey | None, valid: Validity) -> int | None:
    """Where the one value of a page is, if there is only one."""
    if valid is not None:
        where = np.flatnonzero(valid)
        first = scalar_of(words, int(where[0]))
        return int(where[0]) if all(scalar_of(words, int(i)) == first for i in where) else None
    if survey is not None:
        return 0 if survey.runs == 1 else None
    if words.bits == 1:
        if words.count >= 8 and words.data[0] not in (0, 255):
            return None
        bits = np.unpackbits(words.data, count=words.count, bitorder="little")
        return 0 if bits.all() or not bits.any() else None
    rows = words.data.reshape(words.count, -1)
    alike = bool((rows[:2] == rows[0]).all()) and bool((rows == rows[0]).all())
    return 0 if alike else None


def _constant_string(strings: Strings, survey: TextSurvey, valid: Validity) -> int | None:
    if valid is None:
        return 0 if survey.equal else None
    where = np.flatnonzero(valid)
    first = scalar_of(strings, int(where[0]))
    return int(where[0]) if all(scalar_of(strings, int(i)) == first for i in where) else None


def _blanked(page: Shredded, words: Words) -> Words:
    """Zeros beneath nulls: what lies there costs no bits."""
    assert page.defs is not None
    data = words.data.copy()
    pack.blank_nulls(page.defs, page.max_visible, words.bits // 8, data)
    return Words(data, words.bits, words.count)
