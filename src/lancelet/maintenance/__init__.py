"""Keeping a table in shape: compaction, cleanup, checks and repair."""
