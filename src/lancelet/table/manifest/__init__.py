"""A version: its manifest, the fragments in it, and where the files are that it names."""
