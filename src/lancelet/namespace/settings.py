"""Properties of a directory namespace (spec namespace.md 4). Those that nobody knows are ignored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lance_namespace import InvalidInputError

from lancelet.store.limit import OPTION as LIMIT
from lancelet.table.commit.patience import COMMIT_RETRIES

STORAGE = "storage."
_VENDED_MILLIS = "vend_input_storage_options_refresh_interval_millis"


@dataclass(frozen=True, slots=True)
class Settings:
    """How a namespace is to be used."""

    root: str
    """A URI or a path, without a slash at its end."""
    manifest: bool = True
    """Whether tables and namespaces are in a catalog, the table ``__manifest``."""
    listing: bool = True
    """Whether folders ``{name}.lance`` of the root are tables."""
    migrating: bool = False
    """Whether locations of the root's tables are told as the catalog has them, where they are in both."""
    indices: bool = False
    """Whether the catalog has its indices."""
    tracking: bool = False
    """Whether clients are told that versions of tables are made by the namespace."""
    retries: int = COMMIT_RETRIES
    """How often a change of the catalog is made again when others were faster."""
    vends: bool = False
    """Whether the storage options are told to clients."""
    vended_millis: int | None = None
    """For how long clients may use them; None: for ever."""
    counts: bool = False
    """Whether operations are counted."""
    storage: Mapping[str, str] = field(default_factory=dict)
    allowed: str | None = None
    """Prefixes that tables may refer to, beside the root; None: whatever their manifests say."""

    @classmethod
    def of(cls, properties: Mapping[str, object]) -> Settings:
        """Read properties, whose values are texts or print as such."""
        texts = {str(key): str(value) for key, value in properties.items()}
        root = texts.get("root")
        if not root:
            raise InvalidInputError("the property 'root' is missing: it says where the namespace is")
        manifest = _switch(texts, "manifest_enabled", True)
        listing = _switch(texts, "dir_listing_enabled", True)
        if not manifest and not listing:
            raise InvalidInputError(
                "manifest_enabled and dir_listing_enabled are both false, which leaves no table to be found"
            )
        return cls(
            root if root.endswith("://") else root.rstrip("/") or "/",
            manifest,
            listing,
            _switch(texts, "dir_listing_to_manifest_migration_enabled", False),
            _switch(texts, "inline_optimization_enabled", False),
            _switch(texts, "table_version_tracking_enabled", False),
            _number(texts, "commit_retries", COMMIT_RETRIES),
            _switch(texts, "vend_input_storage_options", False),
            _number(texts, _VENDED_MILLIS, 0) if _VENDED_MILLIS in texts else None,
            _switch(texts, "ops_metrics_enabled", False),
            {key.removeprefix(STORAGE): value for key, value in texts.items() if key.startswith(STORAGE)},
            texts.get(LIMIT),
        )


def _switch(texts: Mapping[str, str], name: str, default: bool) -> bool:
    text = texts.get(name, str(default)).strip().lower()
    if text not in ("true", "false", "1", "0", "yes", "no", "on", "off"):
        raise InvalidInputError(f"the property '{name}' is 'true' or 'false', not {texts[name]!r}")
    return text in ("true", "1", "yes", "on")


def _number(texts: Mapping[str, str], name: str, default: int) -> int:
    text = texts.get(name, str(default)).strip()
    if not text.isdecimal():
        raise InvalidInputError(f"the property '{name}' is a number, not {texts[name]!r}")
    return int(text)
