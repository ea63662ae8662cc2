"""Every kernel, called with arrays and numbers that nobody would mean.

Run by itself (``python wild_calls.py SEED SECONDS``) it goes on for some time; under
AddressSanitizer that shows any byte read or written outside of the arrays given.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable

import numpy as np

from lancelet.encoding.kernels import bitpack, dictionary, fsst, fullzip, levels, lz4, miniblock, pick

EXTREMES = (0, 1, -1, 2, 7, 8, 15, 16, 63, 64, 65, 255, 1023, 1024, 1025, 2**31 - 1, 2**31, -(2**31), 2**62, 2**63 - 1,
            -(2**63))  # fmt: skip


class Wild:
    """Draws arguments; each array is an allocation of its own, so that its ends can be watched."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.numbers = np.random.default_rng(seed)

    def length(self) -> int:
        return self.rng.choice((0, 1, 2, 3, 5, 16, 64, 200, self.rng.randrange(3000)))

    def bytes(self, length: int | None = None) -> np.ndarray:
        size = self.length() if length is None else length
        top = self.rng.choice((1, 2, 20, 256))
        return self.numbers.integers(0, top, size).astype(np.uint8)

    def words(self, dtype: type, length: int | None = None) -> np.ndarray:
        size = self.length() if length is None else length
        top = self.rng.choice((1, 2, 5, 300, 60000))
        return self.numbers.integers(0, top, size).astype(dtype)

    def number(self, near: int = 64) -> int:
        draw = self.rng.random()
        if draw < 0.12:
            return self.rng.choice(EXTREMES)
        return self.rng.randrange(near + 1)

    def int32(self, *usual: int) -> int:
        return self.rng.choice(usual) if self.rng.random() < 0.85 else max(-(2**31), min(2**31 - 1, self.number()))

    def indices(self, length: int, near: int, *, rising: bool = False) -> np.ndarray:
        calm = self.rng.random() < 0.6
        values = [self.rng.randrange(near + 1) if calm else self.number(near) for _ in range(length)]
        return np.array(sorted(values) if rising else values, np.int64)

    def count(self) -> int:
        return self.rng.choice((0, 1, 2, 5))

    def other(self, length: int) -> int:
        """Mostly the length that the others have."""
        return length if self.rng.random() < 0.93 else self.length()


def _chunks(w: Wild) -> tuple[np.ndarray, ...]:
    data, n = w.bytes(), w.count()
    reach = len(data)
    return data, w.indices(n, reach), w.indices(w.other(n), reach), w.indices(w.other(n), min(reach, 1100))


def _unpack_inline(w: Wild) -> object:
    data, positions, sizes, counts = _chunks(w)
    bits = w.int32(8, 16, 32, 64)
    if len(data) and w.rng.random() < 0.8:
        data[::8] = w.rng.randrange(5)
    return bitpack.unpack_inline(data, positions, sizes, counts, bits, w.bytes(w.length() * 8))


def _unpack_blocks(w: Wild) -> object:
    return bitpack.unpack_blocks(*_chunks(w), w.int32(8, 16, 32, 64), w.int32(0, 1, 2, 8, 16), w.bytes(w.length() * 8))


def _parse_chunks(w: Wild) -> object:
    data, n = w.bytes(), w.count()
    rep, level, buffers = w.rng.random() < 0.5, w.rng.random() < 0.5, w.int32(0, 1, 2, 3)
    rows = 1 + 2 * (rep + level + max(min(buffers, 40), 0))
    out = np.zeros((w.other(rows), w.other(n)), np.int64)
    large = w.rng.random() < 0.5
    return miniblock.parse_chunks(
        data, w.indices(n, len(data)), w.indices(w.other(n), len(data)), rep, level, buffers, large, out
    )


def _expand_runs(w: Wild) -> object:
    data, n = w.bytes(), w.count()
    arrays = [w.indices(w.other(n), len(data)) for _ in range(4)]
    return miniblock.expand_runs(
        data, *arrays, w.indices(w.other(n), 300), w.int32(1, 2, 4, 8), w.bytes(w.length() * 8)
    )


def _variable_offsets(w: Wild) -> object:
    data, positions, sizes, counts = _chunks(w)
    return miniblock.variable_offsets(data, positions, sizes, counts, w.rng.random() < 0.5, w.indices(w.length(), 9))


def _variable_bytes(w: Wild) -> object:
    data, positions, _, counts = _chunks(w)
    offsets = w.indices(w.length(), len(data), rising=w.rng.random() < 0.7)
    return miniblock.variable_bytes(data, positions, counts, w.rng.random() < 0.5, offsets, w.bytes())


def _fsst(w: Wild) -> object:
    codes = w.bytes()
    offsets = w.indices(w.length(), len(codes), rising=w.rng.random() < 0.8)
    lengths = w.bytes(w.other(256))
    if w.rng.random() < 0.9:
        lengths %= 9
        if len(lengths) == 256:
            fsst.expanded_size(codes, lengths)
    ends = np.zeros(w.other(len(offsets)), np.int64)
    return fsst.expand(codes, offsets, w.words(np.uint64, w.other(256)), lengths, ends, w.bytes())


def _zip(w: Wild) -> tuple[object, ...]:
    data, n = w.bytes(), w.count()
    starts, stops = w.indices(n, len(data)), w.indices(w.other(n), len(data))
    shape = (
        w.int32(0, 1, 2, 4),
        w.int32(0, 1, 2, 8, 16),
        w.number(3),
        w.rng.choice((-1, 0, 1, 4, w.number())),
        w.int32(4, 8),
    )
    return data, starts, stops, *shape


def _unzip(w: Wild) -> object:
    offsets = np.zeros(w.length(), np.int64)
    size = w.length()
    reps, defs = w.words(np.uint16, w.other(size)), w.words(np.uint16, w.rng.choice((0, w.other(size))))
    return fullzip.unzip(*_zip(w), reps, defs, offsets, w.bytes())


def _split_fields(w: Wild) -> object:
    data, fields = w.bytes(), w.count()
    offsets = w.indices(w.length(), len(data), rising=w.rng.random() < 0.8)
    rows = max(len(offsets) - 1, 0)
    widths = np.array([w.rng.choice((-1, 0, 1, 8, w.number())) for _ in range(fields)], np.int64)
    prefixes = np.array([w.rng.choice((4, 8, 4, 8, w.number())) for _ in range(w.other(fields))], np.int64)
    outs = [np.zeros((w.other(fields), w.other(rows)), np.int64) for _ in range(2)]
    return fullzip.split_record_fields(data, offsets, widths, prefixes, *outs)


def _gather_slices(w: Wild) -> object:
    data, n = w.bytes(), w.count()
    return fullzip.gather_slices(
        data, w.indices(n, len(data)), w.indices(w.other(n), len(data)), w.number(9), w.bytes()
    )


def _list_layer(w: Wild) -> object:
    reps = w.words(np.uint16)
    defs = w.words(np.uint16, w.other(len(reps)))
    up_to = [w.rng.randrange(6) for _ in range(4)]
    size = w.rng.choice((len(reps) + 1, int(np.count_nonzero(reps)) + 1, w.length()))
    return levels.list_layer(reps, defs, *up_to, np.zeros(size, np.int64), np.zeros(w.other(size), np.uint8))


def _visible_before(w: Wild) -> object:
    at = w.indices(w.length(), 100, rising=w.rng.random() < 0.8)
    return levels.visible_before(w.words(np.uint16), w.rng.randrange(4), at, np.zeros(w.other(len(at)), np.int64))


def _pick(w: Wild) -> object:
    data, n = w.bytes(), w.count()
    codec, bits = w.int32(1, 2, 5, 6), w.int32(8, 16, 32, 64, 24, 256)
    size = n * max(min(bits, 4096), 0) // 8
    arrays = [w.indices(w.other(n), len(data)) for _ in range(3)]
    inside, large = w.indices(w.other(n), 20), w.rng.random() < 0.5
    return pick.pick_items(
        data, *arrays, inside, w.int32(0, 1, 2, 3, 4), w.int32(0, 1, 2, 16), large, codec, bits,
        w.words(np.uint16, w.other(n)), w.bytes(w.other(size)), *(np.zeros(w.other(n), np.int64) for _ in range(2)),
    )  # fmt: skip


def _pick_like_a_chunk(w: Wild) -> object:
    """A header that could be true, so that the levels and values behind it are reached."""
    large, codec, bits = w.rng.random() < 0.5, w.rng.choice((1, 2, 5, 6)), w.rng.choice((32, 64))
    bits = 8 if codec == 6 else bits
    level_bytes, value_bytes, count = w.rng.randrange(300), w.rng.randrange(3000), w.rng.randrange(1, 1100)
    head = count.to_bytes(2, "little") + level_bytes.to_bytes(2, "little")
    head += value_bytes.to_bytes(4 if large else 2, "little")
    head += bytes(-len(head) % 8)
    body = w.bytes(-level_bytes % 8 + level_bytes + value_bytes)
    data = np.concatenate((np.frombuffer(head, np.uint8), body))
    n = 3
    one = [np.full(n, value) for value in (0, len(data), count)]
    inside = np.array([w.rng.randrange(count) for _ in range(n)])
    out = np.zeros(0 if codec == 5 else n * bits // 8, np.uint8)
    ends = [np.zeros(n if codec == 5 else 0, np.int64) for _ in range(2)]
    level_codec, width = w.rng.choice((1, 2, 3, 4)), w.rng.randrange(17)
    return pick.pick_items(
        data, *one, inside, level_codec, width, large, codec, bits, np.zeros(n, np.uint16), out, *ends
    )


def _look_up(w: Wild) -> object:
    kind, width = w.rng.choice((np.uint8, np.uint16, np.uint32, np.uint64)), w.rng.choice((np.int32, np.int64))
    indices = w.words(kind)
    data = w.bytes()
    offsets = np.clip(w.indices(w.length(), len(data), rising=w.rng.random() < 0.8), -(2**31), 2**31 - 1).astype(width)
    ends = np.zeros(w.other(len(indices) + 1), width)
    total = dictionary.look_up_offsets(indices, offsets, ends, w.number(3000))
    if w.rng.random() < 0.3:
        ends[:] = w.words(width, len(ends))
    return total, dictionary.look_up_bytes(indices, offsets, data, ends, w.bytes())


def _gather_records(w: Wild) -> object:
    data = w.bytes()
    return fullzip.gather_records(data, w.indices(w.count(), len(data)), w.number(20), w.bytes())


CALLS: dict[str, Callable[[Wild], object]] = {
    "unpack_inline": _unpack_inline,
    "unpack_blocks": _unpack_blocks,
    "parse_chunks": _parse_chunks,
    "copy_flat": lambda w: miniblock.copy_flat(*_chunks(w), w.number(9), w.bytes()),
    "copy_bits": lambda w: miniblock.copy_bits(*_chunks(w), np.zeros(w.length(), np.uint8)),
    "expand_runs": _expand_runs,
    "join_streams": lambda w: miniblock.join_streams(*_chunks(w), w.int32(4, 8), w.bytes()),
    "variable_offsets": _variable_offsets,
    "variable_bytes": _variable_bytes,
    "narrow": lambda w: miniblock.narrow(w.indices(w.length(), 99), np.zeros(w.length(), np.int32)),
    "fsst": _fsst,
    "gather_records": _gather_records,
    "count_entries": lambda w: fullzip.count_entries(*_zip(w), np.zeros(w.rng.choice((3, 3, 3, 0, 2)), np.int64)),
    "unzip": _unzip,
    "split_record_fields": _split_fields,
    "gather_slices": _gather_slices,
    "count_slots": lambda w: levels.count_slots(w.words(np.uint16), w.rng.randrange(4), w.rng.randrange(4)),
    "validity": lambda w: levels.validity(w.words(np.uint16), w.rng.randrange(4), w.rng.randrange(4), w.bytes()),
    "renumber": lambda w: levels.renumber(w.words(np.uint16), w.words(np.uint16)),
    "list_layer": _list_layer,
    "count_visible": lambda w: levels.count_visible(w.words(np.uint16), w.rng.randrange(4)),
    "visible_before": _visible_before,
    "block_size": lambda w: lz4.block_size(w.bytes()),
    "pick_items": _pick,
    "pick_items in a chunk": _pick_like_a_chunk,
    "look_up": _look_up,
}


def call_wildly(name: str, seed: int, times: int) -> int:
    """How many calls were answered; the others were refused with a ValueError, as wrong sizes are."""
    answered = 0
    for number in range(times):
        try:
            CALLS[name](Wild(seed * 1_000_003 + number))
            answered += 1
        except ValueError:
            continue
    return answered


def main() -> None:
    seed, seconds = int(sys.argv[1]), float(sys.argv[2])
    end = time.monotonic() + seconds
    rounds = 0
    while time.monotonic() < end:
        for name in CALLS:
            call_wildly(name, seed + rounds, 200)
        rounds += 1
    print(f"{rounds} rounds of {len(CALLS)} kernels")


if __name__ == "__main__":
    main()
