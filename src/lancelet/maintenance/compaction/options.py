"""How a compaction is to be done: what the caller says, else what the table's config says, else the defaults."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from lancelet.errors import InvalidInput, InvalidOption, InvalidType, NotSupported
from lancelet.format.file_versions import LEGACY, plain_name, writable_version
from lancelet.writing.defaults import MAX_BYTES_PER_FILE

if TYPE_CHECKING:
    from lancelet.table.manifest.manifest import Manifest

CONFIG_PREFIX = "lance.compaction."
REENCODE, TRY_COPY, FORCE_COPY = MODES = ("reencode", "try_binary_copy", "force_binary_copy")


class CompactFilesOptions(TypedDict, total=False):
    """What a compaction can be told; see :meth:`lancelet.optimize.DatasetOptimizer.compact_files`."""

    target_rows_per_fragment: int
    max_rows_per_group: int
    max_bytes_per_file: int
    materialize_deletions: bool
    materialize_deletions_threshold: float
    num_threads: int
    batch_size: int
    compaction_mode: Literal["reencode", "try_binary_copy", "force_binary_copy"]
    binary_copy_read_batch_bytes: int
    defer_index_remap: bool
    max_source_fragments: int
    max_source_rows: int
    max_source_bytes: int
    excluded_fragment_ids: list[int]
    data_storage_version: str


class CompactionOptions(CompactFilesOptions, total=False):
    """What plans and commits of a compaction can be told."""

    io_buffer_size: int


@dataclass(frozen=True, slots=True)
class CompactionSettings:
    """Options of a compaction, complete and checked."""

    target_rows_per_fragment: int = 1 << 20
    max_rows_per_group: int = 1024
    """Rows of a batch in files of version 0.1."""
    max_bytes_per_file: int | None = None
    materialize_deletions: bool = True
    materialize_deletions_threshold: float = 0.1
    num_threads: int | None = None
    batch_size: int | None = None
    io_buffer_size: int | None = None
    """Accepted and without effect: reads are bounded by what they decode."""
    defer_index_remap: bool = False
    compaction_mode: str | None = None
    binary_copy_read_batch_bytes: int | None = 16 << 20
    """Accepted and without effect: pages are always encoded anew."""
    max_source_fragments: int | None = None
    max_source_rows: int | None = None
    max_source_bytes: int | None = None
    excluded_fragment_ids: tuple[int, ...] = ()
    max_overlays_per_fragment: int = 10
    data_storage_version: str | None = None
    """File version of the output; None until a table has been chosen."""

    @property
    def bytes_per_file(self) -> int:
        return self.max_bytes_per_file or MAX_BYTES_PER_FILE

    def to_json(self) -> dict[str, Any]:
        """A value that JSON can hold, under pylance's names."""
        return {
            **asdict(self),
            "excluded_fragment_ids": list(self.excluded_fragment_ids),
            "index_remap_mode": "Direct",
            "enable_binary_copy": False,
            "enable_binary_copy_force": False,
            "has_eager_remappable_index": None,
        }

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> CompactionSettings:
        """What :meth:`to_json` showed."""
        known = {name: content[name] for name in cls.__slots__ if name in content}
        try:
            return cls(**{**known, "excluded_fragment_ids": tuple(known.get("excluded_fragment_ids") or ())})
        except TypeError as error:
            raise InvalidInput(f"not the JSON of compaction options: {error}") from None


def compaction_settings(given: Mapping[str, object], manifest: Manifest) -> CompactionSettings:
    """Check the options that are given for a table, and fill in the others."""
    if not isinstance(given, Mapping):
        raise InvalidType(f"compaction options are a dict, not {type(given)}")
    for name in given:
        if name not in _CHECKS:
            raise InvalidInput(f"Invalid compaction option: {name}; there are {', '.join(_CHECKS)}")
    chosen = {name: _configured(name, text) for name, text in _config(manifest).items() if name not in given}
    chosen.update({name: _CHECKS[name](name, value) for name, value in given.items()})
    settings = CompactionSettings(**chosen)
    return replace(settings, data_storage_version=_output_version(settings.data_storage_version, manifest))


def _config(manifest: Manifest) -> dict[str, str]:
    """Options in the table's config; names that are no options are somebody else's."""
    names = {CONFIG_PREFIX + name: name for name in _CHECKS if name not in _NOT_CONFIGURED}
    return {names[key]: text for key, text in manifest.config.items() if key in names}


def _configured(name: str, text: str) -> Any:
    value: Any = text
    check = _CHECKS[name]
    try:
        if check in (_number, _positive, _count):
            value = int(text)
        elif check is _fraction:
            value = float(text)
        elif check is _switch:
            value = {"true": True, "false": False}[text.lower()]
    except (ValueError, KeyError):
        raise InvalidInput(
            f"Invalid value for {CONFIG_PREFIX}{name}: {text!r}; change it with update_config, or give {name} yourself"
        ) from None
    return check(name, value)


def _output_version(asked: str | None, manifest: Manifest) -> str:
    """The file version of the output; one that cannot be written is refused when there is something to write."""
    stored = manifest.data_storage_version
    if asked is None:
        return stored
    if (asked == LEGACY) != (stored == LEGACY):
        raise InvalidOption(
            f"data_storage_version is {asked}, but the table is written in {stored}; files of version {LEGACY} and later "
            "ones cannot be in one table, so that compaction keeps to the one side: leave data_storage_version out, or write "
            f"the table anew with write_dataset(dataset.to_table(), uri, mode='overwrite', data_storage_version='{asked}')"
        )
    return asked


def check_output(settings: CompactionSettings, uri: str) -> str:
    """The file version to write, if files of it can be written as the options ask."""
    version = settings.data_storage_version
    assert version is not None
    if settings.compaction_mode == FORCE_COPY:
        raise NotSupported(
            "compaction_mode='force_binary_copy' is not supported: lancelet encodes pages anew, so that many small ones "
            "become few large ones; use 'try_binary_copy' or 'reencode'"
        )
    return writable_version(version)


def _integer(name: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidType(f"{name} is a number, not {value!r}")
    return value


def _number(name: str, value: object) -> int:
    """Zero is allowed, and means the default."""
    number = _integer(name, value)
    if number < 0:
        raise InvalidOption(f"{name} cannot be negative, got {number}")
    return number


def _count(name: str, value: object) -> int | None:
    return _number(name, value) or None


def _positive(name: str, value: object) -> int:
    number = _number(name, value)
    if number == 0:
        raise InvalidOption(f"{name} must be greater than 0; leave it out for the default")
    return number


def _fraction(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InvalidType(f"{name} is a fraction of the rows, not {value!r}")
    return float(value)


def _switch(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise InvalidType(f"{name} is True or False, not {value!r}")
    return value


def _mode(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise InvalidType(f"{name} is a text, not {value!r}")
    if value not in MODES:
        raise InvalidInput(f"Invalid compaction mode {value!r}; choose one of {', '.join(MODES)}")
    return value


def _ids(name: str, value: Any) -> tuple[int, ...]:
    try:
        numbers = [_number(name, number) for number in value]
    except TypeError as error:
        if isinstance(error, InvalidType):
            raise
        raise InvalidType(f"{name} is a list of fragment ids, not {value!r}") from None
    return tuple(sorted(set(numbers)))


def _version(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise InvalidType(f"{name} is a text, not {value!r}")
    try:
        return writable_version(value)
    except NotSupported:
        # Known, and refused later if there is something to write.
        return plain_name(value)


_CHECKS: dict[str, Callable[[str, Any], Any]] = {
    "target_rows_per_fragment": _positive,
    "max_rows_per_group": _number,
    "max_bytes_per_file": _count,
    "materialize_deletions": _switch,
    "materialize_deletions_threshold": _fraction,
    "num_threads": _count,
    "batch_size": _count,
    "io_buffer_size": _count,
    "defer_index_remap": _switch,
    "compaction_mode": _mode,
    "binary_copy_read_batch_bytes": _count,
    "max_source_fragments": _positive,
    "max_source_rows": _positive,
    "max_source_bytes": _positive,
    "excluded_fragment_ids": _ids,
    "data_storage_version": _version,
}
_NOT_CONFIGURED = ("num_threads", "io_buffer_size", "excluded_fragment_ids")
