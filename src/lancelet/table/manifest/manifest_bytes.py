"""Writing the file of a manifest; ``manifest.py`` has its layout.

The offset of the inline transaction goes into both fields that readers know:
23, and 21 for those of older releases.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lancelet.format.proto import table_pb2
from lancelet.table.manifest.manifest import FOOTER, LENGTH, MAGIC, MAJOR

if TYPE_CHECKING:
    from collections.abc import Sequence

MINOR = 2


def manifest_bytes(
    message: table_pb2.Manifest,
    indices: Sequence[table_pb2.IndexMetadata],
    transaction: bytes,
    pages: bytes = b"",
    fragments: bytes = b"",
) -> bytes:
    """The file of a manifest; sets the section offsets of ``message``.

    ``pages`` are the dictionary values of legacy tables, which come first; ``fragments`` are fields of the message that it
    does not have itself.
    """
    parts = [pages]
    position = len(pages)
    message.ClearField("index_section")
    if indices:
        section = table_pb2.IndexSection(indices=indices).SerializeToString()
        message.index_section = position
        parts += [LENGTH.pack(len(section)), section]
        position += LENGTH.size + len(section)
    message.transaction_section = message.transaction_section_deprecated = position
    parts += [LENGTH.pack(len(transaction)), transaction]
    position += LENGTH.size + len(transaction)
    body = fragments + message.SerializeToString()
    parts += [LENGTH.pack(len(body)), body, FOOTER.pack(position, MAJOR, MINOR, MAGIC)]
    return b"".join(parts)
