"""Keywords of methods that set MemWAL writers up, named once; apart from what they mean, which reading programs do not need."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypedDict


class WriterOptions(TypedDict, total=False):
    """What a caller may say about a writer; None says nothing."""

    durable_write: bool | None
    max_wal_buffer_size: int | None
    max_wal_flush_interval_ms: int | None
    max_memtable_size: int | None
    max_memtable_rows: int | None
    max_memtable_batches: int | None
    max_unflushed_memtable_bytes: int | None
    manifest_scan_batch_size: int | None
    backpressure_log_interval_ms: int | None
    stats_log_interval_ms: int | None
    hnsw_params: Mapping[str, Mapping[str, int]] | None
