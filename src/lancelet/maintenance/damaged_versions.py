"""Going on when manifests are damaged, without losing anything that may still be of use.

The damaged manifest is the only one that knows what its version was. So nothing is written over it or removed: the
newest version that can be read becomes the newest again as a *new* version, under a number that was never given, and
the damaged file gets another name beside the others. Whoever saw the lost version does not find another one under its
number, and whoever finds a copy of the manifest puts it back under its old name. The files that only the lost
version named stay for a week at least, as all files that no version names do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lancelet.errors import CommitConflict, CorruptFile, NotSupported
from lancelet.table.commit import operations as ops
from lancelet.table.commit.fragment_reuse import read_rewrites
from lancelet.table.commit.next_manifest import next_manifest
from lancelet.table.commit.run import write_hint
from lancelet.table.commit.transactions import transaction_message
from lancelet.table.manifest.manifest_bytes import manifest_bytes
from lancelet.table.manifest.names import MAIN_BRANCH, ManifestName
from lancelet.table.manifest.snapshot import Snapshot
from lancelet.table.manifest.versions import list_versions, publish_version, read_named
from lancelet.table.refs.read import list_tags
from lancelet.table.registers.external import external_for

if TYPE_CHECKING:
    from lancelet.store import Store

SET_ASIDE = ".damaged"
"""What the name of a manifest that was set aside ends with."""


def damaged_versions(store: Store) -> list[ManifestName]:
    """The versions whose manifests cannot be read, the oldest first. Reads all manifests."""
    found = []
    for name in list_versions(store):
        try:
            read_named(store, name)
        except CorruptFile:
            found.append(name)
    return found


def set_aside(snapshot: Snapshot, damaged: list[ManifestName]) -> Snapshot:
    """Make a version the newest, if later ones are damaged, and give damaged manifests other names."""
    store = snapshot.store
    if external_for(store) is not None:
        raise NotSupported(
            f"the versions of {store.uri} are kept by a database or a namespace; damaged ones are to be taken out there"
        )
    lost = {name.version for name in damaged}
    for tag in list_tags(snapshot.root):
        if tag.version in lost and (tag.branch or MAIN_BRANCH) == (snapshot.manifest.branch or MAIN_BRANCH):
            raise CommitConflict(
                store.uri,
                tag.version,
                f"tag {tag.name} points at version {tag.version}, which is damaged; delete it first",
            )
    newest = list_versions(store)[-1]
    if newest.version in lost:
        snapshot = _restored(snapshot, ManifestName(newest.version + 1, newest.scheme))
    for name in damaged:
        store.copy(name.path, aside_path(name))
        store.delete(name.path)
    return snapshot


def aside_path(name: ManifestName) -> str:
    """Where a damaged manifest goes."""
    return name.path + SET_ASIDE


def _restored(snapshot: Snapshot, name: ManifestName) -> Snapshot:
    """A new version with the content of one that can be read."""
    manifest = snapshot.manifest
    transaction = ops.Transaction(manifest.version, ops.Restore(manifest.version))
    draft = next_manifest(manifest, transaction, name.version, restored=manifest, rewrites=read_rewrites(snapshot))
    body = transaction_message(transaction).SerializeToString()
    data = manifest_bytes(draft.message, draft.indices, body, draft.pages)
    if not publish_version(snapshot.store, name, data):
        raise CommitConflict(snapshot.uri, name.version, "somebody else made that version meanwhile; repair again")
    write_hint(snapshot.store, name.version)
    return Snapshot.of(snapshot.store, read_named(snapshot.store, name))
