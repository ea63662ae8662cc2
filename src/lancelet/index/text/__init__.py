"""Words of texts: how texts become tokens, the files of an index of them, and how it is searched."""
