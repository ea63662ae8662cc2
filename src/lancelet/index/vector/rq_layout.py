"""How the codes of RaBitQ lie in a file (spec indices.md 14.6). Every function has its reverse beside it.

Sign codes of a partition come in batches of 32 rows, so that tables of 16 entries can be looked up for all of them at
once. Of code byte ``j`` of the rows of batch ``B`` there are 32 bytes at ``(B * width + j) * 32``::

    byte t < 16     low half of row P[t]   | low half of row P[t] + 16  << 4       P = 0 8 1 9 2 10 3 11 ... 7 15
    byte 16 + t     high half of row P[t]  | high half of row P[t] + 16 << 4

Fewer than 32 rows at the end lie column by column: byte ``j`` of row ``r`` at ``j * rows + r``.

Extra codes, numbers of ``x`` bits, lie row by row in blocks of 64 numbers, which take ``8 * x`` bytes::

    x = 1    a stream of bits
        2    byte b: numbers b, 16 + b, 32 + b, 48 + b at bits 0, 2, 4, 6
        4    byte 8 u + b: number 16 u + b, and 16 u + 8 + b in the high half
        6    byte 16 k + b, k < 3: number 16 k + b, and two bits of number 48 + b on top
        8    the numbers themselves
    3, 7     as 2 and 6, then the top bits as 8 bytes: of number 16 k + b at bit 2 k + b / 8 of byte b % 8
        5    byte b: numbers b and 16 + b, byte 16 + b: numbers 32 + b and 48 + b, then the top bits
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]

BATCH: Final = 32
BLOCK: Final = 64
_HALF: Final = 16
_ORDER: Final = np.arange(_HALF).reshape(2, 8).T.reshape(-1)
"""Row ``P[t]`` of each byte ``t``."""


def extra_width(dimension: int, bits: int) -> int:
    """Bytes of extra codes a row."""
    return -(-dimension // BLOCK) * 8 * bits


def pack_signs(codes: Bytes) -> Bytes:
    """Codes of a partition, one row each, in the order of the file; the shape stays."""
    count, width = codes.shape
    whole = count // BATCH * BATCH
    batches = codes[:whole].reshape(whole // BATCH, 2, _HALF, width)[:, :, _ORDER].transpose(0, 3, 1, 2)
    packed = np.empty((len(batches), width, 2, _HALF), np.uint8)
    packed[:, :, 0] = batches[:, :, 0] & 15 | batches[:, :, 1] << 4
    packed[:, :, 1] = batches[:, :, 0] >> 4 | batches[:, :, 1] & 0xF0
    return np.concatenate([packed.reshape(-1), codes[whole:].T.reshape(-1)]).reshape(count, width)


def unpack_signs(stored: Bytes) -> Bytes:
    """The reverse of :func:`pack_signs`."""
    count, width = stored.shape
    whole = count // BATCH * BATCH
    codes = np.empty((count, width), np.uint8)
    packed = stored[:whole].reshape(whole // BATCH, width, 2, _HALF)
    batches = np.empty((len(packed), 2, _HALF, width), np.uint8)
    batches[:, 0, _ORDER] = (packed[:, :, 0] & 15 | packed[:, :, 1] << 4).transpose(0, 2, 1)
    batches[:, 1, _ORDER] = (packed[:, :, 0] >> 4 | packed[:, :, 1] & 0xF0).transpose(0, 2, 1)
    codes[:whole] = batches.reshape(whole, width)
    codes[whole:] = stored[whole:].reshape(width, count - whole).T
    return codes


def pack_extra(codes: Bytes, bits: int) -> Bytes:
    """Numbers below ``2 ** bits``, one row each, as rows of bytes."""
    count, dimension = codes.shape
    blocks = -(-dimension // BLOCK)
    padded = np.zeros((count, blocks * BLOCK), np.uint8)
    padded[:, :dimension] = codes
    n = padded.reshape(count, blocks, BLOCK)
    fours = n.reshape(count, blocks, 4, 16)
    packed = np.zeros((count, blocks, 8 * bits), np.uint8)
    if bits == 1:
        packed[:] = np.packbits(n, axis=2, bitorder="little")
    elif bits in (2, 3):
        for k in range(4):
            packed[..., :16] |= (fours[:, :, k] & 3) << 2 * k
    elif bits == 4:
        pairs = n.reshape(count, blocks, 4, 2, 8)
        packed[:] = (pairs[:, :, :, 0] | pairs[:, :, :, 1] << 4).reshape(count, blocks, 32)
    elif bits == 5:
        packed[..., :16] = fours[:, :, 0] & 15 | fours[:, :, 1] << 4
        packed[..., 16:32] = fours[:, :, 2] & 15 | fours[:, :, 3] << 4
    elif bits in (6, 7):
        packed[..., :48] = n[..., :48] & 63
        for k in range(3):
            packed[..., 16 * k : 16 * k + 16] |= (fours[:, :, 3] >> 2 * k & 3) << 6
    else:
        packed[:] = n
    if bits in (3, 5, 7):
        tops = (n >> bits - 1).reshape(count, blocks, 8, 8)
        for bit in range(8):
            packed[..., -8:] |= tops[:, :, bit] << bit
    return packed.reshape(count, blocks * 8 * bits)


def unpack_extra(packed: Bytes, bits: int, dimension: int) -> Bytes:
    """The reverse of :func:`pack_extra`."""
    count, blocks = len(packed), -(-dimension // BLOCK)
    rows = packed.reshape(count, blocks, 8 * bits)
    n = np.zeros((count, blocks, BLOCK), np.uint8)
    fours = n.reshape(count, blocks, 4, 16)
    if bits == 1:
        n[:] = np.unpackbits(rows, axis=2, bitorder="little")
    elif bits in (2, 3):
        for k in range(4):
            fours[:, :, k] = rows[..., :16] >> 2 * k & 3
    elif bits == 4:
        pairs = n.reshape(count, blocks, 4, 2, 8)
        halves = rows.reshape(count, blocks, 4, 8)
        pairs[:, :, :, 0], pairs[:, :, :, 1] = halves & 15, halves >> 4
    elif bits == 5:
        fours[:, :, 0], fours[:, :, 1] = rows[..., :16] & 15, rows[..., :16] >> 4
        fours[:, :, 2], fours[:, :, 3] = rows[..., 16:32] & 15, rows[..., 16:32] >> 4
    elif bits in (6, 7):
        n[..., :48] = rows[..., :48] & 63
        for k in range(3):
            fours[:, :, 3] |= (rows[..., 16 * k : 16 * k + 16] >> 6) << 2 * k
    else:
        n[:] = rows
    if bits in (3, 5, 7):
        tops = n.reshape(count, blocks, 8, 8)
        for bit in range(8):
            tops[:, :, bit] |= (rows[..., -8:] >> bit & 1) << bits - 1
    return n.reshape(count, blocks * BLOCK)[:, :dimension]
