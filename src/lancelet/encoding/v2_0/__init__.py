"""Decoding of file version 2.0 (spec file-format.md chapter 3)."""

from lancelet.encoding.v2_0.reader import ColumnReader20

__all__ = ["ColumnReader20"]
