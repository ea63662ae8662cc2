"""Columns that every table has without listing them in its schema.

A file that keeps their values for a fragment (spec table-format.md 5) lists them under numbers of their own.
"""

from __future__ import annotations

import pyarrow as pa

ROW_ID = "_rowid"
ROW_ADDRESS = "_rowaddr"
ROW_OFFSET = "_rowoffset"
CREATED_AT = "_row_created_at_version"
LAST_UPDATED_AT = "_row_last_updated_at_version"

SYSTEM_FIELDS = {
    name: pa.field(name, pa.uint64()) for name in (ROW_ID, ROW_ADDRESS, ROW_OFFSET, LAST_UPDATED_AT, CREATED_AT)
}

DISTANCE = "_distance"
SCORE = "_score"
RELEVANCE = "_relevance_score"
QUERY_INDEX = "query_index"
DOC_INDEX = "_doc_index"
SEARCH_FIELDS = {
    DISTANCE: pa.field(DISTANCE, pa.float32()),
    SCORE: pa.field(SCORE, pa.float32()),
    DOC_INDEX: pa.field(DOC_INDEX, pa.list_(pa.field("item", pa.uint32(), nullable=False)), nullable=False),
    QUERY_INDEX: pa.field(QUERY_INDEX, pa.int32(), nullable=False),
}
"""Columns of the results of searches: how far a row is from the query, how well its text fits, which item of a list
that is, and from which query a row is where there are several."""

FUSED_FIELDS = {
    DISTANCE: SEARCH_FIELDS[DISTANCE],
    SCORE: SEARCH_FIELDS[SCORE],
    RELEVANCE: pa.field(RELEVANCE, pa.float32(), nullable=False),
}
"""Columns of the results of searches by texts and vectors together; the last is what rows are ordered by."""

ROW_ID_FIELD = -3
CREATED_AT_FIELD = -4
LAST_UPDATED_AT_FIELD = -5
