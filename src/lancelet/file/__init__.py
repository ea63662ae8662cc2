"""One .lance file: its container, and reading rows of its fields."""

from typing import TYPE_CHECKING, Any

from lancelet.file.cache import FileCache, OpenFile
from lancelet.file.reader import FileReader, open_file

if TYPE_CHECKING:
    from lancelet.file.lance_file import LanceFileReader

__all__ = ["FileCache", "FileReader", "LanceFileReader", "OpenFile", "open_file"]


def __getattr__(name: str) -> Any:
    """Tables do not need what reads single files."""
    if name == "LanceFileReader":
        from lancelet.file.lance_file import LanceFileReader

        return LanceFileReader
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
