"""How a writer works: when it writes to the log, when a MemTable becomes a run, when it waits (spec memwal.md 3)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final

from lancelet._naming.keywords import refuse_unknown
from lancelet.errors import InvalidInput, InvalidOption, InvalidType
from lancelet.memwal.keywords import WriterOptions

HNSW: Final = "hnsw."
HNSW_DEFAULTS: Final = {"num_edges": 20, "ef_construction": 150, "max_level": 7}


@dataclass(frozen=True, slots=True)
class WriterConfig:
    """The settings of a writer; every table has defaults of its own."""

    durable_write: bool = True
    """Whether a put waits until its rows are in the log."""
    enable_memtable: bool = True
    """Kept for others: writers here always have MemTables."""
    max_wal_buffer_size: int = 10 << 20
    """Bytes that wait for the log, at most, where puts do not wait themselves."""
    max_wal_flush_interval_ms: int = 100
    """How long they wait, at most."""
    max_wal_persist_retries: int = 3
    """How often an entry that the store refused is put again."""
    wal_persist_retry_base_delay_ms: int = 50
    """How long to wait before that; each time twice as long."""
    max_memtable_size: int = 256 << 20
    max_memtable_rows: int = 100_000
    max_memtable_batches: int = 8_000
    max_unflushed_memtable_bytes: int = 1 << 30
    """With more than this in MemTables that are not runs yet, puts wait."""
    manifest_scan_batch_size: int = 2
    backpressure_log_interval_ms: int = 30_000
    stats_log_interval_ms: int = 60_000
    hnsw: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Of vector indices, by their names: how graphs are built."""

    def with_options(self, options: Mapping[str, Any]) -> WriterConfig:
        """The same but for what a caller says; None says nothing."""
        refuse_unknown("a MemWAL writer", options, WriterOptions)
        chosen = {name: value for name, value in options.items() if value is not None}
        hnsw = chosen.pop("hnsw_params", None)
        for name, value in chosen.items():
            _check(name, value)
        if hnsw is not None:
            chosen["hnsw"] = {**self.hnsw, **_graphs(hnsw)}
        return replace(self, **chosen)

    def texts(self) -> dict[str, str]:
        """As the table keeps them."""
        found = {}
        for one in fields(self):
            if one.name != "hnsw":
                value = getattr(self, one.name)
                found[one.name] = str(value).lower() if isinstance(value, bool) else str(value)
        for name, options in self.hnsw.items():
            for key, number in {**HNSW_DEFAULTS, **options}.items():
                found[f"{HNSW}{name}.{key}"] = str(number)
        return found

    @classmethod
    def of_texts(cls, texts: Mapping[str, str]) -> WriterConfig:
        """What a table keeps; names that are not known are those of later releases."""
        found: dict[str, Any] = {}
        hnsw: dict[str, dict[str, int]] = {}
        for name, text in texts.items():
            if name.startswith(HNSW) and text.isdecimal():
                index, _, key = name.removeprefix(HNSW).rpartition(".")
                hnsw.setdefault(index, {})[key] = int(text)
            elif name in _FLAGS and text in ("true", "false"):
                found[name] = text == "true"
            elif name in _NUMBERS and text.isdecimal():
                found[name] = int(text)
            elif name in _FLAGS or name in _NUMBERS:
                raise InvalidInput(f"the default {name} of the table's MemWAL is {text!r}, which is no value for it")
        return replace(cls(**found), hnsw=hnsw)


_FLAGS = ("durable_write", "enable_memtable")
_NUMBERS = tuple(one.name for one in fields(WriterConfig) if one.name not in (*_FLAGS, "hnsw"))
_MAY_BE_ZERO = (
    "max_wal_flush_interval_ms",
    "max_wal_persist_retries",
    "wal_persist_retry_base_delay_ms",
    "backpressure_log_interval_ms",
    "stats_log_interval_ms",
)


def _check(name: str, value: Any) -> None:
    if name in _FLAGS:
        if not isinstance(value, bool):
            raise InvalidType(f"{name} is True or False, not {value!r}")
        return
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidType(f"{name} is a number, not {value!r}")
    if value < 0 or (value == 0 and name not in _MAY_BE_ZERO):
        raise InvalidOption(f"{name} is a positive number, not {value}")


def _graphs(params: Any) -> dict[str, dict[str, int]]:
    if not isinstance(params, Mapping):
        raise InvalidType(f"hnsw_params is a dict of dicts by the names of indices, not {params!r}")
    found: dict[str, dict[str, int]] = {}
    for name, options in params.items():
        if not isinstance(options, Mapping) or set(options) - set(HNSW_DEFAULTS):
            raise InvalidInput(f"hnsw_params[{name!r}] has {', '.join(HNSW_DEFAULTS)}, not {options!r}")
        for key, number in options.items():
            if isinstance(number, bool) or not isinstance(number, int) or number < 1:
                raise InvalidInput(f"hnsw_params[{name!r}][{key!r}] is a positive number, not {number!r}")
        found[str(name)] = dict(options)
    return found
