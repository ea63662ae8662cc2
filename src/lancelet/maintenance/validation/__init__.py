"""Checks of a whole table."""
