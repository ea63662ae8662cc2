"""Where the files of a MemWAL are, and what they are called (spec memwal.md 2).

::

    {table}/_mem_wal/{shard}/
        manifest/{bits(version)}.binpb       states of the shard, each written once
        manifest/version_hint.json           about which of them is the newest
        wal/{bits(position)}.arrow           entries of the log
        {8 hex}_gen_{generation}/            a run: a table of its own, and files beside it
            bloom_filter.bin
            _pk_index/page_data.lance, page_lookup.lance
        {24 hex}_batch_{number}/             a run of a batch that a task wrote, before it had a generation

``bits`` writes a number as 64 binary digits, the least significant first, so that neighbours lie in different
partitions of an object store. Such names do not sort by their numbers.
"""

from __future__ import annotations

import re
import secrets
from typing import Final
from uuid import UUID

from lancelet.errors import InvalidInput

MEM_WAL_DIR: Final = "_mem_wal"
MANIFEST_DIR: Final = "manifest"
WAL_DIR: Final = "wal"
GIVEN_UP_DIR: Final = "given_up"
"""Where entries of the log go that could not be read; nobody looks there."""
HINT: Final = f"{MANIFEST_DIR}/version_hint.json"
PK_INDEX_DIR: Final = "_pk_index"
BLOOM_FILTER: Final = "bloom_filter.bin"
TOMBSTONE: Final = "_tombstone"
"""The column that says which rows are deletions."""
GENERATION: Final = "_memtable_gen"
"""The column of a result that says which generation a row is from."""

_DIGITS: Final = 64
_RUN = re.compile(r"[0-9a-f]{8}_gen_([1-9][0-9]*)")
_STAGED = re.compile(r"[0-9a-f]{24}_batch_[0-9]+")


def bits(number: int) -> str:
    """A number as the name of a file has it.

    Examples
    --------
    >>> bits(5).rstrip("0")
    '101'
    """
    return f"{number:0{_DIGITS}b}"[::-1]


def number_of(name: str, suffix: str) -> int | None:
    """The number in the name of a file; None for other names."""
    digits = name.removesuffix(suffix)
    if not name.endswith(suffix) or len(digits) != _DIGITS or digits.strip("01"):
        return None
    return int(digits[::-1], 2)


def manifest_path(version: int) -> str:
    return f"{MANIFEST_DIR}/{bits(version)}.binpb"


def entry_path(position: int) -> str:
    return f"{WAL_DIR}/{bits(position)}.arrow"


def shard_folder(shard: UUID) -> str:
    """The folder of a shard in that of the table."""
    return f"{MEM_WAL_DIR}/{shard}"


def new_run_folder(generation: int) -> str:
    """A folder for a run; an attempt that fails leaves one that nothing refers to."""
    return f"{secrets.token_hex(4)}_gen_{generation}"


def run_generation(folder: str) -> int | None:
    """The generation that a folder is named by; None when it is not one of a run."""
    found = _RUN.fullmatch(folder)
    return int(found[1]) if found else None


def new_staged_folder(stem: bytes, batch: int) -> str:
    """A folder for a run that gets its generation later. Those of one job begin alike: ``stem`` has 8 bytes."""
    return f"{stem.hex()}{secrets.token_hex(4)}_batch_{batch}"


def is_staged(folder: str, stem: bytes | None = None) -> bool:
    """Whether a folder is one of a run that was written before it had a generation; with a stem, by this job."""
    return _STAGED.fullmatch(folder) is not None and (stem is None or folder.startswith(stem.hex()))


def shard_of(text: str | UUID) -> UUID:
    """A shard by its name."""
    try:
        return text if isinstance(text, UUID) else UUID(text)
    except (ValueError, AttributeError, TypeError):
        raise InvalidInput(f"Invalid shard_id UUID: {text!r}; a shard is named by the text of a UUID") from None
