"""Questions about a log that take a few small fetches: by time, by size."""
