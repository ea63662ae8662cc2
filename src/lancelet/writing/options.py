"""How a write is to be done, checked once and in one place."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lancelet._naming.keywords import refuse_unknown
from lancelet._naming.texts import check_text
from lancelet.errors import InvalidInput, InvalidOption, InvalidType, NotSupported
from lancelet.file.checksums import CONFIG, are_wanted
from lancelet.file.writer import page_size
from lancelet.format.file_versions import DEFAULT_VERSION, LEGACY, writable_version
from lancelet.table.commit.properties import COMMIT_MESSAGE
from lancelet.table.manifest.manifest import BasePath
from lancelet.table.manifest.names import NamingScheme
from lancelet.writing.bases import numbered_bases
from lancelet.writing.defaults import ROWS_PER_GROUP
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
"""Keywords that are positive numbers."""


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """What the keywords of a write mean, under the same names where they mean themselves; defaults are filled in."""

    mode: str
    max_rows_per_file: int
    max_bytes_per_file: int
    max_rows_per_group: int
    data_cache_bytes: int | None
    max_page_bytes: int | None
    data_storage_version: str | None
    """None goes by the table, or is the default of a new one."""
    naming: NamingScheme
    enable_stable_row_ids: bool
    config: Mapping[str, str]
    """Entries for the config of a new table."""
    properties: Mapping[str, str]
    """Kept with the transaction."""
    initial_bases: tuple[BasePath, ...]
    """Base paths of a new table, with their ids."""
    target_bases: tuple[str, ...]
    """Names or paths of the base paths that data files go to in turn; none: the table's own folder."""
    target_all_bases: bool | None
    """Data files go to all base paths in turn; if True, to the table's own folder first."""
    ingest_blobs: bool
    """Whether blobs that are given by URI are read and stored as bytes."""
    allow_external_blob_outside_bases: bool
    """Whether blobs may be references to anywhere."""
    blob_pack_file_size_threshold: int | None
    """How large files become that blobs share; None goes by the fields."""
    checksums: bool | None
    """Whether files end with their checksums; None goes by the table's config."""

    def limits(self, columns: int, config: Mapping[str, str] | None = None) -> Limits:
        """For files with so many top-level columns, of a table with this config."""
        return Limits(
            self.max_rows_per_file,
            self.max_bytes_per_file,
            self.max_rows_per_group,
            page_size(columns, self.data_cache_bytes, self.max_page_bytes),
            self.blob_pack_file_size_threshold,
            are_wanted(config or {}) if self.checksums is None else self.checksums,
        )


def write_options(mode: str = "create", **keywords: Unpack[TableKeywords]) -> WriteOptions:
    """Check the arguments of :func:`lancelet.write_dataset`, under whose names they come."""
    if mode not in MODES:
        raise InvalidInput(f"mode is {mode!r}, but has to be one of {', '.join(MODES)}")
    refuse_unknown("write_dataset", keywords, TableKeywords)
    wanted: TableKeywords = {**DEFAULTS, **keywords}
    for name in COUNTS:
        number = wanted.get(name)
        if number is not None and not _is_positive(number):
            raise InvalidInput(f"{name} is a positive number, not {number!r}")
    refuse_lock(wanted.get("commit_lock"))
    blobs, outside = wanted["external_blob_mode"], wanted["allow_external_blob_outside_bases"]
    if blobs not in ("reference", "ingest"):
        raise InvalidInput(f"external_blob_mode is 'reference' or 'ingest', not {blobs!r}")
    if blobs == "ingest" and outside:
        raise InvalidOption(
            "allow_external_blob_outside_bases is about references; external_blob_mode='ingest' keeps none"
        )
    version, legacy = wanted.get("data_storage_version"), wanted.get("use_legacy_format")
    cleanup = wanted.get("auto_cleanup_options")
    if legacy is not None:
        warnings.warn(
            "use_legacy_format is out of use; data_storage_version names the file version",
            DeprecationWarning,
            stacklevel=3,
        )
        version = LEGACY if legacy else DEFAULT_VERSION
    return WriteOptions(
        mode=mode,
        max_rows_per_file=wanted["max_rows_per_file"],
        max_bytes_per_file=wanted["max_bytes_per_file"],
        max_rows_per_group=wanted["max_rows_per_group"] or ROWS_PER_GROUP,
        data_cache_bytes=wanted.get("data_cache_bytes"),
        max_page_bytes=wanted.get("max_page_bytes"),
        data_storage_version=None if version is None else writable_version(version),
        naming=NamingScheme.V2 if wanted["enable_v2_manifest_paths"] else NamingScheme.V1,
        enable_stable_row_ids=wanted["enable_stable_row_ids"],
        config={**({} if cleanup is None else cleanup_config(cleanup)), **_checksum_config(wanted.get("checksums"))},
        properties=transaction_texts(wanted.get("commit_message"), wanted.get("transaction_properties")),
        initial_bases=tuple(numbered_bases(wanted.get("initial_bases") or ()).values()),
        target_bases=_names(wanted.get("target_bases")),
        target_all_bases=wanted.get("target_all_bases"),
        ingest_blobs=blobs == "ingest",
        allow_external_blob_outside_bases=outside,
        blob_pack_file_size_threshold=wanted.get("blob_pack_file_size_threshold"),
        checksums=wanted.get("checksums"),
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


def _is_positive(number: object) -> bool:
    return isinstance(number, int) and not isinstance(number, bool) and number > 0


def refuse_lock(commit_lock: object) -> None:
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
