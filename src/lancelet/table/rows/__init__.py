"""Which rows a fragment has: addresses, stable ids, versions, deletions."""
