"""What reads cost, and how large the pieces are that they come in.

Estimates: where two ways to read are weighed, of about where they take equally long, which differs from machine to
machine; the others bound memory. ``make bench`` tells when one has aged.
"""

from __future__ import annotations

# Batches and units of work

DEFAULT_BATCH_SIZE = 8192
MIN_UNIT_ROWS = 1024
MOST_UNIT_BYTES = 32 << 20
"""Units have fewer rows than that when these are wider than 32 KiB."""
MOST_SPARSE_ROWS = 1 << 20
"""How far a unit may reach when only a few of its rows are read: smaller ones would be little work each."""
GAP_ROWS = 4096
"""Rows that nobody wants end a unit where there are so many of them."""
LITTLE_ROWS = 64
LITTLE_BYTES = 1 << 20
"""So few rows, or so little, are read one fragment after the other."""

FEWEST_TOGETHER = 16
MOST_TOGETHER = 64
TOGETHER_ROWS = 1 << 15
"""Units of few rows are read so many at a time: handing each to a thread, and a filter to each, takes longer than reading it."""

WHOLE_PAGES_BYTES = 32 << 20
"""Scans fetch pages of remote files whole, of as many columns as have so many bytes in a page together."""
SMALL_PAGE = 64 << 10
"""So small ones come whole when single rows of them are read."""

# Rows that were chosen

SPARSE_SHARE = 0.1
SPARSE_WIDE_SHARE = 0.75
"""A smaller share of a unit's rows is read row by row; of columns with wide values, this one."""
WIDE_BYTES = 256
MOST_TESTED_SHARE = 0.5
"""Where more rows than that have to be tested, all may as well be."""

# Rows of mapped files

TAKE_PIECE = 1500
"""Scattered rows make much more resident than themselves; this many at a time keep that bounded."""
BIG_COLUMN = 64 << 20
NOT_RESIDENT = 32 << 20
"""Of files from this size on, scattered rows are copied rather than mapped: several such files are hardly all in memory at once."""
MOST_COPIED = 64 << 20
"""And no more bytes at once than these: pages that are mapped can be dropped again, copies cannot."""
COPIED_AT_ONCE = 256 << 10
"""Of what is only looked at and let go: so much stays in the cache of the processor."""
FEW_TAKEN = 64
RANGES_AT_ONCE = 3
BLOB_PIECE_BYTES = 64 << 20
"""How much of blobs is in memory at once; a larger one comes alone."""
BLOB_BUFFER_BYTES = 512 << 10
"""How much of a blob that is read as a file comes at once, unless a caller says otherwise."""

# Answers of indices

MOST_NARROW_SHARE = 0.06
MOST_WIDE_SHARE = 0.5
"""Reading a larger share of an index takes longer than reading the column."""
ENTRIES_AN_ANSWER = 1024
"""However small it is, an answer takes as long as reading so many entries."""
FEW_INDEXED = 1 << 15
"""So few are read in no time."""
FEW_LEFT = 1024
ENTRIES_A_TEST = 256
"""With few rows left, testing one of them takes as long as reading so many entries of an index."""
FEW_ALLOWED = 4096
"""So few rows that a search may find are all compared: looking for them in an index takes longer."""

# What is kept

KEPT_PLANS = 64
"""For so many schemas and lists of columns what follows from them is kept: it is most of the work for a single row."""
KEPT_FILTER = 1000
"""Filters of so many characters are kept as they were parsed: the same one often goes with many searches."""
MAX_READERS = 4096
"""Fragments of a table."""
