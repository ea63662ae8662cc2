"""What a table is made of, as plain values."""
