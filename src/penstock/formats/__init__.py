"""Formats: how the bytes of keys and values become typed columns."""
