"""One .lance file: its container, reading and writing rows of its fields."""

from typing import TYPE_CHECKING

from lancelet._naming.lazy import lazy_names
from lancelet.file.cache import FileCache, OpenFile
from lancelet.file.reader import FileReader, open_file

if TYPE_CHECKING:
    from lancelet.file.lance_file import (
        LanceBufferDescriptor,
        LanceColumnMetadata,
        LanceColumnStatistics,
        LanceFileMetadata,
        LanceFileReader,
        LanceFileStatistics,
        LancePageMetadata,
        ReaderResults,
    )
    from lancelet.file.lance_file_writer import LanceFileWriter
    from lancelet.file.session import LanceFileSession, ListResult
    from lancelet.format.file_versions import stable_version

__all__ = [
    "FileCache",
    "FileReader",
    "LanceBufferDescriptor",
    "LanceColumnMetadata",
    "LanceColumnStatistics",
    "LanceFileMetadata",
    "LanceFileReader",
    "LanceFileSession",
    "LanceFileStatistics",
    "LanceFileWriter",
    "LancePageMetadata",
    "ListResult",
    "OpenFile",
    "ReaderResults",
    "open_file",
    "stable_version",
]


__getattr__ = lazy_names(
    __name__,
    {
        "lancelet.file.lance_file": (
            "LanceBufferDescriptor",
            "LanceColumnMetadata",
            "LanceColumnStatistics",
            "LanceFileMetadata",
            "LanceFileReader",
            "LanceFileStatistics",
            "LancePageMetadata",
            "ReaderResults",
        ),
        "lancelet.file.lance_file_writer": ("LanceFileWriter",),
        "lancelet.file.session": ("LanceFileSession", "ListResult"),
        "lancelet.format.file_versions": ("stable_version",),
    },
)
