"""lancelet beside pylance and Parquet, in one run: ``make bench``."""

import os

# Read once, when pylance is imported: it would otherwise note every table that it creates.
os.environ.setdefault("LANCE_LOG", "error")
