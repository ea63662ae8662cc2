"""Decoding of legacy files, version 0.1 (spec file-format.md chapter 4)."""

from lancelet.encoding.legacy.reader import LegacyReader
from lancelet.encoding.legacy.statistics import PageStatistics

__all__ = ["LegacyReader", "PageStatistics"]
