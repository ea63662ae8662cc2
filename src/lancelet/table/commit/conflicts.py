"""Whether a commit can follow one that was made since the version it was based on (spec table-format.md 7.3).

A row of the matrix is the operation being committed, a column the one that took
the version. Entries are verdicts, or the names of rules that look at both::

    .  compatible
    R  retryable: make the change again on the newest version
    I  incompatible

A rule returns a verdict as well. Rules that let a commit pass only after
changing it note that in ``Rebase``, for ``rebase.py`` to carry out.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from lancelet.errors import CommitConflict, RetryableCommitConflict
from lancelet.table.commit import operations as ops
from lancelet.table.commit.index_upkeep import MEM_WAL_INDEX
from lancelet.table.manifest.fragment import Fragment
from lancelet.table.rows.deletions import read_deletions
from lancelet.table.rows.roaring import decode_roaring

if TYPE_CHECKING:
    from lancelet.table.manifest.manifest import Manifest
    from lancelet.table.manifest.paths import Places

Rows: TypeAlias = Mapping[int, npt.NDArray[np.uint32]]
"""Physical row offsets by fragment id."""


class Verdict(enum.Enum):
    """What becomes of a commit."""

    PASS = "."
    RETRY = "R"
    REFUSE = "I"


PASS, RETRY, REFUSE = Verdict


@dataclass(slots=True)
class Rebase:
    """A commit on its way past others: what it does, and what has to change in it."""

    operation: Any
    affected_rows: Rows | None
    """Rows that a Delete or Update marked as deleted, when its writer knows them."""
    marked: set[int] = field(default_factory=set)
    """Fragments whose deletion files have to be joined with newer ones."""
    uncovered: list[tuple[frozenset[int], frozenset[int]]] = field(default_factory=list)
    """Fragments and fields whose values are not those that a new index was built from."""


@dataclass(frozen=True, slots=True)
class Committed:
    """The commit that took a version."""

    version: int
    operation: Any
    places: Places

    def deleted_rows(self, fragment: Fragment) -> npt.NDArray[np.uint32]:
        return read_deletions(self.places, fragment).offsets


def check_conflict(uri: str, rebase: Rebase, committed: Committed) -> None:
    """Raise if the commit cannot follow the committed one."""
    ours, theirs = _kind(rebase.operation), _kind(committed.operation)
    verdict = PASS
    for name in (*_MATRIX[ours][theirs].split("+"), "moved"):
        rule = _RULES.get(name)
        outcome = Verdict(name) if rule is None else rule(rebase, committed)
        if outcome is not PASS and verdict is not REFUSE:
            verdict = outcome
    if verdict is PASS:
        return
    did = type(committed.operation).__name__
    what = f"This {type(rebase.operation).__name__} transaction"
    if verdict is RETRY:
        raise RetryableCommitConflict(
            uri,
            committed.version,
            f"{what} was preempted by concurrent transaction {did} at version {committed.version}. "
            "Please retry it on the newest version",
        )
    raise CommitConflict(
        uri,
        committed.version,
        f"{what} is incompatible with concurrent transaction {did} at version {committed.version}; "
        "look at that version before doing it again",
    )


def _kind(operation: ops.Operation) -> str:
    if isinstance(operation, ops.Update):
        return "UpdateColumns" if operation.rewrites_columns else "UpdateRows"
    if isinstance(operation, ops.UpdateConfig):
        return "UpdateSchemaMetadata" if _edits_schema(operation) else "UpdateConfig"
    return type(operation).__name__


def _ids(fragments: Iterable[Fragment]) -> set[int]:
    return {fragment.id for fragment in fragments}


def _updated(operation: ops.Delete | ops.Update) -> tuple[Fragment, ...]:
    """Fragments that a Delete or Update changed."""
    return operation.updated_fragments


def _removed(operation: ops.Operation) -> set[int]:
    """Fragments that an operation took away."""
    match operation:
        case ops.Delete():
            return set(operation.deleted_fragment_ids)
        case ops.Update():
            return set(operation.removed_fragment_ids)
        case ops.Rewrite():
            return {number for group in operation.groups for number in _ids(group.old_fragments)}
    return set()


def _touched(operation: ops.Operation) -> set[int]:
    """Fragments that an operation changed or took away."""
    match operation:
        case ops.Delete() | ops.Update():
            return _ids(operation.updated_fragments) | _removed(operation)
        case ops.Rewrite():
            return _removed(operation)
        case ops.DataReplacement():
            return {number for number, _ in operation.replacements}
        case ops.DataOverlay():
            return {number for number, _ in operation.groups}
    return set()


def _share_fragment(rebase: Rebase, committed: Committed) -> Verdict:
    return RETRY if _touched(rebase.operation) & _touched(committed.operation) else PASS


def _by_row(rebase: Rebase, committed: Committed) -> Verdict:
    """Two sets of deleted rows in one fragment can be joined, if no row is in both."""
    ours, theirs = rebase.operation, committed.operation
    shared = _touched(ours) & _touched(theirs)
    if not shared:
        return PASS
    if rebase.affected_rows is None or shared & (_removed(ours) | _removed(theirs)):
        return RETRY
    mine = {fragment.id: fragment for fragment in _updated(ours)}
    for fragment in _updated(theirs):
        if fragment.id in shared:
            if fragment.files != mine[fragment.id].files:
                return RETRY
            rebase.marked.add(fragment.id)
    return PASS


def _same_keys(rebase: Rebase, committed: Committed) -> Verdict:
    """Two merges may have inserted the same key."""
    ours, theirs = rebase.operation.inserted_keys, committed.operation.inserted_keys
    if ours is None:
        return PASS
    if theirs is None or ours.field_ids != theirs.field_ids:
        return RETRY
    if ours.hashes is not None and theirs.hashes is not None:
        return RETRY if ours.hashes & theirs.hashes else PASS
    parameters = [(keys.num_bits, keys.number_of_items, keys.probability) for keys in (ours, theirs)]
    bitmaps = [keys.bitmap for keys in (ours, theirs)]
    if None in bitmaps or parameters[0] != parameters[1] or len(bitmaps[0]) != len(bitmaps[1]):
        return RETRY
    left, right = (np.frombuffer(bitmap, np.uint8) for bitmap in bitmaps)
    return RETRY if np.any(left & right) else PASS


def _has_keys(rebase: Rebase, committed: Committed) -> Verdict:
    return PASS if rebase.operation.inserted_keys is None else RETRY


def _nulls_theirs(rebase: Rebase, committed: Committed) -> Verdict:
    """Values written without knowing that a column no longer takes nulls."""
    return PASS if committed.operation.preserves_nullability else RETRY


def _nulls_ours(rebase: Rebase, committed: Committed) -> Verdict:
    return PASS if rebase.operation.preserves_nullability else RETRY


def _overlay_rows(operation: ops.DataOverlay, number: int) -> set[int]:
    return {
        int(row)
        for fragment, overlays in operation.groups
        if fragment == number
        for overlay in overlays
        for bitmap in overlay.coverage
        for row in decode_roaring(bitmap, "transaction", "overlay coverage")
    }


def _moved_under_overlay(rebase: Rebase, committed: Committed) -> Verdict:
    """Our rows moved away from cells that got new values."""
    ours, theirs = rebase.operation, committed.operation
    for number in _touched(ours) & _touched(theirs):
        if number in _removed(ours) or rebase.affected_rows is None:
            return RETRY
        if _overlay_rows(theirs, number).intersection(rebase.affected_rows.get(number, np.empty(0)).tolist()):
            return RETRY
    return PASS


def _overlay_over_moved(rebase: Rebase, committed: Committed) -> Verdict:
    """Our new values are for rows that moved away."""
    ours, theirs = rebase.operation, committed.operation
    if _touched(ours) & _removed(theirs):
        return RETRY
    for fragment in _updated(theirs):
        if fragment.id in _touched(ours):
            gone = committed.deleted_rows(fragment).tolist()
            if _overlay_rows(ours, fragment.id).intersection(gone):
                return RETRY
    return PASS


def _overlay_same_field(rebase: Rebase, committed: Committed) -> Verdict:
    ours, theirs = rebase.operation, committed.operation
    for number, overlays in theirs.groups:
        fields = {field for overlay in overlays for field in overlay.file.fields}
        if number in _touched(ours) and fields.intersection(ours.fields_modified):
            return RETRY
    return PASS


def _overlay_removed(rebase: Rebase, committed: Committed) -> Verdict:
    return RETRY if _touched(rebase.operation) & _removed(committed.operation) else PASS


def _covers(operation: ops.CreateIndex, fragments: set[int]) -> bool:
    for index in operation.new_indices:
        covered = index.fragment_ids
        if index.fields and (covered is None or covered & fragments):
            return True
    return False


def _index_of_rewritten(rebase: Rebase, committed: Committed) -> Verdict:
    """A new index has the rows' old addresses: of use only if the rewrite is remembered, and covers whole groups."""
    ours = rebase.operation
    if ours.moves is None:
        return RETRY if _covers(committed.operation, _removed(ours)) else PASS
    for index in committed.operation.new_indices:
        for group in ours.groups:
            old = _ids(group.old_fragments)
            inside = old if index.fragment_ids is None else old & index.fragment_ids
            if index.fields and inside and inside != old:
                return RETRY
    return PASS


def _rewrite_of_indexed(rebase: Rebase, committed: Committed) -> Verdict:
    return RETRY if _covers(rebase.operation, _removed(committed.operation)) else PASS


def _index_and_index(rebase: Rebase, committed: Committed) -> Verdict:
    ours, theirs = rebase.operation, committed.operation

    def names(indices: Iterable[ops.IndexSegment]) -> set[str]:
        return {index.name for index in indices}

    def uuids(indices: Iterable[ops.IndexSegment]) -> set[bytes]:
        return {index.uuid for index in indices}

    clash = (
        names(ours.new_indices) & names(theirs.new_indices)
        # Two that only drop an index agree.
        or ((ours.new_indices or theirs.new_indices) and uuids(ours.removed_indices) & uuids(theirs.removed_indices))
        or names(ours.new_indices) & names(theirs.removed_indices)
        or names(ours.removed_indices) & names(theirs.new_indices)
    )
    return RETRY if clash else PASS


def _index_of_updated(rebase: Rebase, committed: Committed) -> Verdict:
    """A new index was built from values that have changed since in some fragments."""
    theirs = committed.operation
    rebase.uncovered.append((frozenset(_ids(theirs.updated_fragments)), frozenset(theirs.fields_modified)))
    return PASS


def _index_of_replaced(rebase: Rebase, committed: Committed) -> Verdict:
    replaced = _replaced_fields(committed.operation)
    indexed = {field for index in rebase.operation.new_indices for field in index.fields}
    return RETRY if replaced & indexed else PASS


def _index_of_dropped(rebase: Rebase, committed: Committed) -> Verdict:
    """An index of a field that the table no longer has would be of no use to anybody."""
    live = {node.id for node in committed.operation.schema.walk()}
    indexed = {field for index in rebase.operation.new_indices for field in index.fields}
    return PASS if indexed <= live else RETRY


def _replaced_fields(operation: ops.DataReplacement) -> set[int]:
    return {field for _, file in operation.replacements for field in file.fields}


def _replaced_index(rebase: Rebase, committed: Committed) -> Verdict:
    indexed = {field for index in committed.operation.new_indices for field in index.fields}
    return RETRY if indexed & _replaced_fields(rebase.operation) else PASS


def _replaced_removed(rebase: Rebase, committed: Committed) -> Verdict:
    return REFUSE if _touched(rebase.operation) & _removed(committed.operation) else PASS


def _replaced_updated(rebase: Rebase, committed: Committed) -> Verdict:
    same = _touched(rebase.operation) & _touched(committed.operation)
    return (
        RETRY if same and _replaced_fields(rebase.operation).intersection(committed.operation.fields_modified) else PASS
    )


def _replaced_replaced(rebase: Rebase, committed: Committed) -> Verdict:
    ours, theirs = rebase.operation, committed.operation
    same = _touched(ours) & _touched(theirs)
    return RETRY if same and _replaced_fields(ours) & _replaced_fields(theirs) else PASS


def _replaced_dropped(rebase: Rebase, committed: Committed) -> Verdict:
    live = {node.id for node in committed.operation.schema.walk()}
    return PASS if _replaced_fields(rebase.operation) <= live else REFUSE


def _edits_schema(operation: ops.UpdateConfig) -> bool:
    return operation.schema_metadata is not None or bool(operation.field_metadata)


def _set_keys(edits: ops.MapEdits | None) -> set[str]:
    return set() if edits is None else {key for key, value in edits.updates.items() if value is not None}


def _keys(edits: ops.MapEdits | None) -> set[str]:
    return set() if edits is None else set(edits.updates)


def _overwrite_overwrite(rebase: Rebase, committed: Committed) -> Verdict:
    same = rebase.operation.config_upserts.keys() & committed.operation.config_upserts.keys()
    return REFUSE if same else RETRY


def _overwrite_config(rebase: Rebase, committed: Committed) -> Verdict:
    return REFUSE if rebase.operation.config_upserts.keys() & _keys(committed.operation.config) else PASS


def _config_overwrite(rebase: Rebase, committed: Committed) -> Verdict:
    return REFUSE if committed.operation.config_upserts.keys() & _keys(rebase.operation.config) else PASS


def _config_config(rebase: Rebase, committed: Committed) -> Verdict:
    ours, theirs = rebase.operation, committed.operation

    def clash(left: ops.MapEdits | None, right: ops.MapEdits | None) -> bool:
        # Two removals of one key agree.
        return bool(_keys(left) & _set_keys(right) or _set_keys(left) & _keys(right))

    same = (
        clash(ours.config, theirs.config)
        or clash(ours.table_metadata, theirs.table_metadata)
        or (ours.schema_metadata is not None and theirs.schema_metadata is not None)
        or bool(ours.field_metadata.keys() & theirs.field_metadata.keys())
    )
    return REFUSE if same else PASS


def _bases_bases(rebase: Rebase, committed: Committed) -> Verdict:
    for ours in rebase.operation.new_bases:
        for theirs in committed.operation.new_bases:
            same_id = bool(ours.id) and ours.id == theirs.id
            same_name = ours.name is not None and ours.name == theirs.name
            if same_id or same_name or ours.path == theirs.path:
                return REFUSE
    return PASS


def _by_shard(rebase: Rebase, committed: Committed) -> Verdict:
    """Runs of one MemWAL shard go into a table in order, each once."""
    done = {table.shard: table.generation for table in committed.operation.compacted_sstables}
    verdict = PASS
    for table in rebase.operation.compacted_sstables:
        if table.shard in done:
            if done[table.shard] >= table.generation:
                return REFUSE
            verdict = RETRY
    return verdict


def _once(rebase: Rebase, committed: Committed) -> Verdict:
    """Runs of a table without a key only add rows: neither rows nor keys tell that somebody else has added them."""
    ours = rebase.operation
    return PASS if ours.inserted_keys is not None or _touched(ours) else _by_shard(rebase, committed)


def _other_than_mem_wal(rebase: Rebase, committed: Committed) -> Verdict:
    indices = (*rebase.operation.new_indices, *rebase.operation.removed_indices)
    return PASS if indices and all(index.name == MEM_WAL_INDEX for index in indices) else REFUSE


def _mem_wal_index(rebase: Rebase, committed: Committed) -> Verdict:
    indices = (*committed.operation.new_indices, *committed.operation.removed_indices)
    return RETRY if any(index.name == MEM_WAL_INDEX for index in indices) else PASS


def _base_moved(rebase: Rebase, committed: Committed) -> Verdict:
    """Files that were written into a base path while it moved elsewhere are not where it is now."""
    ours, theirs = rebase.operation, committed.operation
    moved: set[int] = set()
    if isinstance(ours, ops.UpdateBases) and ours.moves:
        moved = {base.id for base in ours.new_bases} & _bases_of_new_files(theirs)
    elif isinstance(theirs, ops.UpdateBases):
        moved = {base.id for base in theirs.new_bases} & _bases_of_new_files(ours)
    return RETRY if moved else PASS


def _bases_of_new_files(operation: ops.Operation) -> set[int]:
    fragments: tuple[Fragment, ...] = ()
    match operation:
        case ops.Append() | ops.Overwrite():
            fragments = operation.fragments
        case ops.Update():
            fragments = operation.new_fragments
        case ops.Rewrite():
            fragments = tuple(fragment for group in operation.groups for fragment in group.new_fragments)
        case ops.DataReplacement():
            return {file.base_id for _, file in operation.replacements if file.base_id is not None}
    return {file.base_id for fragment in fragments for file in fragment.files if file.base_id is not None}


Rule: TypeAlias = Callable[[Rebase, Committed], Verdict]

_RULES: dict[str, Rule] = {
    "frag": _share_fragment,
    "row": _by_row,
    "key": _same_keys,
    "key?": _has_keys,
    "null": _nulls_theirs,
    "null!": _nulls_ours,
    "cell": _moved_under_overlay,
    "cell!": _overlay_over_moved,
    "cell?": _overlay_same_field,
    "gone": _overlay_removed,
    "index": _index_of_rewritten,
    "index!": _rewrite_of_indexed,
    "ix-ix": _index_and_index,
    "ix-up": _index_of_updated,
    "ix-rep": _index_of_replaced,
    "ix-drop": _index_of_dropped,
    "rep-ix": _replaced_index,
    "rep-gone": _replaced_removed,
    "rep-up": _replaced_updated,
    "rep-rep": _replaced_replaced,
    "rep-drop": _replaced_dropped,
    "ow-ow": _overwrite_overwrite,
    "ow-cf": _overwrite_config,
    "cf-ow": _config_overwrite,
    "cf-cf": _config_config,
    "bases": _bases_bases,
    "moved": _base_moved,
    "shard": _by_shard,
    "once": _once,
    "wal?": _other_than_mem_wal,
    "wal!": _mem_wal_index,
}

_COLUMNS = (
    "Append", "Delete", "UpdateRows", "UpdateColumns", "Rewrite", "Overwrite", "CreateIndex", "Merge", "Project", "Restore",
    "UpdateConfig", "UpdateSchemaMetadata", "DataReplacement", "DataOverlay", "ReserveFragments", "UpdateBases", "UpdateMemWalState",
    "Clone",
)  # fmt: skip

_ROWS = {
    #                        App   Del      UpRows  UpCols  Rewrite Overw CreIndex Merge Project Rest Conf  SchemaMeta DataRep DataOv Res Bases MemWal Clone
    "Append":               ".     .        .       .       .       I     .        null  null    I    .     .          .       .      .   .     I      I",
    "Delete":               ".     row      row     frag    frag    I     .        R     .       I    .     .          frag    .      .   .     I      I",
    "UpdateRows":           "key?  row      row+key+once frag+key+once frag I     .        R     null    I    .     .          frag    cell   .   .     shard  I",
    "UpdateColumns":        "key?  frag     frag+key frag+key frag  I     .        R     null    I    .     .          frag    cell?  .   .     shard  I",
    "Rewrite":              ".     frag     frag    frag    frag    I     index    R     .       I    .     .          frag    frag   .   .     .      I",
    "Overwrite":            ".     .        .       .       .       ow-ow .        .     .       .    ow-cf ow-cf      .       .      .   .     I      I",
    "CreateIndex":          ".     .        .       ix-up   index!  I     ix-ix    ix-drop ix-drop I  .     .          ix-rep  .      .   .     wal?   I",
    "Merge":                "R     R        R       R       R       I     .        R     I       I    .     R          R       R      .   .     I      I",
    "Project":              "null! .        null!   null!   .       I     .        R     R       I    .     .          null!   null!  .   .     I      I",
    "Restore":              ".     .        .       .       .       .     .        .     .       .    .     I          .       .      .   .     I      I",
    "UpdateConfig":         ".     .        .       .       .       cf-ow .        .     .       .    cf-cf cf-cf      .       .      .   .     .      I",
    "UpdateSchemaMetadata": ".     .        .       .       .       I     .        R     .       I    cf-cf cf-cf      .       .      .   .     .      I",
    "DataReplacement":      ".     rep-gone frag+rep-gone rep-up frag I   rep-ix   R     rep-drop+null I . .           rep-rep .      .   .     I      I",
    "DataOverlay":          ".     gone     cell!   .       frag    I     .        R     null    I    .     .          .       .      .   .     I      I",
    "ReserveFragments":     ".     .        .       .       .       I     .        .     .       I    .     .          .       .      .   .     .      I",
    "UpdateBases":          ".     .        .       .       .       .     .        .     .       .    .     .          .       .      .   bases .      I",
    "UpdateMemWalState":    "I     I        shard   shard   .       I     wal!     I     I       I    .     .          I       I      .   .     shard  I",
    "Clone":                ".     .        .       .       .       .     .        .     .       .    .     .          .       .      .   .     .      .",
}  # fmt: skip

_MATRIX = {ours: dict(zip(_COLUMNS, row.split(), strict=True)) for ours, row in _ROWS.items()}


def unknown_transaction(uri: str, manifest: Manifest, *, missing: bool) -> CommitConflict:
    """The error for a version that does not say what it did: nobody can tell whether ours may follow."""
    reason = (
        f"version {manifest.version} does not have a transaction file, nor a transaction in its manifest"
        if missing
        else f"version {manifest.version} was made by an operation that this version of lancelet does not know"
    )
    return CommitConflict(
        uri, manifest.version, f"{reason}; look at that version, then make the change again on the newest one"
    )
