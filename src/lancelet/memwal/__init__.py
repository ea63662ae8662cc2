"""The streaming write path: a log and small tables in front of a table (spec memwal.md)."""
