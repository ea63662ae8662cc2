"""What writes do unless told otherwise."""

MAX_ROWS_PER_FILE = 1 << 20
MAX_BYTES_PER_FILE = 90 << 30
ROWS_PER_GROUP = 1024
