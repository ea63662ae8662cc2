"""One .lance file: its container, and reading rows of its fields."""

from lancelet.file.cache import FileCache, OpenFile
from lancelet.file.reader import FileReader, open_file

__all__ = ["FileCache", "FileReader", "OpenFile", "open_file"]
