"""Changing rows and columns of a table: delete, update, merge, add, alter and drop columns."""
