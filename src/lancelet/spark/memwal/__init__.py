"""The MemWAL of a table on Spark: rows that go through it, reads that see them, and its compaction as a job."""
