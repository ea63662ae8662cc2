"""Public names and keywords, each said once."""
