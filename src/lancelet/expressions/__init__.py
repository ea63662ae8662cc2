"""The language of filters and projections: SQL and pyarrow expressions into one algebra, its types, functions and evaluation."""
