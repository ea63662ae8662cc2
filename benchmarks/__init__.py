"""lancelet beside pylance and Parquet, in one run: ``make bench``."""
