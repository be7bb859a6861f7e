"""Questions about logs that take a few small fetches: offsets by time, timestamps, record sizes."""
