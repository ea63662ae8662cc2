"""Branches, clones and base paths: versions and files in other places."""
