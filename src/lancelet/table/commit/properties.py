"""Names among the texts that are kept with a transaction."""

from __future__ import annotations

COMMIT_MESSAGE = "__lance_commit_message"
"""The message of a commit."""
