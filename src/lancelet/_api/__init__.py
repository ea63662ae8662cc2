"""What users hold, behind the public names: scanners, writes, merges, transactions, tags, statistics."""
