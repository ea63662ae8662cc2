"""One .lance file: its container, reading and writing rows of its fields."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

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
    from lancelet.file.versions import stable_version

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

_LATER = {
    **dict.fromkeys(
        (
            "LanceBufferDescriptor",
            "LanceColumnMetadata",
            "LanceColumnStatistics",
            "LanceFileMetadata",
            "LanceFileReader",
            "LanceFileStatistics",
            "LancePageMetadata",
            "ReaderResults",
        ),
        "lance_file",
    ),
    "LanceFileWriter": "lance_file_writer",
    "LanceFileSession": "session",
    "ListResult": "session",
    "stable_version": "versions",
}


def __getattr__(name: str) -> Any:
    """Tables do not need what reads and writes single files."""
    if name in _LATER:
        return getattr(import_module(f"lancelet.file.{_LATER[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
