"""How a write is to be done, checked once and in one place."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lancelet._naming.keywords import refuse_unknown
from lancelet._naming.texts import check_text
from lancelet.errors import InvalidInput, InvalidOption, InvalidType, NotSupported
from lancelet.file.checksums import CONFIG, are_wanted
from lancelet.file.writer import page_size
from lancelet.format.file_versions import DEFAULT_VERSION, LEGACY, writable_version
from lancelet.table.commit.operations import COMMIT_MESSAGE
from lancelet.table.manifest.manifest import BasePath
from lancelet.table.manifest.names import NamingScheme
from lancelet.writing.bases import numbered_bases
from lancelet.writing.defaults import MAX_BYTES_PER_FILE, MAX_ROWS_PER_FILE, ROWS_PER_GROUP
from lancelet.writing.fragments import Limits
from lancelet.writing.keywords import DEFAULTS, TableKeywords

if TYPE_CHECKING:
    from typing_extensions import Unpack

MODES = ("create", "append", "overwrite")
CLEANUP_KEYS = ("lance.auto_cleanup.interval", "lance.auto_cleanup.older_than")
COUNTS = (
    "max_rows_per_file",
    "max_bytes_per_file",
    "max_rows_per_group",
    "data_cache_bytes",
    "max_page_bytes",
    "blob_pack_file_size_threshold",
)
"""Pages are not made smaller than this on request: each costs a description in the footer."""


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """What the arguments of a write mean."""

    mode: str = "create"
    max_rows_per_file: int = MAX_ROWS_PER_FILE
    max_bytes_per_file: int = MAX_BYTES_PER_FILE
    max_rows_per_group: int = ROWS_PER_GROUP
    data_cache_bytes: int | None = None
    max_page_bytes: int | None = None
    version: str | None = None
    """The file version; None goes by the table, or is the default of a new one."""
    naming: NamingScheme = NamingScheme.V2
    stable_row_ids: bool = False
    config: Mapping[str, str] = field(default_factory=dict)
    """Entries for the config of a new table."""
    properties: Mapping[str, str] = field(default_factory=dict)
    """Kept with the transaction."""
    initial_bases: tuple[BasePath, ...] = ()
    """Base paths of a new table, with their ids."""
    target_bases: tuple[str, ...] = ()
    """Names or paths of the base paths that data files go to in turn; none: the table's own folder."""
    all_bases: bool | None = None
    """Data files go to all base paths in turn; if True, to the table's own folder first."""
    external_blobs: bool = False
    """Whether blobs may be references to anywhere."""
    ingest_blobs: bool = False
    """Whether blobs that are given by URI are read and stored as bytes."""
    pack_bytes: int | None = None
    """How large files become that blobs share; None goes by the fields."""
    checksums: bool | None = None
    """Whether files end with their checksums; None goes by the table's config."""

    def limits(self, columns: int, config: Mapping[str, str] | None = None) -> Limits:
        """For files with so many top-level columns, of a table with this config."""
        return Limits(
            self.max_rows_per_file,
            self.max_bytes_per_file,
            self.max_rows_per_group,
            page_size(columns, self.data_cache_bytes, self.max_page_bytes),
            self.pack_bytes,
            are_wanted(config or {}) if self.checksums is None else self.checksums,
        )


def write_options(
    mode: str = "create",
    **given: Unpack[TableKeywords],
) -> WriteOptions:
    """Check the arguments of :func:`lancelet.write_dataset`, under whose names they come."""
    if mode not in MODES:
        raise InvalidInput(f"mode is {mode!r}, but has to be one of {', '.join(MODES)}")
    refuse_unknown("write_dataset", given, TableKeywords)
    chosen: TableKeywords = {**DEFAULTS, **given}
    for name in COUNTS:
        number = chosen.get(name)
        if number is not None and not _is_positive(number):
            raise InvalidInput(f"{name} is a positive number, not {number!r}")
    refuse_lock(chosen.get("commit_lock"))
    blobs, outside = chosen["external_blob_mode"], chosen["allow_external_blob_outside_bases"]
    if blobs not in ("reference", "ingest"):
        raise InvalidInput(f"external_blob_mode is 'reference' or 'ingest', not {blobs!r}")
    if blobs == "ingest" and outside:
        raise InvalidOption(
            "allow_external_blob_outside_bases is about references; external_blob_mode='ingest' keeps none"
        )
    version, legacy = chosen.get("data_storage_version"), chosen.get("use_legacy_format")
    cleanup = chosen.get("auto_cleanup_options")
    if legacy is not None:
        warnings.warn(
            "use_legacy_format is out of use; data_storage_version names the file version",
            DeprecationWarning,
            stacklevel=3,
        )
        version = LEGACY if legacy else DEFAULT_VERSION
    return WriteOptions(
        mode,
        chosen["max_rows_per_file"],
        chosen["max_bytes_per_file"],
        chosen["max_rows_per_group"] or ROWS_PER_GROUP,
        chosen.get("data_cache_bytes"),
        chosen.get("max_page_bytes"),
        None if version is None else writable_version(version),
        NamingScheme.V2 if chosen["enable_v2_manifest_paths"] else NamingScheme.V1,
        chosen["enable_stable_row_ids"],
        {**({} if cleanup is None else cleanup_config(cleanup)), **_checksum_config(chosen.get("checksums"))},
        transaction_texts(chosen.get("commit_message"), chosen.get("transaction_properties")),
        tuple(numbered_bases(chosen.get("initial_bases") or ()).values()),
        _names(chosen.get("target_bases")),
        chosen.get("target_all_bases"),
        outside,
        blobs == "ingest",
        chosen.get("blob_pack_file_size_threshold"),
        chosen.get("checksums"),
    )


def _checksum_config(wanted: bool | None) -> dict[str, str]:
    """The entry for the config of a new table."""
    if wanted is not None and not isinstance(wanted, bool):
        raise InvalidType(f"checksums is True, False or None, not {wanted!r}")
    return {CONFIG: "true"} if wanted else {}


def _names(bases: Sequence[str] | None) -> tuple[str, ...]:
    if isinstance(bases, str) or not all(isinstance(base, str) for base in bases or ()):
        raise InvalidType(f"target_bases is a list of names or paths of base paths, not {bases!r}")
    return tuple(bases or ())


def _is_positive(number: Any) -> bool:
    return isinstance(number, int) and not isinstance(number, bool) and number > 0


def refuse_lock(commit_lock: Any) -> None:
    """Refuse locks, which were for stores without an atomic create; none of ours is."""
    if commit_lock is not None and not callable(commit_lock):
        raise InvalidType(f"commit_lock is called to take a lock, which {type(commit_lock)} cannot be")
    if commit_lock is not None:
        raise NotSupported("commit_lock is not supported: all stores that lancelet writes to commit atomically")


def transaction_texts(message: str | None, properties: Mapping[str, str] | None) -> dict[str, str]:
    """Properties of a transaction, with the commit's message among them."""
    texts = dict(properties or {})
    if message is not None:
        texts[COMMIT_MESSAGE] = message
    for key, value in texts.items():
        check_text(key, "a key of the transaction's properties")
        check_text(value, "the commit's message" if key == COMMIT_MESSAGE else f"the property {key!r}")
    return texts


def cleanup_config(options: Any) -> dict[str, str]:
    """Entries of a table's config that have writers clean up."""
    try:
        interval, seconds = int(options["interval"]), int(options["older_than_seconds"])
    except (KeyError, TypeError, ValueError):
        raise InvalidInput(
            f"auto_cleanup_options has the numbers interval and older_than_seconds, not {options!r}"
        ) from None
    return dict(zip(CLEANUP_KEYS, (str(interval), _span(seconds)), strict=True))


def _span(seconds: int) -> str:
    """A length of time as the table's config has it, for example ``14days 1h``."""
    days, rest = divmod(seconds, 86400)
    hours, rest = divmod(rest, 3600)
    minutes, left = divmod(rest, 60)
    parts = [f"{days}day{'s' if days > 1 else ''}" if days else ""]
    parts += [f"{number}{unit}" for number, unit in ((hours, "h"), (minutes, "m"), (left, "s")) if number]
    return " ".join(part for part in parts if part) or "0s"
