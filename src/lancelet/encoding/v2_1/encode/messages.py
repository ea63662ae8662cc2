"""Codecs in words: small constructors of the messages that describe a page (spec encodings.md 1.2).

The simple ones are made once, and shared: a message is copied into the one that holds it, never changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TypeAlias

from lancelet.encoding.rows import Bytes
from lancelet.format.proto import column_pb2, encodings20_pb2
from lancelet.format.proto import encodings21_pb2 as pb

Codec: TypeAlias = pb.CompressiveEncoding
Layout: TypeAlias = pb.PageLayout | encodings20_pb2.ArrayEncoding

_SCHEMES = {"lz4": pb.COMPRESSION_LZ4, "zstd": pb.COMPRESSION_ZSTD}


@dataclass(frozen=True, slots=True)
class EncodedPage:
    """A page ready to be written."""

    length: int
    """Rows, or elements for a fixed-size list of structs."""
    rows: int
    layout: Layout
    buffers: tuple[tuple[Bytes, ...], ...]
    """Each buffer in one or more pieces, to be written back to back."""
    name: str = "/lance.encodings21.PageLayout"
    """Type of the layout, as the file names it."""
    column: int = 0
    """Which of the columns that are encoded together it belongs to."""
    described: bytes = b""
    """The layout as a file has it, where that is made already."""

    @property
    def nbytes(self) -> int:
        return sum(piece.nbytes for buffer in self.buffers for piece in buffer)


def described(page: EncodedPage) -> bytes:
    """The layout as a file has it: a message of any type."""
    return column_pb2.AnyMessage(type_url=page.name, value=page.layout.SerializeToString()).SerializeToString()


@cache
def flat(bits: int) -> Codec:
    return Codec(flat=pb.Flat(bits_per_value=bits))


@cache
def variable(bits: int) -> Codec:
    return Codec(variable=pb.Variable(offsets=flat(bits)))


@cache
def inline(bits: int) -> Codec:
    return Codec(inline_bitpacking=pb.InlineBitpacking(uncompressed_bits_per_value=bits))


def out_of_line(bits: int, width: int) -> Codec:
    return Codec(out_of_line_bitpacking=pb.OutOfLineBitpacking(uncompressed_bits_per_value=bits, values=flat(width)))


@cache
def runs(bits: int) -> Codec:
    return Codec(rle=pb.Rle(values=flat(bits), run_lengths=flat(8)))


@cache
def byte_streams(bits: int) -> Codec:
    return Codec(byte_stream_split=pb.ByteStreamSplit(values=flat(bits)))


def general(scheme: str, level: int | None, inner: Codec) -> Codec:
    compression = pb.BufferCompression(scheme=_SCHEMES[scheme], level=level)
    return Codec(general=pb.General(compression=compression, values=inner))


def fsst(table: bytes, inner: Codec) -> Codec:
    return Codec(fsst=pb.Fsst(symbol_table=table, values=inner))


def fixed_list(size: int, inner: Codec, has_validity: bool) -> Codec:
    return Codec(fixed_size_list=pb.FixedSizeList(items_per_value=size, values=inner, has_validity=has_validity))


def packed_struct(widths: Sequence[int]) -> Codec:
    return Codec(packed_struct=pb.PackedStruct(bits_per_value=widths, values=flat(sum(widths))))
