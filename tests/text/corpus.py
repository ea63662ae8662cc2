"""Tables with texts, and what is in their indices by a tokenisation that anybody can follow."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import lance
import numpy as np
import pyarrow as pa

import lancelet
from lancelet.index.folder import IndexFolder
from lancelet.index.metadata import IndexMetadata, read_indices
from lancelet.index.text.metadata import Head
from lancelet.index.text.partition import Partition

PLAIN: Mapping[str, Any] = {
    "base_tokenizer": "whitespace",
    "stem": False,
    "remove_stop_words": False,
    "ascii_folding": False,
    "lower_case": False,
    "max_token_length": None,
}
"""Options with which tokens are what stands between spaces."""

Found = dict[bytes, dict[int, list[int]]]
"""Positions of tokens in rows."""


def documents(count: int, words: int = 60, seed: int = 1, longest: int = 40) -> list[str | None]:
    """Texts of common and of rare words; some are missing, some are empty, some repeat one word many times."""
    draw = random.Random(seed)
    vocabulary = [f"w{number}" for number in range(words)] + ["κύμα", "mer-é", "海", "🐚"]
    weights = [1 / (1 + number) for number in range(len(vocabulary))]
    found: list[str | None] = []
    for number in range(count):
        if number % 53 == 7:
            found.append(None if number % 2 else "  ")
        elif number % 97 == 3:
            found.append(" ".join(["w0"] * 300))
        else:
            found.append(" ".join([*draw.choices(vocabulary, weights, k=draw.randint(1, longest)), f"r{number // 3}"]))
    return found


def write(uri: str, texts: Sequence[Any], dtype: pa.DataType | None = None, **options: Any) -> lance.LanceDataset:
    """A table with the column ``text``, as pylance writes it."""
    table = pa.table({"text": pa.array(texts, dtype or pa.string()), "id": pa.array(range(len(texts)), pa.int64())})
    return lance.write_dataset(table, uri, **options)


def brute(texts: Sequence[str | None], rows: Sequence[int] | None = None) -> Found:
    """Where each word is."""
    found: Found = defaultdict(lambda: defaultdict(list))
    for row, text in zip(rows if rows is not None else range(len(texts)), texts, strict=True):
        for place, word in enumerate((text or "").split()):
            found[word.encode()][row].append(place)
    return {word: dict(where) for word, where in found.items()}


def entries(uri: str) -> list[IndexMetadata]:
    return list(read_indices(lancelet.dataset(uri)._snapshot.manifest))


def partitions(uri: str, entry: IndexMetadata | None = None) -> list[Partition]:
    """The parts of an index, or of all segments."""
    snapshot = lancelet.dataset(uri)._snapshot
    found = []
    for one in [entry] if entry is not None else read_indices(snapshot.manifest):
        folder = IndexFolder(snapshot, one)
        head = Head.read(folder)
        found += [Partition(folder, head, part) for part in ([None] if head.parts is None else head.parts)]
    return found


def stored(parts: Sequence[Partition]) -> Found:
    """What parts say of where tokens are; without positions only how often, as so many zeros."""
    found: Found = defaultdict(dict)
    for part in parts:
        docs = part.documents
        items = list(part.tokens.items())
        assert [token for token, _ in items] == sorted(token for token, _ in items)
        assert len(items) == len(part.tokens) == part.num_tokens
        assert part.lengths().tolist() == [one.length for one in part.stream()]
        for (token, _), one in zip(items, part.postings([number for _, number in items], True), strict=True):
            where, freqs = one.decode(len(docs))
            positions = one.decode_positions(freqs) if part.has_positions else np.zeros(int(freqs.sum()), np.uint32)
            for doc, some in zip(where.tolist(), np.split(positions, np.cumsum(freqs)[:-1]), strict=True):
                assert int(docs.rows[doc]) not in found[token]
                found[token][int(docs.rows[doc])] = some.tolist()
    return dict(found)


def without_positions(found: Found) -> Found:
    return {token: {row: [0] * len(places) for row, places in rows.items()} for token, rows in found.items()}


def lengths(parts: Sequence[Partition]) -> dict[int, int]:
    """How many tokens each document has."""
    return {
        row: length
        for part in parts
        for row, length in zip(part.documents.rows.tolist(), part.documents.lengths.tolist(), strict=True)
    }
