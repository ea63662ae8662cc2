"""What changed between two versions of a table."""
