"""Streams both ways: offsets that are table versions, and a sink that adds every batch once."""
