"""Feature flags: what a reader or writer must know to touch a version.

Spec table-format.md 2.4. ``reader_feature_flags`` gates opening,
``writer_feature_flags`` gates committing; some flags count only when both sides
have them.
"""

from __future__ import annotations

import enum

from lancelet.errors import CorruptFile, NotSupported


class Feature(enum.IntFlag):
    """The bits with a meaning."""

    DELETION_FILES = 1
    STABLE_ROW_IDS = 2
    V2_FORMAT = 4
    TABLE_CONFIG = 8
    BASE_PATHS = 16
    NO_TRANSACTION_FILE = 32
    OVERLAY_FILES = 64
    COVERING_INDICES = 128
    MIXED_FILE_VERSIONS = 256
    REUSE_INDEX_WITH_STABLE_ROW_IDS = 512
    TAGGED_REUSE_INDEX = 1024
    SPILLED_ROW_LINEAGE = 2048
    CLUSTERING = 4096
    FRAGMENT_TREE = 8192
    MANAGED_BLOBS = 16384
    NON_REUSABLE_FIELD_IDS = 32768
    ZONE_WRITE_SEEDS = 65536


# Flags of every open and commit are compared as plain numbers: members of an enumeration take ten times as long.
READABLE = int(
    Feature.DELETION_FILES
    | Feature.STABLE_ROW_IDS
    | Feature.V2_FORMAT
    | Feature.TABLE_CONFIG
    | Feature.BASE_PATHS
    | Feature.NO_TRANSACTION_FILE
    | Feature.COVERING_INDICES
    | Feature.MIXED_FILE_VERSIONS
    | Feature.TAGGED_REUSE_INDEX
    | Feature.SPILLED_ROW_LINEAGE
    | Feature.MANAGED_BLOBS
)
WRITABLE = int(READABLE | Feature.OVERLAY_FILES | Feature.NON_REUSABLE_FIELD_IDS)
"""What a commit may carry on."""
STICKY = int(Feature.MIXED_FILE_VERSIONS | Feature.TAGGED_REUSE_INDEX | Feature.MANAGED_BLOBS)
"""Flags for both sides that every later version keeps."""
PAIRED = (
    Feature.MIXED_FILE_VERSIONS,
    Feature.TAGGED_REUSE_INDEX,
    Feature.MANAGED_BLOBS,
    Feature.ZONE_WRITE_SEEDS,
)
_PAIRED = sum(PAIRED)
_FIELD_IDS = int(Feature.NON_REUSABLE_FIELD_IDS)


def check_readable(path: str, reader: int, writer: int, *, has_field_id_mark: bool) -> None:
    """Refuse a version whose flags contradict each other or ask for more than we know."""
    if unpaired := (reader ^ writer) & _PAIRED:
        feature = next(feature for feature in PAIRED if unpaired & feature)
        side = "reader" if reader & feature else "writer"
        raise CorruptFile(path, f"feature flag {_name(feature)} is set for the {side} only", "feature flags")
    if reader & _FIELD_IDS:
        raise CorruptFile(path, f"feature flag {_name(_FIELD_IDS)} is set for the reader", "feature flags")
    if bool(writer & _FIELD_IDS) != has_field_id_mark:
        raise CorruptFile(
            path,
            f"feature flag {_name(_FIELD_IDS)} and max_allocated_field_id must come together",
            "feature flags",
        )
    _refuse_unknown(path, reader & ~int(READABLE), "read")


def check_writable(path: str, writer: int) -> None:
    """Refuse to follow a version that asks its writers for more than we know."""
    _refuse_unknown(path, writer & ~int(WRITABLE), "written")


def _refuse_unknown(path: str, unknown: int, what: str) -> None:
    if unknown:
        bits = [1 << bit for bit in range(64) if unknown >> bit & 1]
        raise NotSupported(
            f"{path} needs {', '.join(map(_name, bits))} to be {what}, which this version of lancelet does not know; "
            "a newer lancelet may"
        )


def _name(bit: int) -> str:
    known = {feature.value: feature.name for feature in Feature}
    name = known.get(int(bit))
    return f"{name} ({int(bit)})" if name else f"unknown feature flag {int(bit)}"
