"""Streams: what the user's thread iterates over."""
