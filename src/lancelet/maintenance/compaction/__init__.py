"""Compaction: small and worn fragments written anew, in tasks that other processes can run."""
