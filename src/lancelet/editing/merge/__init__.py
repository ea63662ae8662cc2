"""merge_insert: rows of a source matched with those of a table, and what becomes of each."""
