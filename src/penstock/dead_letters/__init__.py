"""Records that could not be decoded, written to a topic exactly once."""
